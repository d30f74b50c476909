"""Scores of numbers and their intervals are inverse to each other."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from bhn_tf.conformal import (
    APS,
    LAC,
    RAPS,
    Absolute,
    LowerBound,
    Normalized,
    Quantile,
    UpperBound,
)
from bhn_tf.conformal.interval_scores import CustomIntervalConformity, Predictive
from bhn_tf.likelihoods import (
    CensoredWeibull,
    Gaussian,
    LogNormal,
    Poisson,
    Standardized,
)
from bhn_tf.likelihoods.roots import crossing

STDDEV = 0.5


@pytest.fixture(scope="module")
def predictive():
    # Two draws that disagree about some of the rows.
    means = np.array([[[0.0], [1.0], [100.0]], [[0.0], [3.0], [-100.0]]], "float32")
    return Predictive(Gaussian(STDDEV), tf.constant(means))


@keras.saving.register_keras_serializable("tests")
def relative(y, answers):
    return tf.abs(y - answers["mean"]) / (1.0 + tf.abs(answers["mean"]))


SCORES = [Absolute(), Normalized(), Quantile(), CustomIntervalConformity(relative)]


@pytest.mark.few(4)
@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
@pytest.mark.parametrize("threshold", [0.8, 3.0, 50.0])
def test_bounds_have_the_score_of_the_threshold(score, threshold, predictive):
    lower, upper = score.interval(predictive, threshold)
    assert np.all(lower <= upper)
    for bound in (lower, upper):
        found = score.of_targets(predictive, bound)
        np.testing.assert_allclose(found, np.full([3, 1], threshold), rtol=1e-3)


@pytest.mark.parametrize(
    "score", [Absolute, Normalized, Quantile, LowerBound, UpperBound, LAC, APS, RAPS]
)
def test_saved_files_name_the_library_and_not_the_module(score):
    assert keras.saving.get_registered_name(score) == f"bhn_tf>{score.__name__}"


@pytest.mark.few(1)
@pytest.mark.parametrize("threshold", [0.01, 3.0, 50.0])
def test_a_bound_has_the_score_of_the_threshold_and_the_other_side_no_end(
    threshold, predictive
):
    lower, no_end = LowerBound().interval(predictive, threshold)
    no_beginning, upper = UpperBound().interval(predictive, threshold)
    assert np.all(no_end == np.inf) and np.all(no_beginning == -np.inf)
    for score, bound in ((LowerBound(), lower), (UpperBound(), upper)):
        found = score.of_targets(predictive, bound)
        np.testing.assert_allclose(found, np.full([3, 1], threshold), rtol=1e-3)
    # One tail of a central interval, whose tails are equal.
    if threshold > np.log(2):
        both = Quantile().interval(predictive, threshold)
        np.testing.assert_allclose([lower, upper], both, rtol=1e-5, atol=1e-5)


def test_the_quantile_score_is_the_tail_of_the_mixture(predictive):
    y = np.array([[1.0], [1.2], [99.0]], "float32")
    components = scipy.stats.norm([[0, 0], [1, 3], [100, -100]], STDDEV)
    lower = components.cdf(y).mean(axis=1)
    upper = components.sf(y).mean(axis=1)
    expected = -np.log(np.minimum(lower, upper))
    found = Quantile().of_targets(predictive, y)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_count_far_away_is_outside_as_soon_as_its_residual_is_larger():
    mean = np.float32(np.log(200_000.0))
    counts = Predictive(Poisson(), tf.fill([1, 1, 1], mean))
    bounds = Absolute().interval(counts, 10.3)
    lower, upper = counts.possible(*bounds, is_around_mean=True)
    center = counts.mean.numpy().item()
    # Half a count for the rounding of float32.
    assert lower.numpy().item() == np.ceil(center - 10.8)
    assert upper.numpy().item() == np.floor(center + 10.8)


def test_targets_many_deviations_away_are_ordered(predictive):
    far = np.array([30.0, 100.0, 1e4])
    scores = [Quantile().of_targets(predictive, tf.fill([3, 1], v))[0, 0] for v in far]
    assert np.all(np.isfinite(scores)) and np.all(np.diff(scores) > 0)


def test_intervals_of_a_skewed_mixture_are_not_symmetric():
    raws = tf.constant([[[0.0]], [[0.0]], [[0.0]], [[10.0]]])
    lower, upper = Quantile().interval(Predictive(Gaussian(1.0), raws), -np.log(0.1))
    assert float(2.5 - lower[0, 0]) < float(upper[0, 0] - 2.5)


def test_units_of_the_targets_do_not_matter():
    raws = tf.constant(np.random.default_rng(0).normal(size=[3, 4, 1]), tf.float32)
    standardized = Standardized(Gaussian(STDDEV), num_outputs=1)
    standardized.adapt(np.array([[100.0], [300.0]]))
    y = np.zeros([4, 1], "float32")
    for score in (Normalized(), Quantile()):
        plain = score.of_targets(Predictive(Gaussian(STDDEV), raws), y)
        scaled = Predictive(standardized, raws)
        found = score.of_targets(scaled, 200.0 + 100.0 * y)
        np.testing.assert_allclose(found, plain, rtol=1e-4)


@pytest.mark.slow
def test_a_prediction_of_nan_has_an_interval_of_nan(predictive):
    raws = tf.constant([[[np.nan], [0.0]]])
    for score in SCORES:
        lower, upper = score.interval(Predictive(Gaussian(1.0), raws), 2.0)
        assert np.isnan([lower[0, 0], upper[0, 0]]).all()
        assert np.isfinite([lower[1, 0], upper[1, 0]]).all()
    for score in (LowerBound(), UpperBound()):
        lower, upper = score.interval(Predictive(Gaussian(1.0), raws), 2.0)
        assert np.isnan([lower[0, 0], upper[0, 0]]).all()


@pytest.mark.slow
@pytest.mark.parametrize("tail", [pytest.param(0.3, marks=pytest.mark.slow), 0.05])
@pytest.mark.parametrize("score", [Quantile(), LowerBound(), UpperBound()])
def test_tails_over_many_orders_of_magnitude_are_left_as_they_are_asked_for(
    score, tail
):
    """Their standard deviation says little, and is infinite from some width on."""
    raw = np.array([-1.5, -2.0, -2.5, -3.0])
    shapes = np.log1p(np.exp(raw)) + 1e-6
    stddevs = np.array([4.0, 6.0, 7.0, 14.0])
    raws = np.stack([np.zeros(4), raw], axis=-1)[None].astype("float32")
    of_stddevs = np.stack([np.zeros(4), np.log(np.expm1(stddevs))], axis=-1)[None]
    for likelihood, given, reference in (
        (CensoredWeibull(heteroscedastic=True), raws, scipy.stats.weibull_min(shapes)),
        (
            LogNormal(heteroscedastic=True),
            of_stddevs.astype("float32"),
            scipy.stats.lognorm(stddevs),
        ),
    ):
        predictive = Predictive(likelihood, tf.constant(given))
        bounds = score.interval(predictive, -np.log(tail))
        lower, upper = predictive.possible(*bounds, score.is_around_mean)
        if not isinstance(score, UpperBound):
            np.testing.assert_allclose(reference.cdf(lower[:, 0]), tail, rtol=1e-3)
        if not isinstance(score, LowerBound):
            np.testing.assert_allclose(reference.sf(upper[:, 0]), tail, rtol=1e-3)


def test_a_spread_without_an_end_has_intervals_without():
    predictive = Predictive(LogNormal(stddev=7.0), tf.zeros([1, 2, 1]))
    assert np.all(predictive.std == np.inf) and np.all(np.isfinite(predictive.mean))
    lower, upper = Normalized().interval(predictive, 0.0)
    assert np.all(lower == -np.inf) and np.all(upper == np.inf)


def test_a_zero_far_away_is_found():
    found = crossing(lambda y: y - [1e6, -3.0], tf.zeros([2]), tf.ones([2]))
    np.testing.assert_allclose(found, [1e6, -3.0], rtol=1e-6)


def test_the_search_begins_between_the_last_two_steps_that_were_tried():
    """Numbers of one size differ in 24 bits; from below 0 to above it, in 32."""
    tried = []

    def function(y):
        tried.append(y)
        return y - tf.constant([-1.7, 1.3])

    found = crossing(function, tf.zeros(2), tf.ones(2))
    np.testing.assert_array_equal(found, np.float32([-1.7, 1.3]))
    assert len(tried) <= 27
