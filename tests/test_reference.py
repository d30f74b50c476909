"""The reference lists what is public, with the lines of its docstrings."""

from tests import reference


def test_the_page_is_that_of_the_docstrings():
    assert reference.PAGE.read_text() == reference.page(), (
        "Run `python -m tests.reference` to write docs/reference.md anew."
    )
