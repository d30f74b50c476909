"""Likelihoods of positive numbers and of shares."""

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.distributional import Distributional, bounded
from bhn_tf.likelihoods.quantiles import central_interval
from bhn_tf.likelihoods.ranges import POSITIVE

tfd = tfp.distributions


class _Positive(Distributional):
    """Base of positive numbers; their intervals are found on the log scale."""

    def neutral_label(self, raw):
        return 1

    def valid_elements(self, y, raw_shape):
        y = tf.cast(y, tf.float32)
        return tf.math.is_finite(y) & (y > 0)

    def label_advice(self, raw_shape):
        return "give a number above 0 for each output."


@keras.saving.register_keras_serializable("bhn_tf")
class LogNormal(_Positive):
    """Positive numbers whose logarithm is Gaussian, with raw outputs as its mean.

    Labels are positive, [B, ..., C], or [B] for a single output. The mean of y is
    `exp(raw + stddev² / 2)`, its median `exp(raw)`.

    Args:
        stddev: Standard deviation of log y, roughly the relative error of y.
        trainable: Whether one standard deviation for all rows is learned.
        heteroscedastic: Whether the network gives each row its own: see `Gaussian`.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.LogNormal(stddev=0.1)
    likelihood.interval([[[0.0]]], 0.9)  # [[0.8483]], [[1.1788]]
    ```
    """

    varying = "stddev"

    def __init__(
        self,
        stddev: float = 1.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {"stddev": (stddev, POSITIVE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    def distribution(self, raw):
        return tfd.LogNormal(*self.logarithm_and_spread(raw))

    def interval(self, raws, level):
        return log_normal_interval(*self.logarithm_and_spread(raws), level)


def log_normal_interval(loc, stddev, level) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the central interval of a mixture over draws of log-normal numbers.

    Args:
        loc: Means of the logarithm under each draw, [S, B, ..., C].
        stddev: Standard deviations of the logarithm.
        level: Probability of the interval.
    """
    low, high = central_interval(tfd.Normal(loc, stddev), level)
    return tf.exp(low), tf.exp(high)


@keras.saving.register_keras_serializable("bhn_tf")
class Beta(Distributional):
    """Shares between 0 and 1: raw outputs [B, ..., C] are logits of the mean.

    Labels are inside (0, 1), [B, ..., C], or [B] for a single output.

    Args:
        concentration: Sum of the two exponents of the density, α + β: the larger, the
            less noise; the variance is `mean · (1 - mean) / (1 + concentration)`.
        trainable: Whether one concentration for all rows is learned.
        heteroscedastic: Whether the network gives each row its own: raw outputs
            [B, ..., 2 C] then hold C logits and C numbers whose softplus, times
            `concentration`, is the concentration.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Beta(concentration=2.0)
    likelihood.log_prob([[0.3]], [[0.0]])  # [0.], uniform
    ```
    """

    varying = "concentration"
    # If the concentration is large.
    needs_float64 = True

    # Beyond it, a float32 share rounds to 1.
    _largest_logit = 15.0

    def __init__(
        self,
        concentration: float = 2.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {"concentration": (concentration, POSITIVE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    def neutral_label(self, raw):
        return 0.5

    def distribution(self, raw):
        parts = self.parts(raw)
        logit = bounded(parts[0], -self._largest_logit, self._largest_logit)
        concentration = self.spread(parts)
        return tfd.Beta(
            concentration * tf.sigmoid(logit), concentration * tf.sigmoid(-logit)
        )

    def valid_elements(self, y, raw_shape):
        y = tf.cast(y, tf.float32)
        return (y > 0) & (y < 1)

    def label_advice(self, raw_shape):
        return "give a number between 0 and 1, both excluded, for each output."
