"""Ranges of a likelihood's learnable numbers, and the weights that represent them."""

import dataclasses
import math

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Range:
    """An open interval of numbers, mapped to the real line for an optimizer.

    Args:
        low: Lower end.
        high: Upper end. If infinite, a logarithm is learned, otherwise a logit.
        words: Describes a number of this range, for the error.
    """

    low: float
    high: float
    words: str

    def check(self, name: str, value) -> float:
        """Returns `value` as a float.

        Raises:
            ValueError: If it is not a number in the range.
        """
        # Allows arrays without axes, such as NumPy's sums, but no text.
        is_number = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
        if not (is_number and self._holds(float(value))):
            raise ValueError(f"Expected `{name}` to be {self.words}, got {value!r}.")
        if not self._holds(kept := _in_float32(value)):
            raise ValueError(
                f"Expected `{name}` to be {self.words}, got {value!r}, which in "
                f"float32 is {kept:g}."
            )
        return float(value)

    def _holds(self, value) -> bool:
        return self.low < value < self.high and math.isfinite(value)

    def weight_name(self, name: str) -> str:
        return f"log_{name}" if math.isinf(self.high) else f"logit_{name}"

    def to_weight(self, value: float) -> float:
        if math.isinf(self.high):
            return math.log(value - self.low)
        return math.log((value - self.low) / (self.high - value))

    def from_weight(self, weight) -> tf.Tensor:
        if math.isinf(self.high):
            # Adding a `low` of 0 would cost an operation.
            return tf.exp(weight) + self.low if self.low else tf.exp(weight)
        return self.low + (self.high - self.low) * tf.sigmoid(weight)


def _in_float32(value) -> float:
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float32(value))
    # Some processors take smaller numbers for 0.
    return rounded if abs(rounded) >= np.finfo("float32").tiny else 0.0


POSITIVE = Range(0.0, math.inf, "a positive number")
ABOVE_TWO = Range(2.0, math.inf, "a number above 2, so that the variance is finite")
SHARE = Range(0.0, 1.0, "a share between 0 and 1, both excluded")
