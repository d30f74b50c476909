"""Likelihoods of real numbers."""

import math

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.elements import nan_where_padded
from bhn_tf.likelihoods.likelihood import Likelihood, at_least_float32, match_targets

tfd = tfp.distributions


def _positive(stddev) -> float:
    if not (stddev > 0 and math.isfinite(stddev)):
        raise ValueError(f"Expected `stddev` to be a positive number, got {stddev!r}.")
    return float(stddev)


@keras.saving.register_keras_serializable("bhn_tf")
class Gaussian(Likelihood, keras.layers.Layer):
    """Gaussian noise around the outputs: `log N(y; mean, stddev²)`, the full density.

    Args:
        stddev: Standard deviation of the noise in the units of y; the initial one
            where it is trained.
        trainable: Whether one standard deviation for all rows is learned (maximum
            likelihood).
        heteroscedastic: Whether the network gives each row its own: raw outputs
            [B, ..., 2 C] then hold C means and C numbers whose softplus, times
            `stddev`, is the standard deviation.
        reduction: "sum" or "mean" over the outputs.

    Labels are [B, ..., C], or [B] for a single output.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Gaussian(stddev=0.1, trainable=True)
    model = bhn_tf.BayesianHypernet(primary, likelihood=likelihood)
    ```
    """

    has_unit = True

    def __init__(
        self,
        stddev: float = 1.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        _positive(stddev)
        if trainable and heteroscedastic:
            raise ValueError(
                "`trainable` learns one noise level for all rows, `heteroscedastic` "
                "lets the network give one for each row: choose one of them."
            )
        super().__init__(reduction, **{**kwargs, "dtype": "float32"})
        self.stddev = float(stddev)
        self.heteroscedastic = heteroscedastic
        self.log_stddev = self.add_weight(
            name="log_stddev",
            shape=(),
            initializer=keras.initializers.Constant(math.log(stddev)),
            # A weight that is not trained from the start stays so, even where the
            # whole model is frozen and thawed.
            trainable=trainable,
        )
        self._trains_stddev = trainable
        self.built = True

    def set_stddev(self, stddev: float) -> None:
        """Sets the noise, for example to the spread of the data before training.

        Args:
            stddev: Standard deviation in the units of y; with `heteroscedastic` what
                the network's own numbers are multiplied by.

        Raises:
            ValueError: If it is no positive number.
        """
        self.log_stddev.assign(math.log(_positive(stddev)))

    def _mean_and_stddev(self, raw):
        raw = at_least_float32(raw)
        stddev = tf.cast(tf.exp(self.log_stddev), raw.dtype)
        if not self.heteroscedastic:
            return raw, stddev
        num_targets = self.element_shape(raw.shape)[-1]
        mean, spread = raw[..., :num_targets], raw[..., num_targets:]
        # A vanishing standard deviation has no density.
        return mean, stddev * (tf.nn.softplus(spread) + 1e-6)

    def element_shape(self, raw_shape):
        if not self.heteroscedastic:
            return tuple(raw_shape)
        if raw_shape[-1] % 2:
            raise ValueError(
                "A heteroscedastic Gaussian needs two raw outputs, a mean and a "
                f"standard deviation, for each target; the network has {raw_shape[-1]}."
            )
        return (*raw_shape[:-1], raw_shape[-1] // 2)

    def coded_labels(self, y, raw_shape):
        return match_targets(y, self.element_shape(raw_shape))

    def valid_elements(self, y, raw_shape):
        return tf.math.is_finite(tf.cast(y, tf.float32))

    def element_log_prob(self, y, raw):
        mean, stddev = self._mean_and_stddev(raw)
        return tfd.Normal(mean, stddev).log_prob(
            match_targets(y, mean.shape, mean.dtype)
        )

    def log_tails(self, y, raw):
        mean, stddev = self._mean_and_stddev(raw)
        component = tfd.Normal(mean, stddev)
        y = tf.cast(y, mean.dtype)
        return component.log_cdf(y), component.log_survival_function(y)

    def mean(self, raw):
        return self._mean_and_stddev(raw)[0]

    def summarize(self, raws, mask=None):
        """Mean and standard deviations of the mixture of S Gaussians.

        The variance of a draw's mean is what more data would remove (epistemic), the
        mean of a draw's variance is noise (aleatoric).
        """
        means, stddevs = self._mean_and_stddev(raws)
        mean, epistemic = tf.nn.moments(means, axes=[0])
        aleatoric = tf.reduce_mean(tf.square(stddevs) + tf.zeros_like(means), axis=0)
        stds = {
            "std": tf.sqrt(epistemic + aleatoric),
            "epistemic_std": tf.sqrt(epistemic),
            "aleatoric_std": tf.sqrt(aleatoric),
        }
        padded = {name: nan_where_padded(std, mask) for name, std in stds.items()}
        return {"mean": mean, **padded}

    def interval(self, raws, level):
        """Central interval of the mixture, [B, ..., C] each, from its quantiles."""
        means, stddevs = self._mean_and_stddev(raws)
        stddevs = stddevs + tf.zeros_like(means)
        component = tfd.Normal(means, stddevs)
        # Every quantile of a mixture lies between those of its components; where they
        # agree it is one of them, which rounding must not move out of the bracket.
        widest = tfd.Normal(0.0, 1.0).quantile(0.5 + 0.5 * tf.cast(level, tf.float32))
        reach = tf.cast(widest + 1.0, means.dtype) * stddevs
        low, high = (
            tf.reduce_min(means - reach, axis=0),
            tf.reduce_max(means + reach, axis=0),
        )
        # Relative to the noise, for y may be in any unit.
        tolerance = 1e-6 * tf.reduce_min(stddevs, axis=0)

        def quantile(probability):
            probability = tf.cast(probability, means.dtype)
            return tfp.math.find_root_chandrupatla(
                lambda y: tf.reduce_mean(component.cdf(y), axis=0) - probability,
                low,
                high,
                position_tolerance=tolerance,
                value_tolerance=0.0,
                max_iterations=100,
            ).estimated_root

        tail = (1.0 - tf.cast(level, tf.float32)) / 2.0
        return quantile(tail), quantile(1.0 - tail)

    def label_advice(self, raw_shape):
        return "give a finite number for each output."

    def get_config(self):
        return {
            **super().get_config(),
            "stddev": self.stddev,
            "trainable": self._trains_stddev,
            "heteroscedastic": self.heteroscedastic,
        }
