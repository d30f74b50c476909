"""Every likelihood that is a distribution, with scipy's for the same raw outputs.

Each entry: how it is made, the number of raw outputs a target, scipy's distribution for
float64 raw outputs [..., 1] of each kind, and labels that it can have.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import special, stats

from bhn_tf import likelihoods

RNG = np.random.default_rng(0)
REALS = RNG.normal(size=(3, 4, 2))
POSITIVES = RNG.uniform(0.2, 4.0, size=(3, 4, 2))
SHARES = RNG.uniform(0.05, 0.95, size=(3, 4, 2))
COUNTS = RNG.integers(0, 6, size=(3, 4, 2))


def softplus(values):
    return np.log1p(np.exp(values)) + 1e-6


class ZeroInflated:
    """Zero-inflated counts, which scipy does not have."""

    def __init__(self, share, counts):
        self.share, self.counts = share, counts

    def logpmf(self, y):
        return np.log(self.share * (y == 0) + (1 - self.share) * self.counts.pmf(y))

    def mean(self):
        return (1 - self.share) * self.counts.mean()

    def var(self):
        square = self.counts.var() + self.counts.mean() ** 2
        return (1 - self.share) * square - self.mean() ** 2

    def cdf(self, y):
        return (self.share + (1 - self.share) * self.counts.cdf(y)) * (y >= 0)


class OfGaussians:
    """A mixture of Gaussians, components on the last axis."""

    def __init__(self, shares, means, stddevs):
        self.shares, self.parts = shares, stats.norm(means, stddevs)

    def logpdf(self, y):
        return np.log((self.shares * self.parts.pdf(y[..., None])).sum(axis=-1))

    def mean(self):
        return (self.shares * self.parts.mean()).sum(axis=-1)

    def var(self):
        squares = self.parts.var() + self.parts.mean() ** 2
        return (self.shares * squares).sum(axis=-1) - self.mean() ** 2

    def cdf(self, y):
        return (self.shares * self.parts.cdf(y[..., None])).sum(axis=-1)


def negative_binomial(log_mean, dispersion):
    return stats.nbinom(1 / dispersion, 1 / (1 + dispersion * np.exp(log_mean)))


def beta(logit, concentration):
    share = special.expit(logit)
    return stats.beta(concentration * share, concentration * (1 - share))


def mixture_density(*parts):
    logits, means, spreads = np.split(np.stack(parts, axis=-1), 3, axis=-1)
    shares = special.softmax(logits, axis=-1)
    return OfGaussians(shares, means + 0.5 * np.array([-1, 1]), 0.5 * softplus(spreads))


@keras.saving.register_keras_serializable("bhn_tf_tests")
def gumbel(raw):
    location, scale = tf.split(raw, 2, axis=-1)
    return tfp.distributions.Gumbel(location, tf.nn.softplus(scale) + 1e-6)


@dataclasses.dataclass
class Family:
    make: Callable
    num_raw: int
    reference: Callable
    labels: np.ndarray

    def log_prob(self, y, *parts):
        distribution = self.reference(*parts)
        return getattr(distribution, "logpmf", getattr(distribution, "logpdf", None))(y)


FAMILIES = {
    "gaussian": Family(
        lambda **k: likelihoods.Gaussian(0.5, **k),
        1,
        lambda raw: stats.norm(raw, 0.5),
        REALS,
    ),
    "laplace": Family(
        lambda **k: likelihoods.Laplace(0.5, **k),
        1,
        lambda raw: stats.laplace(raw, 0.5),
        REALS,
    ),
    "laplace_varying": Family(
        lambda **k: likelihoods.Laplace(0.5, heteroscedastic=True, **k),
        2,
        lambda raw, spread: stats.laplace(raw, 0.5 * softplus(spread)),
        REALS,
    ),
    "student_t": Family(
        lambda **k: likelihoods.StudentT(df=5.0, scale=0.5, **k),
        1,
        lambda raw: stats.t(5.0, raw, 0.5),
        REALS,
    ),
    "student_t_varying": Family(
        lambda **k: likelihoods.StudentT(5.0, 0.5, heteroscedastic=True, **k),
        2,
        lambda raw, spread: stats.t(5.0, raw, 0.5 * softplus(spread)),
        REALS,
    ),
    "mixture": Family(
        lambda **k: likelihoods.Mixture(2, 0.5, **k),
        1,
        lambda raw: OfGaussians(0.5, raw[..., None] + 0.5 * np.array([-1, 1]), 0.5),
        REALS,
    ),
    "mixture_varying": Family(
        lambda **k: likelihoods.Mixture(2, 0.5, heteroscedastic=True, **k),
        6,
        mixture_density,
        REALS,
    ),
    "distribution": Family(
        lambda **k: likelihoods.Distribution(gumbel, **k),
        2,
        lambda location, scale: stats.gumbel_r(location, softplus(scale)),
        REALS,
    ),
    "log_normal": Family(
        lambda **k: likelihoods.LogNormal(0.5, **k),
        1,
        lambda raw: stats.lognorm(0.5, scale=np.exp(raw)),
        POSITIVES,
    ),
    "log_normal_varying": Family(
        lambda **k: likelihoods.LogNormal(0.5, heteroscedastic=True, **k),
        2,
        lambda raw, spread: stats.lognorm(0.5 * softplus(spread), scale=np.exp(raw)),
        POSITIVES,
    ),
    "beta": Family(
        lambda **k: likelihoods.Beta(3.0, **k), 1, lambda raw: beta(raw, 3.0), SHARES
    ),
    "beta_varying": Family(
        lambda **k: likelihoods.Beta(3.0, heteroscedastic=True, **k),
        2,
        lambda raw, spread: beta(raw, 3.0 * softplus(spread)),
        SHARES,
    ),
    "poisson": Family(
        lambda **k: likelihoods.Poisson(**k),
        1,
        lambda raw: stats.poisson(np.exp(raw)),
        COUNTS,
    ),
    "negative_binomial": Family(
        lambda **k: likelihoods.NegativeBinomial(0.5, **k),
        1,
        lambda raw: negative_binomial(raw, 0.5),
        COUNTS,
    ),
    "negative_binomial_varying": Family(
        lambda **k: likelihoods.NegativeBinomial(0.5, heteroscedastic=True, **k),
        2,
        lambda raw, spread: negative_binomial(raw, 0.5 * softplus(spread)),
        COUNTS,
    ),
    "zero_inflated_poisson": Family(
        lambda **k: likelihoods.ZeroInflatedPoisson(0.25, **k),
        1,
        lambda raw: ZeroInflated(0.25, stats.poisson(np.exp(raw))),
        COUNTS,
    ),
    "zero_inflated_poisson_varying": Family(
        lambda **k: likelihoods.ZeroInflatedPoisson(0.25, heteroscedastic=True, **k),
        2,
        lambda raw, logit: ZeroInflated(
            special.expit(logit + special.logit(0.25)), stats.poisson(np.exp(raw))
        ),
        COUNTS,
    ),
    "zero_inflated_negative_binomial": Family(
        lambda **k: likelihoods.ZeroInflatedNegativeBinomial(0.5, 0.25, **k),
        1,
        lambda raw: ZeroInflated(0.25, negative_binomial(raw, 0.5)),
        COUNTS,
    ),
}


def weibull(raw):
    return stats.weibull_min(1.5, scale=np.exp(raw))


#: The same, of waiting times: their labels have an event beside the time.
CENSORED = {
    "weibull": Family(
        lambda **k: likelihoods.CensoredWeibull(1.5, **k), 1, weibull, POSITIVES
    ),
    "weibull_varying": Family(
        lambda **k: likelihoods.CensoredWeibull(1.5, heteroscedastic=True, **k),
        2,
        lambda raw, spread: stats.weibull_min(
            1.5 * softplus(spread), scale=np.exp(raw)
        ),
        POSITIVES,
    ),
    "censored_log_normal": Family(
        lambda **k: likelihoods.CensoredLogNormal(0.5, **k),
        1,
        lambda raw: stats.lognorm(0.5, scale=np.exp(raw)),
        POSITIVES,
    ),
}
EVENTS = RNG.integers(0, 2, size=(3, 4, 2))


def log_prob_of_waiting(family, y, event, *parts):
    distribution = family.reference(*parts)
    return np.where(event == 1, distribution.logpdf(y), distribution.logsf(y))


def raw_outputs(family, leading=(3, 4, 2), seed=1):
    """Parts [..., C] of every kind, and the raw outputs that hold them, float32."""
    parts = 0.7 * np.random.default_rng(seed).normal(size=(family.num_raw, *leading))
    return parts, np.concatenate(list(parts), axis=-1).astype("float32")
