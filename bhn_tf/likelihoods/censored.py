"""Likelihoods of waiting times, some of which ended before the event was seen."""

import math

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.distributional import Distributional, bounded
from bhn_tf.likelihoods.likelihood import at_least_float32, require_rank
from bhn_tf.likelihoods.positive import log_normal_interval
from bhn_tf.likelihoods.quantiles import central_interval
from bhn_tf.likelihoods.ranges import POSITIVE

tfd = tfp.distributions


class _Censored(Distributional):
    """Right-censored labels [B, ..., C, 2], or [B, 2] for a single output.

    The first number of a label is the time. The second is 1 if the event was seen, for
    `log p(time)`, and 0 if it had not happened by then, for `log P(T > time)`.
    """

    is_censored = True

    def log_density(self, time, raw) -> tf.Tensor:
        return self.distribution(raw).log_prob(time)

    def log_survival(self, time, raw) -> tf.Tensor:
        return self.distribution(raw).log_survival_function(time)

    def neutral_label(self, raw):
        return 1

    def coded_labels(self, y, raw_shape):
        y = tf.convert_to_tensor(y)
        require_rank(y)
        shape = tf.TensorShape((*self.element_shape(raw_shape), 2))
        if y.shape.rank == shape.rank - 1 and shape[-2] == 1:
            y = y[..., None, :]
        if not y.shape.is_compatible_with(shape):
            raise ValueError(
                f"Labels of shape {y.shape} do not fit outputs of shape "
                f"{tuple(raw_shape)}: give [time, event] for each output, of shape "
                f"{tuple(shape)}."
            )
        return y

    def valid_elements(self, y, raw_shape):
        time, event = tf.unstack(tf.cast(y, tf.float32), axis=-1)
        is_event = (event == 0) | (event == 1)
        return tf.math.is_finite(time) & (time > 0) & is_event

    def element_log_prob(self, y, raw):
        raw = at_least_float32(raw)
        y = tf.cast(self.coded_labels(y, raw.shape), raw.dtype)
        time, event = tf.unstack(y, axis=-1)
        return tf.where(
            event == 1, self.log_density(time, raw), self.log_survival(time, raw)
        )

    def label_advice(self, raw_shape):
        return (
            "give [time, event] for each output, with a time above 0 and the event 1 "
            "(seen) or 0 (not seen until then)."
        )


@keras.saving.register_keras_serializable("bhn_tf")
class CensoredLogNormal(_Censored):
    """Log-normal waiting times, right-censored where the event was not seen.

    Labels are `[time, event]`, [B, ..., C, 2] or [B, 2] for a single output, with event
    1 if it was seen and 0 if it had not happened by that time. Predictions are of the
    waiting time itself.

    Args:
        stddev: Standard deviation of log y.
        trainable: Whether one standard deviation for all rows is learned.
        heteroscedastic: Whether the network gives each row its own: see `Gaussian`.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.CensoredLogNormal()
    likelihood.log_prob([[1.0, 0.0]], [[0.0]])  # [-0.6931], P(T > 1) = 1/2
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


@keras.saving.register_keras_serializable("bhn_tf")
class CensoredWeibull(_Censored):
    """Weibull waiting times, right-censored where the event was not seen.

    Raw outputs [B, ..., C] are logarithms of the scale, the time by which 63 % have had
    their event. Labels are `[time, event]`, [B, ..., C, 2] or [B, 2] for a single
    output, with event 1 if it was seen and 0 if it had not happened by that time.
    Predictions are of the waiting time itself.

    Args:
        concentration: Shape of the Weibull: above 1 the hazard grows with time, below
            it falls, at 1 the time is exponential.
        trainable: Whether one concentration for all rows is learned.
        heteroscedastic: Whether the network gives each row its own: raw outputs
            [B, ..., 2 C] then hold C log scales and C numbers whose softplus, times
            `concentration`, is the concentration.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.CensoredWeibull()
    likelihood.log_prob([[2.0, 0.0]], [[0.0]])  # [-2.], log P(T > 2)
    ```
    """

    varying = "concentration"

    def __init__(
        self,
        concentration: float = 1.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {"concentration": (concentration, POSITIVE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    def distribution(self, raw):
        log_scale, concentration = self.logarithm_and_spread(raw)
        return tfd.Weibull(concentration, tf.exp(log_scale))

    def _standard(self, time, raw):
        """The logarithm of the cumulative hazard, log (time / scale)^concentration."""
        log_scale, concentration = self.logarithm_and_spread(raw)
        log_time = tf.math.log(time)
        return bounded(concentration * (log_time - log_scale), low=-math.inf)

    def log_density(self, time, raw):
        concentration = self.spread(self.parts(raw))
        log_hazard = self._standard(time, raw)
        slope = tf.math.log(concentration) - tf.math.log(time)
        return slope + log_hazard - tf.exp(log_hazard)

    def log_survival(self, time, raw):
        # Exact, where TFP's log(1 - CDF) is -inf once the CDF rounds to 1.
        return -tf.exp(self._standard(time, raw))

    def interval(self, raws, level):
        log_scale, concentration = self.logarithm_and_spread(raws)
        # Minus the logarithm of a waiting time is a Gumbel variable.
        low, high = central_interval(tfd.Gumbel(-log_scale, 1 / concentration), level)
        return tf.exp(-high), tf.exp(-low)
