"""Measures of intervals, sets and predictive distributions of numbers."""

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from bhn_tf import metrics

Y = np.array([0.0, 1.0, 2.5, -1.0])
LOWER, UPPER = np.array([-1.0, 1.0, 0.0, 0.0]), np.array([1.0, 2.0, 2.0, 1.0])


def test_bounds_belong_to_the_interval():
    assert metrics.coverage(Y, LOWER, UPPER) == 0.5
    assert metrics.coverage([1.0, 2.0], [1.0, 1.0], [2.0, 2.0]) == 1.0


def test_width_and_score_of_intervals():
    assert metrics.mean_width(LOWER, UPPER) == pytest.approx(6 / 4)
    score = metrics.interval_score(Y, LOWER, UPPER, 0.8)
    assert score == pytest.approx((6 + 2 / 0.2 * (0.5 + 1.0)) / 4)


def test_the_interval_score_is_that_of_two_pinballs():
    level = 0.9
    two = metrics.pinball(Y, LOWER, 0.05) + metrics.pinball(Y, UPPER, 0.95)
    score = metrics.interval_score(Y, LOWER, UPPER, level)
    assert score == pytest.approx(2 / (1 - level) * two)


def test_sets():
    sets = np.array([[True, False, False], [True, True, False], [False] * 3])
    assert metrics.set_size(sets) == 1.0
    assert metrics.coverage([0, 2, 1], sets) == pytest.approx(1 / 3)


def test_crps_of_a_mixture_is_its_integral():
    y, mean, std = 0.3, np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, 0.2])

    def squared(z):
        return (scipy.stats.norm(mean, std).cdf(z).mean() - (z >= y)) ** 2

    parts = [scipy.integrate.quad(squared, *ends)[0] for ends in ((-9, y), (y, 9))]
    assert metrics.crps([y], [mean], [std]) == pytest.approx(sum(parts), rel=1e-6)


def test_crps_of_samples_is_mean_distance_less_half_the_spread():
    samples = np.array([[0.0, 1.0, 5.0]])
    spread = np.abs(samples[0][:, None] - samples[0]).mean()
    expected = np.abs(samples - 2.0).mean() - spread / 2
    assert metrics.crps([2.0], samples) == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
def test_crps_of_an_infinite_spread_is_infinite():
    assert metrics.crps([1.0], [0.0], [np.inf]) == np.inf
    assert metrics.crps([1.0], [[0.0, 2.0]], [[0.5, np.inf]]) == np.inf
    assert metrics.crps([[1.0, 2.0]], [[0.0, 2.0]], [[np.inf, 1.0]]) == np.inf
    assert np.isnan(metrics.crps([np.nan], [0.0], [np.inf]))
    for y, expected in ((1.0, np.inf), (np.nan, np.nan)):
        found = float(metrics.CRPS()([y], [[0.0, np.inf]]))
        np.testing.assert_equal(found, expected)


@pytest.mark.filterwarnings("error")
def test_crps_of_an_infinite_forecast_is_infinite():
    assert metrics.crps([1.0, 0.0], [np.inf, 0.0]) == np.inf
    assert metrics.crps([1.0], [np.inf], [0.5]) == np.inf
    assert metrics.crps([1.0], [np.inf], [np.inf]) == np.inf
    assert metrics.crps([np.inf], [np.inf], [0.5]) == np.inf
    assert np.isnan(metrics.crps([1.0], [[np.inf, np.nan]], 0.5))
    assert np.isnan(metrics.crps([1.0], [np.nan], [np.inf]))
    assert metrics.crps([1.0], [[0.0, np.inf, -np.inf]], [[0.5, 0.5, 0.0]]) == np.inf
    for std in (0.0, 0.5, np.inf):
        assert float(metrics.CRPS()([1.0], [[np.inf, std]])) == np.inf
    assert np.isnan(metrics.CRPS()([1.0], [[np.nan, np.inf]]))


def test_a_spread_that_is_not_known_is_not_hidden():
    assert np.isnan(metrics.crps([0.0, 1.0], [1.0, 1.0], [np.nan, 0.5]))
    assert np.isnan(metrics.crps([0.0], [[0.0, 1.0]], [[0.5, np.nan]]))
    assert np.isnan(metrics.CRPS()([0.0], [[1.0, np.nan]]))


