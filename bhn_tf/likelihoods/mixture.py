"""Noise with several peaks, or with a narrow and a wide part."""

import keras
import numpy as np
import scipy.special
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.arguments import check_count
from bhn_tf.likelihoods.distributional import LEAST_SPREAD, LocationScale
from bhn_tf.likelihoods.ranges import POSITIVE

tfd = tfp.distributions


@keras.saving.register_keras_serializable("bhn_tf")
class Mixture(LocationScale):
    """A mixture of K Gaussians around the outputs.

    At first, the noise around the one output per target is K Gaussians of equal shares
    and standard deviation `stddev`, with means spread evenly from `-stddev` to
    `stddev`. With `trainable`, shares, means and standard deviations are learned, the
    same for all rows. With `heteroscedastic`, the network gives them for each row: a
    mixture density network with 3 K outputs per target.

    Args:
        num_components: Number K of Gaussians.
        stddev: Standard deviation of each, in the units of y; the initial one where
            it is trained.
        trainable: Whether the noise is learned, one for all rows.
        heteroscedastic: Whether the network gives each row its own: raw outputs
            [B, ..., 3 K C] then hold, in blocks of C outputs, K logits of the shares,
            K means and K numbers whose softplus, times `stddev`, is the standard
            deviation. The means are added to the spread ones, so that components do
            not start alike.
        reduction: "sum" or "mean" over the outputs.

    Labels are [B, ..., C], or [B] for a single output.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Mixture(num_components=2, heteroscedastic=True)
    likelihood.mean([[0.0, 0.0, 4.0, 4.0, 0.0, 0.0]])  # [[4.]]
    ```
    """

    varying = "stddev"

    def __init__(
        self,
        num_components: int = 2,
        stddev: float = 1.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        num_components = check_count("num_components", num_components, minimum=1)
        numbers = {"stddev": (stddev, POSITIVE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)
        self.num_components = num_components
        spread = np.linspace(-1, 1, num_components) if num_components > 1 else [0.0]
        # Means and standard deviations are in units of `stddev`, which may be set.
        for name, values in {
            "logits": [0.0] * num_components,
            "offsets": spread,
            "log_ratios": [0.0] * num_components,
        }.items():
            self._add_state(name, values, trainable)

    @property
    def stddev_of_unit(self):
        """Computed from the present shares, means and standard deviations."""
        logits, offsets, log_ratios = (
            keras.ops.convert_to_numpy(weight).astype("float64")
            for weight in (self.logits, self.offsets, self.log_ratios)
        )
        shares = scipy.special.softmax(logits)
        variance = shares @ (np.exp(2 * log_ratios) + offsets**2)
        return float(np.sqrt(variance - (shares @ offsets) ** 2))

    @property
    def outputs_per_target(self):
        return 3 * self.num_components if self.heteroscedastic else 1

    def distribution(self, raw):
        parts = self.parts(raw)
        dtype = parts[0].dtype
        stddev = self.number("stddev", dtype)
        logits, offsets, log_ratios = (
            tf.cast(weight, dtype)
            for weight in (self.logits, self.offsets, self.log_ratios)
        )
        if self.heteroscedastic:
            given = tf.stack(parts, axis=-1)
            more_logits, means, spreads = tf.split(given, 3, axis=-1)
            logits = logits + more_logits
            ratios = tf.nn.softplus(spreads) + LEAST_SPREAD
        else:
            means, ratios = parts[0][..., None], tf.exp(log_ratios)
        means = means + stddev * offsets
        return tfd.MixtureSameFamily(
            tfd.Categorical(logits=logits + tf.zeros_like(means)),
            tfd.Normal(means, stddev * ratios),
        )

    def coded_labels(self, y, raw_shape):
        try:
            return super().coded_labels(y, raw_shape)
        except ValueError as error:
            if self.heteroscedastic or raw_shape[-1] % (3 * self.num_components):
                raise
            raise ValueError(
                f"{error} Where the network gives the whole mixture, three outputs "
                "for each component, say `Mixture(..., heteroscedastic=True)`."
            ) from None

    def get_config(self):
        return {**super().get_config(), "num_components": self.num_components}
