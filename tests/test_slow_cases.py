"""The list of slow cases names tests that exist, and few cases show each value."""

import ast
import itertools
import pathlib
from types import SimpleNamespace

import pytest

from tests.conftest import SLOW_CASES, left_out, pytest_collection_modifyitems

TESTS = pathlib.Path(__file__).parent


@pytest.mark.parametrize("line", SLOW_CASES)
def test_a_line_names_a_test(line):
    path, name = line.split("::")
    tree = ast.parse((TESTS / path).read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name.startswith("*") or name.partition("[")[0] in functions


def test_lines_are_sorted_and_there_once():
    assert sorted(set(SLOW_CASES)) == SLOW_CASES


def test_few_cases_show_each_value_of_each_parameter():
    parameters = {"name": "abc", "size": range(4), "flag": (False, True)}
    cases = [
        SimpleNamespace(
            callspec=SimpleNamespace(params=dict(zip(parameters, values, strict=True)))
        )
        for values in itertools.product(*parameters.values())
    ]
    slow = left_out(cases, 4)
    kept = [case.callspec.params for case in cases if case not in slow]
    assert len(kept) == 4 and len(slow) == 20
    for name, values in parameters.items():
        assert {params[name] for params in kept} == set(values)
    assert left_out(cases[:3], 4) == []


class Case:
    """As pytest's items."""

    def __init__(self, value, *markers):
        self.nodeid, self.markers = f"tests/test_x.py::test_x[{value}]", list(markers)
        self.callspec = SimpleNamespace(params={"value": value})

    def get_closest_marker(self, name):
        return next((each for each in self.markers if each.name == name), None)

    def add_marker(self, marker):
        self.markers.append(marker.mark)


def test_what_is_slow_anyway_is_none_of_the_few():
    few, slow = pytest.mark.few(2).mark, pytest.mark.slow.mark
    cases = [Case("a", few, slow), Case("b", few), Case("c", few), Case("d", few)]
    pytest_collection_modifyitems(cases)
    kept = [each for each in cases if not each.get_closest_marker("slow")]
    assert [each.callspec.params["value"] for each in kept] == ["b", "c"]
