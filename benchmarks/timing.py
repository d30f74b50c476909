"""Times of functions, taken in turns, so that a noisy machine disturbs all alike."""

import time
from collections.abc import Callable

import numpy as np


def in_turns(
    functions: dict[str, Callable], repeats: int, calls: int = 1
) -> dict[str, list[float]]:
    """Times functions one after the other, `repeats` times.

    Args:
        functions: What to time, by name; each is first called once, unmeasured.
        repeats: Measurements of each function.
        calls: Calls of a function in one measurement.

    Returns:
        Seconds of one call, a list of `repeats` for each name.
    """
    for function in functions.values():
        function()
    seconds = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls):
                function()
            seconds[name].append((time.perf_counter() - start) / calls)
    return seconds


def ratios(seconds: dict[str, list[float]], name: str, against: str) -> np.ndarray:
    """The ratio of two functions within each turn."""
    return np.divide(seconds[name], seconds[against])


def ratio(seconds: dict[str, list[float]], name: str, against: str) -> float:
    """The median of `ratios`."""
    return float(np.median(ratios(seconds, name, against)))


def milliseconds(seconds: list[float]) -> float:
    """The median, in milliseconds."""
    return float(np.median(seconds) * 1e3)
