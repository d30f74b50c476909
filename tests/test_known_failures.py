"""The table of known failures names tests that exist."""

import pathlib
import re

import pytest

TESTS = pathlib.Path(__file__).parent
ROWS = re.findall(
    r"^\| (B\d+) \| .+ \| (.+) \|$", (TESTS / "known_failures.md").read_text(), re.M
)


def test_every_number_has_a_row():
    assert len(dict(ROWS)) == len(ROWS) == 61


@pytest.mark.parametrize(("number", "held"), ROWS, ids=dict(ROWS))
def test_what_holds_it_off_is_there(number, held):
    path = None
    for name in re.findall("`([^`]+)`", held):
        file, _, function = name.rpartition("::")
        if file:
            path = TESTS / file
        if "/" in name and not file:
            # A command.
            assert (TESTS.parent / name).exists()
            continue
        assert re.search(rf"^def test_{function}\(", path.read_text(), re.M), name
