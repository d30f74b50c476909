"""Likelihoods of counts 0, 1, 2, ...: raw outputs are logarithms of expected counts.

An exposure (hours watched, people at risk) is added to the raw output as its logarithm.
"""

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.distributional import Distributional, bounded
from bhn_tf.likelihoods.ranges import POSITIVE, SHARE

tfd = tfp.distributions


class _Counts(Distributional):
    """Base of distributions over counts."""

    is_discrete = True
    # If counts are large.
    needs_float64 = True


@keras.saving.register_keras_serializable("bhn_tf")
class Poisson(_Counts):
    """Counts of independent events: raw outputs [B, ..., C] are log rates.

    Labels are counts [B, ..., C], or [B] for a single output.

    Args:
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Poisson()
    likelihood.mean([[0.0]])  # [[1.]]
    ```
    """

    def __init__(self, reduction: str = "sum", **kwargs):
        super().__init__({}, reduction=reduction, **kwargs)

    def distribution(self, raw):
        return tfd.Poisson(log_rate=bounded(self.parts(raw)[0]))


# Below it no digit tells counts from those of a Poisson, and TFP's functions have none.
_LEAST_LOG_DISPERSION = -28.0


def _negative_binomial(log_mean, dispersion):
    log_dispersion = bounded(tf.math.log(dispersion), _LEAST_LOG_DISPERSION)
    return tfd.NegativeBinomial(
        tf.exp(-log_dispersion),
        logits=bounded(log_mean) + log_dispersion,
        require_integer_total_count=False,
    )


@keras.saving.register_keras_serializable("bhn_tf")
class NegativeBinomial(_Counts):
    """Counts that vary more than a Poisson's: variance mean + dispersion · mean².

    Raw outputs [B, ..., C] are logarithms of the mean; labels are counts [B, ..., C],
    or [B] for a single output.

    Args:
        dispersion: 1 for a geometric distribution, near 0 for a Poisson.
        trainable: Whether one dispersion for all rows is learned.
        heteroscedastic: Whether the network gives each row its own: raw outputs
            [B, ..., 2 C] then hold C log means and C numbers whose softplus, times
            `dispersion`, is the dispersion.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.NegativeBinomial(dispersion=0.5, trainable=True)
    likelihood.summarize([[[0.0]]])["std"]  # [[1.2247]], √(1 + 0.5)
    ```
    """

    varying = "dispersion"

    def __init__(
        self,
        dispersion: float = 1.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {"dispersion": (dispersion, POSITIVE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    def distribution(self, raw):
        parts = self.parts(raw)
        return _negative_binomial(parts[0], self.spread(parts))


def _zero_inflated(likelihood, counts, parts):
    """The distribution of counts of which a share is 0 for another reason."""
    logits = tf.cast(likelihood.logit_zero_share, parts[0].dtype)
    if likelihood.heteroscedastic:
        logits = logits + bounded(parts[1])
    zeros = tf.zeros_like(parts[0])
    return tfd.Mixture(
        tfd.Categorical(logits=tf.stack([logits + zeros, zeros], axis=-1)),
        [tfd.Deterministic(zeros), counts],
    )


@keras.saving.register_keras_serializable("bhn_tf")
class ZeroInflatedPoisson(_Counts):
    """Poisson counts with additional zeros.

    Raw outputs [B, ..., C] are log rates of the Poisson part; labels are counts
    [B, ..., C], or [B] for a single output.

    Args:
        zero_share: Probability of a 0 that is not a count (someone who never fishes).
        trainable: Whether one share for all rows is learned.
        heteroscedastic: Whether the network gives each row its own: raw outputs
            [B, ..., 2 C] then hold C log rates and C numbers that are added to the
            logit of `zero_share`.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.ZeroInflatedPoisson(zero_share=0.25)
    likelihood.mean([[0.0]])  # [[0.75]]
    ```
    """

    varying = "zero_share"

    def __init__(
        self,
        zero_share: float = 0.5,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {"zero_share": (zero_share, SHARE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    def distribution(self, raw):
        parts = self.parts(raw)
        counts = tfd.Poisson(log_rate=bounded(parts[0]))
        return _zero_inflated(self, counts, parts)


@keras.saving.register_keras_serializable("bhn_tf")
class ZeroInflatedNegativeBinomial(_Counts):
    """Negative binomial counts with additional zeros.

    Args:
        dispersion: That of the negative binomial part; see `NegativeBinomial`.
        zero_share: Probability of a 0 that is not a count.
        trainable: Whether `dispersion` is learned, and `zero_share` unless the
            network gives it.
        heteroscedastic: Whether the network gives each row its own share of zeros;
            see `ZeroInflatedPoisson`.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.ZeroInflatedNegativeBinomial(zero_share=0.25)
    likelihood.mean([[0.0]])  # [[0.75]]
    ```
    """

    varying = "zero_share"

    def __init__(
        self,
        dispersion: float = 1.0,
        zero_share: float = 0.5,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {
            "dispersion": (dispersion, POSITIVE),
            "zero_share": (zero_share, SHARE),
        }
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    def distribution(self, raw):
        parts = self.parts(raw)
        dispersion = self.number("dispersion", parts[0].dtype)
        counts = _negative_binomial(parts[0], dispersion + tf.zeros_like(parts[0]))
        return _zero_inflated(self, counts, parts)