def test_a_column_is_no_mixture():
    y, mean = np.array([1.0, 2.0, 4.0]), np.array([[1.0], [1.0], [1.0]])
    assert metrics.crps(y, mean) == metrics.crps(y[:, None], mean) == 4 / 3
    assert metrics.coverage(y, mean, mean) == pytest.approx(1 / 3)


def test_shapes_that_would_be_broadcast_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        metrics.coverage(Y, LOWER[:2], UPPER[:2])
    with pytest.raises(ValueError, match="do not fit"):
        metrics.crps(Y, np.zeros([3, 5]))
    with pytest.raises(ValueError, match="deviations of shape .* do not fit"):
        metrics.crps(Y[:, None], LOWER[:, None], UPPER)
    with pytest.raises(ValueError, match="Expected rows"):
        metrics.crps([], np.zeros([0, 3]))
    bounds = np.stack([LOWER, UPPER], axis=-1)
    with pytest.raises(ValueError, match="do not fit"):
        metrics.IntervalCoverage()(np.stack([Y, Y], axis=-1), bounds)
    with pytest.raises(ValueError, match="booleans"):
        metrics.set_size([[1, 0]])
    with pytest.raises(ValueError, match="level"):
        metrics.interval_score(Y, LOWER, UPPER, 1.0)


@pytest.mark.parametrize("classes", [[-1, 0], [0, 2], [0, 0.5], [0, np.nan]])
def test_what_is_no_class_is_in_no_set(classes):
    with pytest.raises(ValueError, match="from 0 to 1"):
        metrics.coverage(classes, [[True, True], [True, True]])


def test_bounds_without_an_end_hold_everything():
    y, lower, upper = [1.0, 2.0, 9.0], [-np.inf, 0.0, -np.inf], [np.inf, np.inf, 3.0]
    bounds = np.stack([lower, upper], axis=-1)
    assert metrics.coverage(y, lower, upper) == pytest.approx(2 / 3)
    assert float(metrics.IntervalCoverage()(y, bounds)) == pytest.approx(2 / 3)
    assert metrics.mean_width(lower, upper) == np.inf
    assert metrics.interval_score(y, lower, upper, 0.9) == np.inf
    for metric in (metrics.IntervalWidth(), metrics.IntervalScore(0.9)):
        assert float(metric(y, bounds)) == np.inf


@pytest.mark.parametrize("row", [(np.nan, 0, 2), (1, np.nan, 2), (1, 0, np.nan)])
def test_nan_is_not_hidden(row):
    y, lower, upper = np.transpose([row, (1.0, 0.0, 2.0)])
    assert np.isnan(metrics.coverage(y, lower, upper))
    metric = metrics.IntervalCoverage()
    assert np.isnan(metric(y, np.stack([lower, upper], axis=-1)))


def test_what_is_masked_is_not_known():
    masked = np.ma.masked_equal(Y, 2.5)
    assert np.isnan(metrics.coverage(masked, LOWER, UPPER))
    assert np.isnan(metrics.crps(masked, Y, 1.0))
    with pytest.raises(ValueError, match="leave out rows without a class"):
        metrics.coverage(np.ma.masked_equal([0, 1], 1), np.eye(2) > 0)


@pytest.mark.parametrize(
    "metric",
    [
        metrics.IntervalCoverage(),
        metrics.IntervalWidth(),
        metrics.IntervalScore(0.8),
        metrics.CRPS(),
        metrics.Pinball(0.8),
    ],
    ids=lambda metric: metric.name,
)
def test_what_has_no_weight_or_is_padding_may_be_anything(metric):
    stacked = np.stack([LOWER, UPPER], axis=-1)
    predicted = UPPER if metric.name == "pinball" else stacked
    expected = float(metric(Y[:3], predicted[:3]))
    y = np.where(np.arange(4) == 3, np.nan, Y)
    weight = np.arange(4) < 3
    for shape in ([4], [4, 1]):
        metric.reset_state()
        found = metric(y, predicted, weight.reshape(shape))
        assert float(found) == pytest.approx(expected)
    metric.reset_state()
    padded = tf.convert_to_tensor(predicted)
    padded._keras_mask = tf.constant(weight)
    assert float(metric(y, padded)) == pytest.approx(expected)


