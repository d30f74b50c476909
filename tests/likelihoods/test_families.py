"""Densities, moments and intervals of every likelihood that is a distribution."""

import doctest
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from bhn_tf import likelihoods
from bhn_tf.likelihoods import quantiles
from tests.likelihoods.families import (
    CENSORED,
    EVENTS,
    FAMILIES,
    log_prob_of_waiting,
    raw_outputs,
)

ALL = FAMILIES | CENSORED
each_family = pytest.mark.parametrize("name", ALL)


def labels_of(name):
    labels = ALL[name].labels
    return np.stack([labels, EVENTS], axis=-1) if name in CENSORED else labels


def expected_log_prob(name, parts):
    family = ALL[name]
    if name in CENSORED:
        return log_prob_of_waiting(family, family.labels, EVENTS, *parts)
    return family.log_prob(family.labels, *parts)


@each_family
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_prob_is_the_full_density(name, dtype):
    family = ALL[name]
    parts, raw = raw_outputs(family)
    result = family.make().element_log_prob(labels_of(name), tf.cast(raw, dtype))
    assert result.dtype == dtype
    # Numbers such as the noise are weights of float32.
    np.testing.assert_allclose(
        result, expected_log_prob(name, parts), rtol=3e-5, atol=3e-6
    )


@each_family
def test_half_precision_is_computed_in_float32(name):
    family = ALL[name]
    raw = tf.cast(raw_outputs(family)[1], tf.bfloat16)
    likelihood, y = family.make(), labels_of(name)
    result = likelihood.log_prob(y, raw)
    assert result.dtype == tf.float32
    np.testing.assert_array_equal(
        result, likelihood.log_prob(y, tf.cast(raw, "float32"))
    )


@each_family
def test_moments_follow_the_law_of_total_variance(name):
    family = ALL[name]
    parts, raws = raw_outputs(family, leading=(5, 4, 2))
    distribution = family.reference(*parts)
    mean, variance = distribution.mean(), distribution.var()
    likelihood = family.make()
    np.testing.assert_allclose(likelihood.mean(raws[0]), mean[0], rtol=1e-5, atol=1e-6)
    expected = {
        "mean": mean.mean(axis=0),
        "std": np.sqrt(variance.mean(axis=0) + mean.var(axis=0)),
        "epistemic_std": mean.std(axis=0),
        "aleatoric_std": np.sqrt(variance.mean(axis=0)),
    }
    summary = likelihood.summarize(raws)
    assert list(summary) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(
            summary[key], value, rtol=1e-4, atol=1e-6, err_msg=key
        )


@each_family
def test_nothing_is_known_about_a_row_of_nan(name):
    """Not even a noise that is the same for all rows."""
    _, raws = raw_outputs(ALL[name], leading=(3, 2, 1))
    raws = np.array(raws)
    raws[1:, 1] = np.nan
    for key, values in ALL[name].make().summarize(raws).items():
        assert np.isfinite(values[0]).all() and np.isnan(values[1]).all(), key


@pytest.mark.few(3)
@each_family
@pytest.mark.parametrize("level", [pytest.param(0.5, marks=pytest.mark.slow), 0.95])
def test_interval_holds_the_quantiles_of_the_mixture(name, level):
    family = ALL[name]
    parts, raws = raw_outputs(family, leading=(5, 3, 1))
    likelihood = family.make()
    low, high = (
        np.asarray(bound, "float64") for bound in likelihood.interval(raws, level)
    )
    assert low.shape == high.shape == (3, 1)
    distribution, tail = family.reference(*parts), (1 - level) / 2

    def below(bound):
        return distribution.cdf(np.broadcast_to(bound, (5, 3, 1))).mean(axis=0)

    if likelihood.is_discrete:
        for bound, share in ((low, tail), (high, 1 - tail)):
            np.testing.assert_array_equal(bound, np.round(bound))
            assert (below(bound) >= share - 1e-6).all()
            assert (below(bound - 1) < share + 1e-6).all()
    else:
        np.testing.assert_allclose(below(low), tail, atol=1e-5)
        np.testing.assert_allclose(below(high), 1 - tail, atol=1e-5)


@pytest.mark.few(1)
@each_family
def test_a_graph_of_any_number_of_rows_answers_the_same(name):
    family = ALL[name]
    _, raws = raw_outputs(family, leading=(5, 3, 1))
    likelihood = family.make()

    @tf.function(input_signature=[tf.TensorSpec([None, None, family.num_raw])])
    def answers(raws):
        return likelihood.summarize(raws), likelihood.interval(raws, 0.9)

    summary, bounds = answers(raws)
    for key, value in likelihood.summarize(raws).items():
        np.testing.assert_allclose(summary[key], value, rtol=1e-5, atol=1e-6)
    for bound, value in zip(bounds, likelihood.interval(raws, 0.9), strict=True):
        assert bound.shape == (3, 1)
        np.testing.assert_allclose(bound, value, rtol=1e-4, atol=1e-5)


