"""Conformity scores of real numbers: how far a target is from its prediction.

A score is a function of a prediction and a target; the interval for a threshold holds
the targets whose score is at most the threshold.
"""

import math

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.conformal.shapes import require_shape
from bhn_tf.likelihoods.roots import crossing, whole_crossing
from bhn_tf.user_warnings import warn_unless_registered

# Relative increase of a threshold that keeps the target it comes from inside.
_TOLERANCE = 1e-6


class Predictive:
    """The prediction of a model for a batch: a mixture over S draws.

    Args:
        likelihood: p(y|x, g) of real numbers.
        raws: Raw outputs [S, B, ...].

    Attributes:
        answers: Mean and standard deviations, [B, ...] each, by name.
    """

    def __init__(self, likelihood, raws):
        self._likelihood, self._raws = likelihood, raws
        self.answers = likelihood.summarize(raws)
        self._search = whole_crossing if likelihood.is_discrete else crossing

    def least(self, threshold):
        """The least y whose −log P(Y ≤ y) is at most the threshold, [B, ...]."""
        limit = self._loosened(threshold)
        return self._search(lambda y: self.log_tails(y)[0] + limit, self.mean, self.std)

    def greatest(self, threshold):
        """The greatest y whose −log P(Y ≥ y) is at most the threshold, [B, ...]."""
        limit = self._loosened(threshold)
        return -self._search(
            lambda y: self.log_tails(-y)[1] + limit, -self.mean, self.std
        )

    def _loosened(self, threshold):
        threshold = tf.cast(threshold, self.mean.dtype)
        return threshold + 2 * _TOLERANCE * (1.0 + tf.abs(threshold))

    def possible(self, lower, upper, is_around_mean: bool):
        """Returns bounds that are possible values of y, and leave room for rounding.

        A bound computed from the score of y is y only up to rounding, and whole numbers
        often lie exactly on a bound. An interval between two of these becomes the one
        nearest to the mean. Bounds around the mean have its rounding, too.
        """
        if self._likelihood.is_discrete:
            lower = tf.math.ceil(lower - _slack_of_counts(lower))
            upper = tf.floor(upper + _slack_of_counts(upper))
            nearest = tf.round(self.mean)
            is_empty = lower > upper
            lower, upper = (
                tf.where(is_empty, nearest, bound) for bound in (lower, upper)
            )
        else:
            origin = self.mean if is_around_mean else tf.zeros_like(self.mean)
            lower = lower - _rounding(lower, origin)
            upper = upper + _rounding(upper, origin)
        return tuple(self._likelihood.possible((lower, upper), self._raws))

    @property
    def mean(self) -> tf.Tensor:
        """The predictive mean, [B, ...]."""
        return self.answers["mean"]

    @property
    def std(self) -> tf.Tensor:
        """The predictive standard deviation, noise included, [B, ...]."""
        return self.answers["std"]

    def log_tails(self, y):
        """Returns log P(Y ≤ y) and log P(Y ≥ y) of the mixture, [B, ...] each."""
        tails = self._likelihood.log_tails(y, self._raws)
        return tuple(
            tf.reduce_logsumexp(tail, axis=0)
            - tf.math.log(tf.cast(tf.shape(tail)[0], tail.dtype))
            for tail in tails
        )


def _rounding(bound, origin):
    epsilon = 4.0 * np.finfo(bound.dtype.as_numpy_dtype).eps
    slack = epsilon * (tf.abs(bound) + tf.abs(origin))
    return tf.where(tf.math.is_inf(slack), tf.zeros_like(slack), slack)


def _slack_of_counts(bound):
    return tf.minimum(1e-3 + 1e-5 * tf.abs(bound), 0.5)


class IntervalConformity:
    """A conformity score of real numbers."""

    #: Whether bounds are computed from the mean; otherwise they are quantiles.
    is_around_mean = True

    #: Whether bounds are searched for, of a function about which nothing is known.
    is_searched = False

    def of_targets(self, predictive, y) -> tf.Tensor:
        """Returns the score of each target; higher is stranger.

        Args:
            predictive: A `Predictive`.
            y: Targets [B, ...].

        Returns:
            [B, ...]; NaN where the prediction is.
        """
        raise NotImplementedError

    def interval(self, predictive, threshold):
        """Returns the bounds of the targets with a score of at most the threshold.

        Args:
            predictive: A `Predictive`.
            threshold: [B, ...], or a shape that broadcasts to it.

        Returns:
            `(lower, upper)`, [B, ...] each.
        """
        raise NotImplementedError

    def get_config(self) -> dict:
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable("bhn_tf")
class Absolute(IntervalConformity):
    """|y − mean|: intervals of one width for all rows.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y, score="absolute")
    lower, upper = calibrated.predict_interval(x, level=0.9)
    ```
    """

    def of_targets(self, predictive, y):
        return tf.abs(y - predictive.mean)

    def interval(self, predictive, threshold):
        return predictive.mean - threshold, predictive.mean + threshold


