"""Measures of predictive probabilities.

They are Keras metrics, and `reliability` for whole arrays. Nothing is clipped: a
class of probability 0 that comes true costs an infinite negative log-likelihood.

Probabilities are [B, C], or [B, ..., C] with an item per pixel or token; C = 1, or
[B], is binary and holds the probability of class 1. Labels are integers [B, ...] or
[B, ..., 1] (also as floats), or one-hot or soft labels [B, ..., C]. Labels outside
0..C-1, and predictions that are not probabilities (logits, for instance), are an error;
under XLA, which cannot raise one, the result is NaN. It is also NaN for a NaN
probability. Items that are masked or have sample weight 0 count as absent.
"""

from numbers import Real
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from bhn_tf import keras_adapter
from bhn_tf.metrics.labelled_items import labelled_items
from bhn_tf.two_classes import as_two_classes


def _weighted(weight: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """`weight * values`, where weight 0 also removes NaN and infinity."""
    return tf.where(weight == 0, tf.zeros_like(values), weight * values)


def bins_of(confidence: tf.Tensor, num_bins: int) -> tf.Tensor:
    """Returns the number of the bin of each confidence, [n].

    Args:
        confidence: [n], from 0 to 1.
        num_bins: Of equal width, (low, high]; 0 is in the first.

    Example:
        >>> bins_of(tf.constant([0.0, 0.5, 0.6]), 2).numpy().tolist()
        [0, 0, 1]
    """
    # Compared with the edges, since in `ceil(p * num_bins)` 0.07 * 100 > 7.
    inner_edges = tf.constant(np.arange(1, num_bins) / num_bins, confidence.dtype)
    return tf.searchsorted(inner_edges, confidence, side="left")


def _confidence(target: tf.Tensor, p: tf.Tensor, num_bins: int):
    """Confidence, target of the predicted class, and bin of each item, [n] each."""
    if p.shape[-1] == 1:
        confidence, correct = p[:, 0], target[:, 0]
    else:
        confidence = tf.reduce_max(p, axis=-1)
        correct = tf.gather(target, tf.argmax(p, axis=-1), axis=-1, batch_dims=1)
    return confidence, correct, bins_of(confidence, num_bins)


def _checked_num_bins(num_bins: int) -> int:
    is_finite = isinstance(num_bins, Real) and 1 <= num_bins < float("inf")
    if not is_finite or num_bins != int(num_bins):
        raise ValueError(
            f"Expected `num_bins` to be a whole number of at least 1, got {num_bins!r}."
        )
    return int(num_bins)


class _ProbabilityMetric(keras.metrics.Metric):
    """Sums over items, kept in float32 or better under any dtype policy."""

    def __init__(self, sums: dict[str, tuple], name: str, dtype):
        super().__init__(name=name, dtype=dtype)
        keras_adapter.set_lower_is_better(self)
        state_dtype = keras.backend.result_type(self.dtype, "float32")
        for key, shape in sums.items():
            sum_ = self.add_variable(shape, "zeros", dtype=state_dtype, name=key)
            setattr(self, key, sum_)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch: labels, probabilities and, optionally, weights [B, ...]."""
        mask = keras_adapter.mask_of(y_pred)
        self._add(*labelled_items(y_true, y_pred, sample_weight, mask))


class _MeanOfItems(_ProbabilityMetric):
    def __init__(self, name: str, dtype):
        super().__init__({"total": (), "count": ()}, name, dtype)

    def _add(self, target, p, weight):
        values = self._values(target, p)
        self.total.assign_add(tf.reduce_sum(_weighted(weight, values)))
        self.count.assign_add(tf.reduce_sum(weight))

    def result(self):
        """The weighted mean over all items so far; 0 before the first."""
        return keras.ops.divide_no_nan(self.total, self.count)


@keras.saving.register_keras_serializable("bhn_tf")
class NegativeLogLikelihood(_MeanOfItems):
    """Mean of -log p(label), unclipped: infinite where a label had probability 0.

    The logarithmic score of Gneiting and Raftery, "Strictly proper scoring rules,
    prediction, and estimation", 2007. Given the posterior-predictive mean it is the
    predictive negative log-likelihood, by which methods are compared.

    Args:
        name: name in the logs.
        dtype: of the result; the state is float32 or more.

    Returns:
        `result()`: scalar, nats an item (pixel, token), from 0 (best) to infinity.

    Raises:
        ValueError: shapes or values that `update_state` cannot read; in a graph an
            `InvalidArgumentError`, under XLA a NaN result.

    Example:
        >>> metric = NegativeLogLikelihood()
        >>> round(float(metric([0, 1], [[0.5, 0.5], [0.5, 0.5]])), 4)
        0.6931
    """

    def __init__(self, name: str = "negative_log_likelihood", dtype=None):
        super().__init__(name, dtype)

    def _values(self, target, p):
        target, p = as_two_classes(target), as_two_classes(p)
        # If rounding puts a mean just above 1, the other class is below 0.
        log_p = tf.math.log(tf.maximum(p, 0.0))
        # A term with target 0 is 0, even if the logarithm is infinite.
        terms = tf.where(target > 0, target * log_p, tf.zeros_like(p))
        return -tf.reduce_sum(terms, axis=-1)


@keras.saving.register_keras_serializable("bhn_tf")
class BrierScore(_MeanOfItems):
    """Mean squared distance of the probabilities from the one-hot label.

    Summed over the classes, as in Brier, "Verification of forecasts expressed in terms
    of probability", 1950: between 0 (best) and 2. For binary predictions with C = 1 it
    is (p - y)², between 0 and 1, half the value of the same prediction with C = 2.

    Args:
        name: name in the logs.
        dtype: of the result; the state is float32 or more.

    Returns:
        `result()`: scalar, without unit.

    Raises:
        ValueError: as `NegativeLogLikelihood`.

    Example:
        >>> metric = BrierScore()
        >>> float(metric([0, 1], [[0.5, 0.5], [0.0, 1.0]]))
        0.25
    """

    def __init__(self, name: str = "brier_score", dtype=None):
        super().__init__(name, dtype)

    def _values(self, target, p):
        return tf.reduce_sum(tf.square(p - target), axis=-1)


@keras.saving.register_keras_serializable("bhn_tf")
class ExpectedCalibrationError(_ProbabilityMetric):
    """Mean distance between confidence and accuracy over bins of confidence.

    Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML
    2017. The confidence is the largest probability, that of class 1 where C = 1; bins
    are of equal width, (low, high], with 0 in the first; a bin is represented by the
    mean of its confidences, not by its centre.

    Args:
        num_bins: number of bins over [0, 1].
        name: name in the logs.
        dtype: of the result; the state is float32 or more.

    Returns:
        `result()`: scalar between 0 (calibrated) and 1.

    Raises:
        ValueError: no bins; else as `NegativeLogLikelihood`.

    Example:
        >>> metric = ExpectedCalibrationError(num_bins=10)
        >>> round(float(metric([1, 0], [[0.2, 0.8], [0.2, 0.8]])), 4)
        0.3
    """

    def __init__(
        self, num_bins: int = 15, name: str = "expected_calibration_error", dtype=None
    ):
        self.num_bins = _checked_num_bins(num_bins)
        shape = (self.num_bins,)
        sums = {"confidence": shape, "correct": shape, "weight": shape}
        super().__init__(sums, name, dtype)

    def _add(self, target, p, weight):
        confidence, correct, index = _confidence(target, p, self.num_bins)
        for sum_, values in (
            (self.confidence, _weighted(weight, confidence)),
            (self.correct, _weighted(weight, correct)),
            (self.weight, weight),
        ):
            sum_.assign_add(tf.math.unsorted_segment_sum(values, index, self.num_bins))

    def result(self):
        """The error over all items so far; 0 before the first."""
        # A bin's weight cancels in its share times the distance of its means, so that
        # an empty bin needs no special case.
        distance = keras.ops.sum(keras.ops.abs(self.correct - self.confidence))
        return keras.ops.divide_no_nan(distance, keras.ops.sum(self.weight))

    def get_config(self) -> dict:
        return {**super().get_config(), "num_bins": self.num_bins}


class Reliability(NamedTuple):
    """What `reliability` found in each bin of confidence; arrays [num_bins].

    Attributes:
        confidence: mean confidence; NaN where the bin is empty.
        accuracy: share of predictions that were right; NaN where the bin is empty.
        count: number of predictions.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # In place of `tuple.count`.


def reliability(
    labels: ArrayLike, probabilities: ArrayLike, num_bins: int = 15
) -> Reliability:
    """Confidence and accuracy in bins of confidence, for a reliability diagram.

    DeGroot and Fienberg, "The comparison and evaluation of forecasters", 1983. The bins
    are those of `ExpectedCalibrationError`, which is the mean distance between
    confidence and accuracy, weighted by count.

    Args:
        labels: integers [B, ...] or one-hot [B, ..., C].
        probabilities: [B, ..., C]; C = 1, or [B], is that of class 1.
        num_bins: number of bins, of equal width over [0, 1].

    Returns:
        `Reliability(confidence, accuracy, count)`, arrays [num_bins].

    Raises:
        ValueError: no items; NaN probabilities; shapes or values that do not fit.

    Example:
        >>> bins = reliability([1, 0], [[0.2, 0.8], [0.2, 0.8]], num_bins=2)
        >>> bins.confidence.round(4).tolist(), bins.accuracy.tolist()
        ([nan, 0.8], [nan, 0.5])
        >>> bins.count.tolist()
        [0, 2]
    """
    num_bins = _checked_num_bins(num_bins)
    target, p, weight = labelled_items(labels, probabilities)
    if not p.shape[0]:
        raise ValueError("`reliability` got no predictions: give at least one row.")
    if np.isnan(weight).any():
        raise ValueError(
            f"`reliability` got {np.isnan(weight).sum()} predictions with NaN, which "
            "have no bin. Leave them out, after looking at where they come from."
        )
    confidence, correct, index = _confidence(target, p, num_bins)
    count = np.bincount(index, minlength=num_bins)
    confidence = np.bincount(index, weights=confidence, minlength=num_bins)
    correct = np.bincount(index, weights=correct, minlength=num_bins)
    size = np.where(count > 0, count, np.nan)
    return Reliability(confidence / size, correct / size, count)
