"""Likelihoods of real numbers: the noise around a network's outputs."""

import math

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.distributional import LocationScale
from bhn_tf.likelihoods.ranges import ABOVE_TWO, POSITIVE

tfd = tfp.distributions


@keras.saving.register_keras_serializable("bhn_tf")
class Gaussian(LocationScale):
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
        parts = self.parts(raw)
        return tfd.Normal(parts[0], self.spread(parts))


@keras.saving.register_keras_serializable("bhn_tf")
class Laplace(LocationScale):
    """Laplace noise: the density whose negative log is the absolute error.

    Args:
        scale: Mean absolute deviation of the noise in the units of y, its standard
            deviation divided by √2.
        trainable: Whether one scale for all rows is learned.
        heteroscedastic: Whether the network gives each row its own: see `Gaussian`.
        reduction: "sum" or "mean" over the outputs.

    Labels are [B, ..., C], or [B] for a single output.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Laplace(scale=0.5)
    likelihood.log_prob([[1.0]], [[1.0]])  # [0.]
    ```
    """

    stddev_of_unit = math.sqrt(2.0)

    def __init__(
        self,
        scale: float = 1.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {"scale": (scale, POSITIVE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    def distribution(self, raw):
        parts = self.parts(raw)
        return tfd.Laplace(parts[0], self.spread(parts))


@keras.saving.register_keras_serializable("bhn_tf")
class StudentT(LocationScale):
    """Student's t noise: like a Gaussian, with outliers.

    Args:
        df: Degrees of freedom, above 2, so that there is a standard deviation: 4 or so
            for heavy tails, 30 for nearly a Gaussian.
        scale: Scale of the noise in the units of y; its standard deviation is
            `scale * sqrt(df / (df - 2))`.
        trainable: Whether `df` is learned, and `scale` unless the network gives it.
        heteroscedastic: Whether the network gives each row its own scale: see
            `Gaussian`.
        reduction: "sum" or "mean" over the outputs.

    Labels are [B, ..., C], or [B] for a single output.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.StudentT(df=4.0, trainable=True)
    model = bhn_tf.BayesianHypernet(primary, likelihood=likelihood)
    ```
    """

    # Where the gradient by `df` is small.
    needs_float64 = True

    def __init__(
        self,
        df: float = 4.0,
        scale: float = 1.0,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        numbers = {"df": (df, ABOVE_TWO), "scale": (scale, POSITIVE)}
        super().__init__(numbers, trainable, heteroscedastic, reduction, **kwargs)

    @property
    def stddev_of_unit(self):
        df = float(self.number("df", tf.float32))
        # A learned df may come closer to 2 than float32 can resolve.
        return math.sqrt(df / (df - 2.0)) if df > 2.0 else math.inf

    def distribution(self, raw):
        parts = self.parts(raw)
        df = self.number("df", parts[0].dtype)
        return tfd.StudentT(df, parts[0], self.spread(parts))
