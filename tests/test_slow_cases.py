"""The list of slow cases names tests that exist."""

import ast
import pathlib

import pytest

from tests.conftest import SLOW_CASES

TESTS = pathlib.Path(__file__).parent


@pytest.mark.parametrize("line", SLOW_CASES)
def test_a_line_names_a_test(line):
    path, name = line.split("::")
    tree = ast.parse((TESTS / path).read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name.startswith("*") or name.partition("[")[0] in functions


def test_lines_are_sorted_and_there_once():
    assert sorted(set(SLOW_CASES)) == SLOW_CASES
