"""How good intervals and quantiles are, as Keras metrics, batch by batch.

The numbers of `intervals.py`; NaN in, NaN out.
"""

import keras
from keras import ops

from bhn_tf.metrics.intervals import checked_level


class _OfBounds(keras.metrics.Mean):
    """A mean of bounds, which come stacked on the last axis, [B, ..., 2]."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch: targets [B, ...], bounds [B, ..., 2] and weights."""
        y_pred = ops.convert_to_tensor(y_pred)
        lower, upper = y_pred[..., 0], y_pred[..., 1]
        y, _ = _of_one_rank(ops.cast(y_true, y_pred.dtype), lower)
        _require_one_shape(
            y,
            lower,
            f"bounds of shape {tuple(y_pred.shape)}, lower and upper stacked on their "
            "last axis",
        )
        values = self._values(y, lower, upper)
        if sample_weight is not None:
            # What has no weight may be anything, and 0 times NaN is NaN.
            weight = ops.cast(sample_weight, values.dtype)
            weight = ops.reshape(
                weight, (*weight.shape, *[1] * (len(values.shape) - len(weight.shape)))
            )
            values = ops.where(weight == 0, ops.zeros_like(values), values)
        super().update_state(values, sample_weight)


@keras.saving.register_keras_serializable("bhn_tf")
class IntervalCoverage(_OfBounds):
    """`coverage` of bounds [B, ..., 2].

    Example:
        >>> float(IntervalCoverage()([1.0, 5.0], [[0.0, 2.0], [0.0, 2.0]]))
        0.5
    """

    def __init__(self, name: str = "interval_coverage", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def _values(self, y, lower, upper):
        inside = ops.cast((lower <= y) & (y <= upper), lower.dtype)
        sum_of_all = y + lower + upper
        return ops.where(ops.isnan(sum_of_all), sum_of_all, inside)


@keras.saving.register_keras_serializable("bhn_tf")
class IntervalWidth(_OfBounds):
    """`mean_width` of bounds [B, ..., 2].

    Example:
        >>> float(IntervalWidth()([1.0, 5.0], [[0.0, 2.0], [0.0, 4.0]]))
        3.0
    """

    def __init__(self, name: str = "interval_width", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def _values(self, y, lower, upper):
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
        self.level = checked_level(level)

    def _values(self, y, lower, upper):
        outside = ops.maximum(lower - y, 0) + ops.maximum(y - upper, 0)
        outside = ops.where(ops.isnan(y), y, outside)
        return upper - lower + 2 / (1 - self.level) * outside

    def get_config(self):
        return {**super().get_config(), "level": self.level}


@keras.saving.register_keras_serializable("bhn_tf")
class Pinball(keras.metrics.MeanMetricWrapper):
    """`pinball` of predictions that are quantiles.

    Args:
        level: A probability.

    Example:
        >>> float(Pinball(0.75)([[1.0], [3.0]], [[2.0], [2.0]]))
        0.5
    """

    def __init__(self, level: float, name: str = "pinball", dtype=None):
        self.level = checked_level(level)
        super().__init__(self._values, name=name, dtype=dtype)
        self._direction = "down"

    def _values(self, y_true, y_pred):
        quantile = ops.convert_to_tensor(y_pred)
        y, quantile = _of_one_rank(ops.cast(y_true, quantile.dtype), quantile)
        _require_one_shape(y, quantile, f"quantiles of shape {tuple(quantile.shape)}")
        error = y - quantile
        return ops.maximum(self.level * error, (self.level - 1) * error)

    def get_config(self):
        return {"level": self.level, "name": self.name, "dtype": self.dtype}


def _of_one_rank(y, predicted) -> tuple:
    """Targets and predictions; the one with a further axis of 1 at its end loses it."""
    ranks = len(y.shape), len(predicted.shape)
    if ranks[0] == ranks[1] + 1 and y.shape[-1] == 1:
        y = y[..., 0]
    elif ranks[1] == ranks[0] + 1 and predicted.shape[-1] == 1:
        predicted = predicted[..., 0]
    return y, predicted


def _require_one_shape(y, predicted, words: str) -> None:
    """Refuses what would be broadcast, which pairs every row with every other."""
    same_rank = len(y.shape) == len(predicted.shape)
    if not same_rank or any(
        None not in sizes and sizes[0] != sizes[1]
        for sizes in zip(y.shape, predicted.shape, strict=True)
    ):
        raise ValueError(
            f"Targets of shape {tuple(y.shape)} do not fit {words}: expected one for "
            "each."
        )
