"""Tails of distributions equal scipy's, and stay in order far out."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.quantiles import central_interval
from bhn_tf.likelihoods.tails import log_tails, survival

tfd = tfp.distributions

CASES = {
    "poisson": (tfd.Poisson(3.0), scipy.stats.poisson(3), [-1, 0, 1, 3, 20, 45]),
    "many": (tfd.Poisson(300.0), scipy.stats.poisson(300), [-1, 200, 300, 500]),
    "a million": (
        tfd.Poisson(1e6),
        scipy.stats.poisson(1e6),
        [-1, 996_000, 1_000_000, 1_004_000],
    ),
    "many and various": (
        tfd.NegativeBinomial(1.0, logits=np.float32(np.log(1e7))),
        scipy.stats.nbinom(1, 1 / (1 + 1e7)),
        [0, 1, 100_000, 10_000_000, 50_000_000],
    ),
    "nearly poisson": (
        tfd.NegativeBinomial(1e6, logits=np.float32(np.log(1e-3))),
        scipy.stats.nbinom(1e6, 1 / 1.001),
        [900, 1000, 1100],
    ),
    "negative binomial": (
        tfd.NegativeBinomial(2.0, probs=0.3),
        # SciPy 1.11 has the logarithms for arrays alone.
        scipy.stats.nbinom([2] * 6, [0.7] * 6),
        [-1, 0, 1, 3, 20, 60],
    ),
    "beta": (
        tfd.Beta(2.0, 3.0),
        scipy.stats.beta(2, 3),
        [-0.1, 0, 1e-6, 0.1, 0.5, 0.999, 1, 1.1],
    ),
    "log-normal": (
        tfd.LogNormal(0.0, 1.0),
        scipy.stats.lognorm(1),
        [-1, 0, 1e-20, 0.1, 1, 20, 1e10],
    ),
    "student": (
        tfd.StudentT(4.0, 1.0, 2.0),
        scipy.stats.t(4, 1, 2),
        [-1e6, -10, 1, 10, 1e6],
    ),
    "weibull": (
        tfd.Weibull(1.5, 2.0),
        scipy.stats.weibull_min(1.5, scale=2),
        [-1, 1e-6, 0.1, 2, 20, 40],
    ),
    "generalized pareto": (
        tfd.GeneralizedPareto(0.0, 1.0, -0.5),
        scipy.stats.genpareto(-0.5),
        [-5, -0.1, 0.1, 1.9, 2.1, 50],
    ),
    "inverse gamma": (
        tfd.InverseGamma(3.0, 1.0),
        scipy.stats.invgamma(3),
        [-1, 0.1, 0.5, 5],
    ),
    "kumaraswamy": (
        tfd.Kumaraswamy(1.0, 1.5),
        scipy.stats.beta(1, 1.5),
        [-0.5, 0.1, 0.9, 1.5],
    ),
    "laplace": (
        tfd.Laplace(1.0, 2.0),
        scipy.stats.laplace(1, 2),
        [-300, 0, 1, 4, 300],
    ),
    "gamma": (
        tfd.Gamma(0.3, 2.0),
        scipy.stats.gamma(0.3, scale=0.5),
        [-1, 1e-9, 1, 50],
    ),
    "exponential": (
        tfd.Exponential(2.0),
        scipy.stats.expon(scale=0.5),
        [-1, 1e-9, 1, 50],
    ),
    "chi squared": (tfd.Chi2(3.0), scipy.stats.chi2(3), [-1, 1e-9, 1, 200]),
    "gumbel": (tfd.Gumbel(1.0, 2.0), scipy.stats.gumbel_r(1, 2), [-9, 0, 3, 90]),
    "normal": (tfd.Normal(1.0, 2.0), scipy.stats.norm(1, 2), [-100, 0, 1, 100]),
}


@pytest.mark.parametrize("name", CASES)
def test_tails_are_scipys(name):
    distribution, reference, values = CASES[name]
    y = np.array(values, "float32")
    is_discrete = hasattr(reference, "pmf") and not hasattr(reference.dist, "pdf")
    found = log_tails(distribution, tf.constant(y), is_discrete)
    above = y - 1 if is_discrete else y
    expected = reference.logcdf(y), reference.logsf(above)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "name",
    [
        "beta",
        "chi squared",
        "exponential",
        "gamma",
        "gumbel",
        "inverse gamma",
        "laplace",
        "log-normal",
        "normal",
        "student",
        "weibull",
    ],
)
def test_bounds_are_scipys_at_levels_next_to_one(name):
    distribution, reference, _ = CASES[name]
    for level in (0.9999, 0.9999999):
        found = central_interval(distribution[tf.newaxis, tf.newaxis], level)
        tail = (1 - level) / 2
        expected = [[reference.ppf(tail)], [reference.isf(tail)]]
        np.testing.assert_allclose(found, expected, rtol=5e-6)


@pytest.mark.parametrize("first", [0.005, 50.0])
@pytest.mark.parametrize("second", [0.01, 50.0])
def test_tails_of_shares_next_to_the_ends_are_scipys(first, second):
    """Most of a beta with a small concentration is nearer to 0 than epsilon to 1."""
    y = np.float32([1e-30, 1e-20, 1e-12, 1e-7, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-5, 1 - 1e-7])
    beta = scipy.stats.beta(np.float32(first), np.float32(second))
    distribution = tfd.Beta(np.float32(first), np.float32(second))
    lower, upper = log_tails(distribution, tf.constant(y))
    for tail, expected in ((lower, beta.logcdf(y)), (upper, beta.logsf(y))):
        is_normal = expected > -87
        np.testing.assert_allclose(
            tail[is_normal], expected[is_normal], rtol=1e-3, atol=1e-6
        )
    assert (np.diff(survival(distribution, tf.constant(y))) <= 0).all()


def test_tails_of_mixtures_are_the_sums_of_their_parts():
    y = np.array([-50.0, 0.0, 3.0, 50.0], "float32")
    normals = tfd.MixtureSameFamily(
        tfd.Categorical(logits=[0.0, 0.0]), tfd.Normal([0.0, 3.0], 1.0)
    )
    norm = scipy.stats.norm([[0], [3]], 1)
    lower, upper = log_tails(normals, tf.constant(y))
    np.testing.assert_allclose(
        lower, np.logaddexp(*norm.logcdf(y)) - np.log(2), rtol=1e-5
    )
    np.testing.assert_allclose(
        upper, np.logaddexp(*norm.logsf(y)) - np.log(2), rtol=1e-5
    )

    y = np.array([-1.0, 0.0, 3.0], "float32")
    inflated = tfd.Mixture(
        tfd.Categorical(logits=[0.0, 0.0]), [tfd.Deterministic(0.0), tfd.Poisson(3.0)]
    )
    counts = scipy.stats.poisson(3)
    lower, upper = log_tails(inflated, tf.constant(y), True)
    with np.errstate(divide="ignore"):
        expected = np.log((counts.cdf(y) + (y >= 0)) / 2)
    np.testing.assert_allclose(lower, expected, rtol=1e-5)
    expected = np.log((counts.sf(y - 1) + (y <= 0)) / 2)
    np.testing.assert_allclose(upper, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "distribution", [tfd.Poisson(3.0), tfd.NegativeBinomial(2.0, probs=0.3)]
)
def test_counts_stay_in_order_where_tails_are_below_the_smallest_number(distribution):
    y = tf.constant(np.arange(400, dtype="float32"))
    upper = log_tails(distribution, y, True)[1].numpy()
    assert np.isfinite(upper).all() and upper[-1] < -300
    assert (np.diff(upper) <= 0).all()
    assert np.unique(upper).size > 390


def test_what_has_no_tails_says_so():
    with pytest.raises(NotImplementedError, match="several numbers"):
        log_tails(tfd.MultivariateNormalDiag([0.0, 0.0]), tf.zeros([2]))
