"""Every run has the same initial weights, so that failures can be repeated."""

import collections
import gc
import os
import pathlib
import re

# Workers keep all cores busy: more threads in each would only take turns.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import keras
import pytest

LINES = (pathlib.Path(__file__).parent / "slow_cases.txt").read_text().splitlines()
SLOW_CASES = [line for line in LINES if line and not line.startswith("#")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than cores, since tests wait for processes that they start."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks as slow what is listed, and all but a `few` of the other cases."""
    expression = "|".join(re.escape(line).replace(r"\*", ".*") for line in SLOW_CASES)
    cases = collections.defaultdict(list)
    for item in items:
        if re.fullmatch(expression, item.nodeid.removeprefix("tests/")):
            item.add_marker(pytest.mark.slow)
        elif item.get_closest_marker("few") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_a_test in cases.values():
        (number,) = of_a_test[0].get_closest_marker("few").args
        for item in left_out(of_a_test, number):
            item.add_marker(pytest.mark.slow)


def left_out(cases, number):
    """All cases but `number` of them, which show as many values as they can.

    If the cases are all combinations, and `number` is that of the values of the
    parameter that has most of them, each value of each parameter is in a case that is
    kept.
    """

    def values(case):
        return [(name, id(value)) for name, value in case.callspec.params.items()]

    seen, left = collections.Counter(), list(cases)
    for _ in range(min(number, len(cases))):
        kept = min(left, key=lambda case: sum(seen[value] for value in values(case)))
        seen.update(values(kept))
        left.remove(kept)
    return left


def pytest_collection_finish():
    """Traced graphs are many small objects, which Python would look through often."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def graphs_of_module():
    """Collects the graphs of a module after it, while they are few."""
    yield
    gc.collect()


@pytest.fixture(autouse=True, scope="module")
def seed_of_module():
    """For what the tests of a module share."""
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def seed_of_test(seed_of_module):
    keras.utils.set_random_seed(0)