@pytest.mark.few(1)
@each_family
def test_outputs_of_float64_are_answered_in_float64(name):
    """As under Keras's policy of that name."""
    family = ALL[name]
    _, raws = raw_outputs(family, leading=(5, 3, 1))
    likelihood, y = family.make(), family.labels[:, 0, :1]

    def answers(raws):
        summary = likelihood.summarize(raws)
        tails = likelihood.log_tails(y.astype(raws.dtype), raws)
        return [*summary.values(), *likelihood.interval(raws, 0.9), *tails]

    for found, expected in zip(
        answers(raws.astype("float64")), answers(raws), strict=True
    ):
        assert found.dtype == tf.float64
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["laplace", "poisson"])
def test_intervals_can_be_compiled(name):
    _, raws = raw_outputs(ALL[name], leading=(5, 3, 1))
    likelihood = ALL[name].make()
    compiled = tf.function(likelihood.interval, jit_compile=True)
    for bound, value in zip(
        compiled(raws, 0.9), likelihood.interval(raws, 0.9), strict=True
    ):
        np.testing.assert_allclose(bound, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_intervals_of_large_counts_are_found(name):
    raws = np.log([[[3.0], [3e3]]]).astype("float32")
    distribution = ALL[name].reference(raws[0].astype("float64"))
    for bound, share in zip(
        ALL[name].make().interval(raws, 0.9), (0.05, 0.95), strict=True
    ):
        # One count less is not enough, up to the precision of a CDF in float32.
        assert (distribution.cdf(bound) >= share - 1e-4).all()
        assert (distribution.cdf(bound.numpy() - 1) < share + 1e-4).all()


@pytest.mark.parametrize("level", [0.999999, 0.99999994])
def test_levels_near_one_have_bounds_on_both_sides(level):
    low, high = likelihoods.Gaussian().interval(np.zeros((2, 1, 1), "float32"), level)
    expected = stats.norm.isf((1 - level) / 2)
    np.testing.assert_allclose([-low, high], np.full((2, 1, 1), expected), rtol=1e-6)


@pytest.mark.parametrize("logit", [0.0, 5.0])
def test_an_interval_of_a_narrow_beta_holds_what_it_says(logit):
    likelihood, raws = likelihoods.Beta(1e6), np.full((2, 1, 1), logit, "float32")
    beta = stats.beta(1e6 / (1 + np.exp(-logit)), 1e6 / (1 + np.exp(logit)))
    np.testing.assert_allclose(
        beta.cdf(likelihood.interval(raws, 0.9)).ravel(), [0.05, 0.95], atol=1e-4
    )


def test_an_interval_of_a_skewed_mixture_keeps_its_relative_precision():
    raws = np.array([[[0.0]], [[0.5]]], "float32")
    low, _ = likelihoods.LogNormal(stddev=4.0).interval(raws, 0.9)
    parts = stats.lognorm(4.0, scale=np.exp(raws))
    np.testing.assert_allclose(parts.cdf(low).mean(), 0.05, rtol=1e-3)


# The user decides what the function returns.
@pytest.mark.parametrize("name", [name for name in ALL if name != "distribution"])
@pytest.mark.parametrize("size", [-1e4, 1e4])
def test_log_prob_and_gradient_are_finite_for_extreme_outputs(name, size):
    family = ALL[name]
    likelihood = family.make()
    raw = tf.fill([3, 4, 2 * family.num_raw], size)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        log_prob = likelihood.log_prob(labels_of(name), raw)
    assert np.isfinite(log_prob).all()
    assert np.isfinite(tape.gradient(log_prob, raw)).all()


@pytest.mark.parametrize("name", ["poisson", "log_normal", "beta", "weibull"])
def test_outputs_out_of_bounds_find_their_way_back(name):
    raw = tf.fill([3, 4, 2], 1e3)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        log_prob = ALL[name].make().log_prob(labels_of(name), raw)
    assert (tape.gradient(log_prob, raw).numpy() < 0).any()


@each_family
def test_config_survives_json(name):
    family = ALL[name]
    trained = {} if family.num_raw > 1 or name == "poisson" else {"trainable": True}
    likelihood = family.make(reduction="mean", **trained)
    serialized = keras.saving.serialize_keras_object(likelihood)
    clone = keras.saving.deserialize_keras_object(json.loads(json.dumps(serialized)))
    assert clone.get_config() == likelihood.get_config()
    assert len(clone.trainable_variables) == len(likelihood.trainable_variables)
    assert bool(trained) == bool(likelihood.trainable_variables)
    raw, y = raw_outputs(family)[1], labels_of(name)
    np.testing.assert_array_equal(clone.log_prob(y, raw), likelihood.log_prob(y, raw))


def test_examples_of_quantiles():
    assert doctest.testmod(quantiles).failed == 0


@pytest.mark.few(3)
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    ["likelihood", "log_prob"],
    [
        (likelihoods.Poisson(), stats.poisson.logpmf),
        (
            likelihoods.ZeroInflatedPoisson(0.3),
            lambda y, mean: np.log(0.3 * (y == 0) + 0.7 * stats.poisson.pmf(y, mean)),
        ),
        # Counts that vary no more than a Poisson's are one.
        (likelihoods.NegativeBinomial(1e-12), stats.poisson.logpmf),
        (
            likelihoods.NegativeBinomial(2.0**-10),
            lambda y, mean: stats.nbinom.logpmf(y, 1024, 1 / (1 + mean / 1024)),
        ),
    ],
)
def test_log_probs_of_large_counts(likelihood, log_prob, jit_compile):
    """Differences of numbers around mean · log(mean), which float32 would round."""
    random = np.random.default_rng(0)
    means = 10.0 ** np.arange(-3, 8)[:, None]
    raw = np.log(means).astype("float32")
    y = random.poisson(means, size=(11, 20)).astype("float32")
    raw = tf.constant(np.broadcast_to(raw, y.shape))

    @tf.function(jit_compile=jit_compile)
    def value_and_gradient(raw):
        with tf.GradientTape() as tape:
            tape.watch(raw)
            found = likelihood.element_log_prob(y, raw)
        return found, tape.gradient(found, raw)

    found, slope = value_and_gradient(raw)
    assert found.dtype == slope.dtype == tf.float32
    mean = np.exp(np.asarray(raw, "float64"))
    expected = log_prob(y.astype("float64"), mean)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    step = 1e-6
    above, below = (log_prob(y, mean * np.exp(s)) for s in (step, -step))
    error = np.abs(slope - (above - below) / (2 * step))
    assert (error < 0.01 * (1 + np.sqrt(mean))).all()


