"""Measures of intervals, sets, quantiles and forecasts, as Keras metrics.

They compute what `intervals.py` does, batch by batch; NaN in, NaN out.
"""

import math

import keras
from keras import ops

from bhn_tf import keras_adapter
from bhn_tf.arguments import check_probability
from bhn_tf.two_classes import as_two_classes


class _MeanOfTargets(keras.metrics.Mean):
    """A mean of one value for each target, without padding."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch: targets [B, ...], predictions and weights."""
        mask = keras_adapter.mask_of(y_pred)
        y_pred = ops.convert_to_tensor(y_pred)
        # Large numbers exceed the range of half precision.
        dtype = keras.backend.result_type(y_pred.dtype, "float32")
        values = self._values(ops.cast(y_true, dtype), ops.cast(y_pred, dtype))
        weight = _weight(values, sample_weight, mask)
        if weight is not None:
            # Values of weight 0 may be anything, and 0 times NaN is NaN.
            values = ops.where(weight == 0, ops.zeros_like(values), values)
        super().update_state(values, weight)


class _OfBounds(_MeanOfTargets):
    """A mean over bounds stacked on the last axis, [B, ..., 2]."""

    def _values(self, y, bounds):
        return self._of_bounds(*_unstacked(y, bounds, "bounds", "lower and upper"))