def test_targets_are_not_paired_with_every_prediction():
    """[B] and [B, 1] are matched row by row, as in Keras's own losses."""
    y, quantiles = Y, UPPER[:, None]
    expected = metrics.pinball(Y, UPPER, 0.75)
    assert float(metrics.Pinball(0.75)(y, quantiles)) == pytest.approx(expected)
    assert float(metrics.Pinball(0.75)(y[:, None], UPPER)) == pytest.approx(expected)
    for y, bounds in ((Y[:, None], (3, 4, 2)), (Y[:1], (3, 2))):
        with pytest.raises(ValueError, match="expected one for each"):
            metrics.IntervalCoverage()(y, np.zeros(bounds))
    with pytest.raises(ValueError, match="expected one for each"):
        metrics.Pinball(0.5)(Y, np.zeros([3, 2]))


@pytest.mark.parametrize(
    ["metric", "expected"],
    [
        (metrics.IntervalCoverage(), metrics.coverage(Y, LOWER, UPPER)),
        (metrics.IntervalWidth(), metrics.mean_width(LOWER, UPPER)),
        (metrics.IntervalScore(0.8), metrics.interval_score(Y, LOWER, UPPER, 0.8)),
        (metrics.CRPS(), metrics.crps(Y, LOWER, UPPER)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_keras_metrics_of_two_numbers_agree_also_batch_by_batch(metric, expected):
    metric = type(metric).from_config(metric.get_config())
    bounds = np.stack([LOWER, UPPER], axis=-1)
    metric.update_state(Y[:1, None], bounds[:1])
    metric.update_state(Y[1:], bounds[1:])
    assert float(metric.result()) == pytest.approx(expected)


def test_forecasts_without_spread_are_measured_by_their_distance():
    stacked = np.stack([LOWER, np.zeros(4)], axis=-1)
    assert float(metrics.CRPS()(Y, stacked)) == pytest.approx(np.abs(Y - LOWER).mean())


def test_size_of_sets_of_probabilities():
    p = np.array([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [0.4, 0.4, 0.2]])
    metric = metrics.SetSize(0.3)
    metric = type(metric).from_config(metric.get_config())
    assert float(metric([0, 0, 0], p)) == pytest.approx(5 / 3)
    for column in ([[0.5], [0.9]], [0.5, 0.9]):
        metric.reset_state()
        assert float(metric([0, 0], column)) == 1.5
    metric.reset_state()
    assert np.isnan(metric([0, 0], [[np.nan, 0.5], [0.9, 0.1]]))


@pytest.mark.parametrize(
    "metric", [metrics.IntervalCoverage(), metrics.CRPS()], ids=lambda m: m.name
)
@pytest.mark.parametrize("size", [1, 3])
def test_other_numbers_of_bounds_are_refused(metric, size):
    """Of three quantiles the upper one is not the second."""
    with pytest.raises(ValueError, match=rf"\(4, {size}\): expected .* last axis"):
        metric.update_state(Y, np.zeros([4, size]))


def test_targets_of_several_axes_may_have_a_last_one_of_one():
    targets, bounds = np.full((2, 3, 1), 0.5), np.zeros((2, 3, 2))
    bounds[:, 1:, 1] = 1.0
    metric = metrics.IntervalCoverage()
    metric.update_state(targets, bounds)
    assert float(metric.result()) == pytest.approx(2 / 3)


def test_pinball_is_a_keras_metric_that_is_saved():
    metric = metrics.Pinball(0.75)
    config = keras.saving.serialize_keras_object(metric)
    restored = keras.saving.deserialize_keras_object(config)
    for each in (metric, restored):
        each.update_state(Y[:, None], UPPER[:, None])
        expected = metrics.pinball(Y, UPPER, 0.75)
        assert float(each.result()) == pytest.approx(expected)