@pytest.mark.parametrize(
    ["likelihood", "log_prob"],
    [
        (
            likelihoods.StudentT(1000.0, trainable=True),
            lambda y, weight: stats.t.logpdf(y, 2 + np.exp(weight)),
        ),
        (
            likelihoods.Beta(1e6, trainable=True),
            lambda y, weight: stats.beta.logpdf(y, *[np.exp(weight) / 2] * 2),
        ),
    ],
    ids=["student_t", "beta"],
)
def test_large_numbers_are_learned_by_the_gradient_of_their_density(
    likelihood, log_prob
):
    """tensorflow/tensorflow#32135: digits of a Beta's density are lost in float32.

    So were those of the gradient of `df`, which had another sign at 300.
    """
    (weight,) = likelihood.trainable_variables[:1]
    y = np.random.default_rng(0).normal(size=(200, 1)).astype("float32")
    if isinstance(likelihood, likelihoods.Beta):
        y = np.float32(0.5) + y / 2000
    with tf.GradientTape() as tape:
        found = likelihood.log_prob(y, tf.zeros_like(y))
        total = tf.reduce_sum(found)
    slope = tape.gradient(total, weight.value)
    y, at = y[:, 0].astype("float64"), float(weight)
    np.testing.assert_allclose(found, log_prob(y, at), rtol=1e-5, atol=1e-5)
    step = 1e-3
    above, below = (log_prob(y, at + s).sum() for s in (step, -step))
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-3)


@pytest.mark.parametrize("dispersion", [1e-12, 1e-16, 1e-30])
def test_a_negative_binomial_without_dispersion_is_a_poisson(dispersion):
    """statsmodels/statsmodels#1631: underdispersed counts take it to its boundary.

    Bounds of its intervals were NaN there, or in reverse order.
    """
    counts = likelihoods.NegativeBinomial(dispersion, trainable=True)
    raws = np.log([[[5.0]], [[7.0]]]).astype("float32")
    expected = likelihoods.Poisson().interval(raws, 0.9)
    np.testing.assert_array_equal(counts.interval(raws, 0.9), expected)
    with tf.GradientTape() as tape:
        log_prob = counts.log_prob([[4.0]], raws[0])
    np.testing.assert_allclose(log_prob, stats.poisson.logpmf(4, [5.0]), rtol=1e-5)
    assert abs(tape.gradient(log_prob, counts.log_dispersion.value)) < 0.1