@keras.saving.register_keras_serializable("bhn_tf")
class IntervalCoverage(_OfBounds):
    """`coverage` of bounds [B, ..., 2].

    Example:
        >>> float(IntervalCoverage()([1.0, 5.0], [[0.0, 2.0], [0.0, 2.0]]))
        0.5
    """

    def __init__(self, name: str = "interval_coverage", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def _of_bounds(self, y, lower, upper):
        inside = ops.cast((lower <= y) & (y <= upper), lower.dtype)
        is_unknown = ops.isnan(y) | ops.isnan(lower) | ops.isnan(upper)
        return ops.where(is_unknown, float("nan"), inside)


@keras.saving.register_keras_serializable("bhn_tf")
class IntervalWidth(_OfBounds):
    """`mean_width` of bounds [B, ..., 2].

    Example:
        >>> float(IntervalWidth()([1.0, 5.0], [[0.0, 2.0], [0.0, 4.0]]))
        3.0
    """

    def __init__(self, name: str = "interval_width", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def _of_bounds(self, y, lower, upper):
        return upper - lower


@keras.saving.register_keras_serializable("bhn_tf")
class IntervalScore(_OfBounds):
    """`interval_score` of bounds [B, ..., 2].

    Args:
        level: Probability of the intervals.

    Example:
        >>> float(IntervalScore(0.5)([1.0, 3.0], [[0.0, 2.0], [0.0, 2.0]]))
        4.0
    """

    def __init__(self, level: float, name: str = "interval_score", dtype=None):
        super().__init__(name=name, dtype=dtype)
        keras_adapter.set_lower_is_better(self)
        self.level = check_probability("level", level)

    def _of_bounds(self, y, lower, upper):
        outside = ops.maximum(lower - y, 0) + ops.maximum(y - upper, 0)
        outside = ops.where(ops.isnan(y), y, outside)
        return upper - lower + 2 / (1 - self.level) * outside

    def get_config(self):
        return {**super().get_config(), "level": self.level}


@keras.saving.register_keras_serializable("bhn_tf")
class Pinball(_MeanOfTargets):
    """`pinball` of predictions that are quantiles.

    Args:
        level: A probability.

    Example:
        >>> float(Pinball(0.75)([[1.0], [3.0]], [[2.0], [2.0]]))
        0.5
    """

    def __init__(self, level: float, name: str = "pinball", dtype=None):
        super().__init__(name=name, dtype=dtype)
        keras_adapter.set_lower_is_better(self)
        self.level = check_probability("level", level)

    def _values(self, y, quantile):
        y, quantile = _of_one_rank(y, quantile)
        _require_one_shape(y, quantile, f"quantiles of shape {tuple(quantile.shape)}")
        error = y - quantile
        return ops.maximum(self.level * error, (self.level - 1) * error)

    def get_config(self):
        return {**super().get_config(), "level": self.level}


@keras.saving.register_keras_serializable("bhn_tf")
class CRPS(_MeanOfTargets):
    """`crps` of Gaussians: mean and standard deviation stacked, [B, ..., 2].

    Example:
        >>> round(float(CRPS()([0.0], [[0.0, 1.0]])), 4)
        0.2337
    """

    def __init__(self, name: str = "crps", dtype=None):
        super().__init__(name=name, dtype=dtype)
        keras_adapter.set_lower_is_better(self)

    def _values(self, y, forecasts):
        y, mean, std = _unstacked(y, forecasts, "forecasts", "mean and deviation")
        # The error of an infinite forecast outweighs an infinite spread.
        is_infinite = ops.logical_or(ops.isinf(mean), ops.isinf(std))
        mean, std = (
            ops.where(ops.isinf(part), ops.zeros_like(part), part)
            for part in (mean, ops.abs(std))
        )
        error = y - mean
        ratio = ops.divide_no_nan(error, std)
        density = ops.exp(-ops.square(ratio) / 2) / math.sqrt(2 * math.pi)
        distance = 2 * std * density + error * ops.erf(ratio / math.sqrt(2))
        distance = ops.where(std > 0, distance, ops.abs(error))
        score = distance - std / math.sqrt(math.pi)
        return ops.where(is_infinite, score + math.inf, score)


@keras.saving.register_keras_serializable("bhn_tf")
class SetSize(_MeanOfTargets):
    """`set_size` of the classes whose probability reaches a threshold.

    Args:
        threshold: Least probability of a class in the set; sets of booleans work with
            the default. A single column, or [B], is the probability of the second of
            two classes.

    Example:
        >>> float(SetSize()([0, 1], [[True, False], [True, True]]))
        1.5
        >>> float(SetSize(0.1)([0, 1], [[0.6, 0.3, 0.1], [0.96, 0.02, 0.02]]))
        2.0
    """

    def __init__(self, threshold: float = 0.5, name: str = "set_size", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.threshold = check_probability("threshold", threshold)

    def _values(self, y, p):
        p = as_two_classes(p[:, None] if len(p.shape) == 1 else p)
        size = ops.sum(ops.cast(p >= self.threshold, p.dtype), axis=-1)
        return ops.where(ops.isnan(ops.sum(p, axis=-1)), float("nan"), size)

    def get_config(self):
        return {**super().get_config(), "threshold": self.threshold}


def _of_one_rank(y, predicted) -> tuple:
    """Targets and predictions; a trailing axis of 1 that only one has is removed."""
    ranks = len(y.shape), len(predicted.shape)
    if ranks[0] == ranks[1] + 1 and y.shape[-1] == 1:
        y = y[..., 0]
    elif ranks[1] == ranks[0] + 1 and predicted.shape[-1] == 1:
        predicted = predicted[..., 0]
    return y, predicted


def _require_one_shape(y, predicted, words: str) -> None:
    """Refuses shapes that would broadcast and so pair every row with every other."""
    same_rank = len(y.shape) == len(predicted.shape)
    if not same_rank or any(
        None not in sizes and sizes[0] != sizes[1]
        for sizes in zip(y.shape, predicted.shape, strict=True)
    ):
        raise ValueError(
            f"Targets of shape {tuple(y.shape)} do not fit {words}: expected one for "
            "each."
        )


def _unstacked(y, stacked, what: str, which: str) -> tuple:
    """Targets, and the two numbers for each from a last axis of 2."""
    shape = tuple(stacked.shape)
    if not shape or shape[-1] not in (2, None):
        raise ValueError(
            f"Got {what} of shape {shape}: expected {which} on the last axis, and "
            "nothing else."
        )
    first, second = stacked[..., 0], stacked[..., 1]
    y, _ = _of_one_rank(y, first)
    _require_one_shape(y, first, f"{what} of shape {shape}, {which} on the last axis")
    return y, first, second


def _weight(values, sample_weight, mask):
    """Weights of values [B, ...], given for rows, [B] or [B, 1], or for values."""
    weight = None
    for given in (sample_weight, mask):
        if given is None:
            continue
        given = ops.cast(given, values.dtype)
        if len(given.shape) == len(values.shape) + 1 and given.shape[-1] == 1:
            given = given[..., 0]
        if len(given.shape) > len(values.shape):
            raise ValueError(
                f"Sample weights of shape {tuple(given.shape)} do not fit targets of "
                f"shape {tuple(values.shape)}: expected one a row or one a target."
            )
        while len(given.shape) < len(values.shape):
            given = ops.expand_dims(given, -1)
        given = ops.broadcast_to(given, ops.shape(values))
        weight = given if weight is None else weight * given
    return weight