@keras.saving.register_keras_serializable("bhn_tf")
class Normalized(IntervalConformity):
    """|y − mean| / std: intervals whose width follows the model's uncertainty.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y, score="normalized")
    lower, upper = calibrated.predict_interval(x, level=0.9)
    ```
    """

    def of_targets(self, predictive, y):
        return tf.abs(y - predictive.mean) / predictive.std

    def interval(self, predictive, threshold):
        # With an infinite std, every y has the score 0.
        is_endless = tf.math.is_inf(predictive.std)
        reach = tf.where(is_endless, predictive.std, threshold * predictive.std)
        return predictive.mean - reach, predictive.mean + reach


@keras.saving.register_keras_serializable("bhn_tf")
class Quantile(IntervalConformity):
    """−log of the smaller tail of the predictive mixture: asymmetric intervals.

    This is the logarithm of the probability integral transform: tails that are 0 in
    floating point still tell how many standard deviations away a target is.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y, score="quantile")
    lower, upper = calibrated.predict_interval(x, level=0.9)
    ```
    """

    is_around_mean = False

    def of_targets(self, predictive, y):
        return -tf.minimum(*predictive.log_tails(y))

    def interval(self, predictive, threshold):
        lower, upper = predictive.least(threshold), predictive.greatest(threshold)
        # At the least possible score, log 2, both bounds are the median up to rounding;
        # those of counts, whose tails overlap, may be in reverse order.
        return tf.minimum(lower, upper), tf.maximum(lower, upper)


@keras.saving.register_keras_serializable("bhn_tf")
class LowerBound(IntervalConformity):
    """−log P(Y ≤ y) of the predictive mixture: a lower bound of y, and no upper one.

    Waiting times may be censored: the time waited so far is scored, whether its end
    was seen or not. A lower bound of this time is also one of the whole waiting time:
    the promise holds, but if many rows are censored early, the bound is lower than it
    could be (Candès, Lei and Ren, "Conformalized survival analysis", 2023, section 2).

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y, score="lower_bound")
    at_least, _ = calibrated.predict_interval(x, level=0.9)
    ```
    """

    is_around_mean = False

    def of_targets(self, predictive, y):
        return -predictive.log_tails(y)[0]

    def interval(self, predictive, threshold):
        lower = predictive.least(threshold)
        return lower, _without_end(lower, math.inf)


@keras.saving.register_keras_serializable("bhn_tf")
class UpperBound(IntervalConformity):
    """−log P(Y ≥ y) of the predictive mixture: an upper bound of y, and no lower one.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y, score="upper_bound")
    _, at_most = calibrated.predict_interval(x, level=0.9)
    ```
    """

    is_around_mean = False

    def of_targets(self, predictive, y):
        return -predictive.log_tails(y)[1]

    def interval(self, predictive, threshold):
        upper = predictive.greatest(threshold)
        return _without_end(upper, -math.inf), upper


def _without_end(bound, infinity: float) -> tf.Tensor:
    """The infinite other side of a bound; NaN where the bound is."""
    other = tf.fill(tf.shape(bound), tf.constant(infinity, bound.dtype))
    return tf.where(tf.math.is_nan(bound), bound, other)


@keras.saving.register_keras_serializable("bhn_tf")
class CustomIntervalConformity(IntervalConformity):
    """A score of your own.

    Args:
        function: `function(y, answers)` → scores [B, ...], written in TensorFlow, where
            `answers` are those of `predict_uncertainty` (`mean`, `std`, ...). Scores
            are smallest at the mean and grow on both sides of it. To be saved, it must
            be registered (`keras.saving.register_keras_serializable`).
    """

    is_searched = True

    def __init__(self, function):
        warn_unless_registered(function)
        self.function = function

    def of_targets(self, predictive, y):
        scores = self.function(y, predictive.answers)
        return require_shape(scores, y.shape, "target")

    def interval(self, predictive, threshold):
        mean, std = predictive.mean, predictive.std
        tolerance = _TOLERANCE * tf.abs(threshold)

        def outside(distance, sign):
            y = mean + sign * tf.maximum(distance, 0.0)
            # Falls further at negative distances, so that there is one crossing.
            scores = self.function(y, predictive.answers)
            # Also where 0 or infinity, which have no tolerance, are the threshold.
            is_inside = scores <= threshold
            excess = tf.where(is_inside, -1.0, scores - threshold - 2 * tolerance)
            return excess + tf.minimum(distance, 0.0)

        def reach(sign):
            start = tf.zeros_like(mean)
            return crossing(lambda d: outside(d, sign), start, std)

        return (
            mean - tf.maximum(reach(-1.0), 0.0),
            mean + tf.maximum(reach(1.0), 0.0),
        )

    def get_config(self):
        return {"function": keras.saving.serialize_keras_object(self.function)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["function"]))
