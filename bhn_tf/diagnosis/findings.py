"""What a diagnosis consists of: estimates with intervals, and findings."""

import dataclasses
from typing import NamedTuple

import numpy as np

# 95 % of a normal distribution lie within this many standard deviations.
_NORMAL_95 = 1.96


class Estimate(NamedTuple):
    """A number measured on rows or draws, and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        name: Its kind, as in the table of findings in `docs/diagnosis.md`.
        layer: Path of the layer concerned; `None` for the whole model.
        severity: "warning" if it makes predictions worse or untrue, "note" if it costs
            time or is worth knowing.
        value: The number that decided.
        message: What was measured, and what would be right.
        mend: What to do about it.
    """

    name: str
    layer: str | None
    severity: str
    value: float
    message: str
    mend: str


def mean_of(values: np.ndarray) -> Estimate:
    """Returns the mean of independent values and its normal interval.

    Args:
        values: [n].

    Example:
        >>> mean_of(np.array([1.0, 1.0, 1.0]))
        Estimate(value=1.0, low=1.0, high=1.0)
    """
    values = np.asarray(values, "float64")
    mean = float(values.mean())
    if len(values) < 2 or np.isinf(mean):
        return Estimate(mean, float("-inf"), float("inf"))
    half = float(_NORMAL_95 * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half)
