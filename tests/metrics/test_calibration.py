import doctest

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import tensorflow as tf

from bhn_tf.metrics import (
    BrierScore,
    ExpectedCalibrationError,
    NegativeLogLikelihood,
    calibration,
    labelled_items,
    reliability,
)

METRICS = [ExpectedCalibrationError, BrierScore, NegativeLogLikelihood]


def predictions(num_rows=50, num_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(num_rows, num_classes))
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return rng.integers(0, num_classes, num_rows), p.astype("float32")


def calibration_by_hand(labels, p, num_bins, weights=None):
    weights = np.ones(len(labels)) if weights is None else weights
    total = 0.0
    for k in range(num_bins):
        inside = [
            i
            for i, row in enumerate(p)
            if k / num_bins < max(row) <= (k + 1) / num_bins
        ]
        if inside:
            w = weights[inside]
            accuracy = np.average(p[inside].argmax(axis=1) == labels[inside], weights=w)
            confidence = np.average(p[inside].max(axis=1), weights=w)
            total += w.sum() * abs(accuracy - confidence)
    return total / weights.sum()


def by_hand(metric_class, labels, p, weights=None):
    if metric_class is ExpectedCalibrationError:
        return calibration_by_hand(labels, p, 15, weights)
    if metric_class is BrierScore:
        values = ((p - np.eye(p.shape[1])[labels]) ** 2).sum(axis=1)
    else:
        values = [-np.log(p[i, label]) for i, label in enumerate(labels)]
    return np.average(values, weights=weights)


def measured(metric, *args, **kwargs):
    metric.update_state(*args, **kwargs)
    return float(metric.result())


@pytest.mark.parametrize("module", [calibration, labelled_items])
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("num_bins", [0, 1.5, np.nan, np.inf, "15", None])
def test_numbers_of_bins_without_sense_are_refused(num_bins):
    with pytest.raises(ValueError, match="`num_bins` to be a whole number of at"):
        ExpectedCalibrationError(num_bins)


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "boolean", "Float64"])
def test_labels_of_nullable_dtypes(dtype):
    labels = pd.Series([0, 1, 1]).astype(dtype)
    p = np.array([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    for given in (labels, labels.array):
        np.testing.assert_equal(reliability(given, p, 3), reliability([0, 1, 1], p, 3))
        assert BrierScore()(given, p) == BrierScore()([0, 1, 1], p)


def test_masked_probabilities_are_nan():
    p = np.ma.masked_equal([[0.25, 0.75], [0.5, 0.5]], 0.25)
    assert np.isnan(BrierScore()([1, 0], p))
    assert BrierScore()([1, 0], p, sample_weight=[0, 1]) == 0.5


def test_no_class_is_refused():
    with pytest.raises(ValueError, match="C >= 1"):
        labelled_items.labelled_items([0, 0], np.zeros([2, 0]))


@pytest.mark.parametrize("metric_class", METRICS)
def test_equals_a_loop_over_rows(metric_class):
    labels, p = predictions()
    weights = np.random.default_rng(1).uniform(0, 2, 50)
    expected = by_hand(metric_class, labels, p)
    np.testing.assert_allclose(measured(metric_class(), labels, p), expected, atol=1e-6)
    for given in (weights, weights[:, None], weights.astype("float32")):
        np.testing.assert_allclose(
            measured(metric_class(), labels, p, sample_weight=given),
            by_hand(metric_class, labels, p, weights),
            atol=1e-6,
        )


def test_equals_scikit_learn():
    labels, p = predictions(300, 3)
    np.testing.assert_allclose(
        measured(NegativeLogLikelihood(), labels, p),
        sklearn.metrics.log_loss(labels, p),
        rtol=1e-5,
    )
    binary = (labels > 0).astype(int)
    np.testing.assert_allclose(
        measured(BrierScore(), binary, p[:, 0]),
        sklearn.metrics.brier_score_loss(binary, p[:, 0]),
        rtol=1e-5,
    )


@pytest.mark.parametrize("metric_class", METRICS)
def test_every_coding_of_labels(metric_class):
    labels, p = predictions()
    expected = measured(metric_class(), labels, p)
    for coded in (
        labels[:, None],
        labels.astype("float32"),
        labels.astype("uint8"),
        labels.tolist(),
        tf.constant(labels),
        np.eye(4)[labels],
        np.eye(4, dtype="int64")[labels],
    ):
        assert measured(metric_class(), coded, p) == expected
    assert measured(metric_class(), labels, p.astype("float64")) == pytest.approx(
        expected, abs=1e-6
    )
    half = measured(metric_class(), labels, tf.constant(p, tf.float16))
    assert half == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize("metric_class", METRICS)
def test_every_coding_of_binary_predictions(metric_class):
    labels = np.array([0, 1, 1, 0])
    p = np.array([0.2, 0.9, 0.4, 0.0], "float32")
    expected = {
        ExpectedCalibrationError: 0.2 / 4 + 0.1 / 4 + 0.6 / 4,
        BrierScore: (0.2**2 + 0.1**2 + 0.6**2) / 4,
        NegativeLogLikelihood: -np.log([0.8, 0.9, 0.4, 1.0]).mean(),
    }[metric_class]
    for y in (labels, labels[:, None], labels.astype(bool), labels.astype("float32")):
        for given in (p, p[:, None]):
            result = measured(metric_class(), y, given)
            assert result == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match="0..1"):
        metric_class().update_state([0, 1, 2, 0], p)


@pytest.mark.parametrize("metric_class", METRICS)
def test_pixels_count_as_rows(metric_class):
    labels, p = predictions(24)
    expected = measured(metric_class(), labels, p)
    p = p.reshape(2, 3, 4, 4)
    for y in (labels.reshape(2, 3, 4), labels.reshape(2, 3, 4, 1)):
        assert measured(metric_class(), y, p) == pytest.approx(expected, abs=1e-6)
    y, weights = labels.reshape(2, 3, 4), np.array([1.0, 0.0])
    first = measured(metric_class(), y[:1], p[:1])
    for given in (weights, weights[:, None, None] * np.ones((2, 3, 4))):
        result = measured(metric_class(), y, p, sample_weight=given)
        assert result == pytest.approx(first, abs=1e-6)


@pytest.mark.few(3)
@pytest.mark.parametrize("metric_class", METRICS)
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_batches_equal_one_shot(metric_class, mode):
    labels, p = predictions(101)
    metric = metric_class()
    update = metric.update_state
    if mode != "eager":
        signature = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 4])]
        update = tf.function(
            update, input_signature=signature, jit_compile=mode == "xla"
        )
    for start in range(0, 101, 10):
        update(labels[start : start + 10], p[start : start + 10])
    update(labels[:0], p[:0])
    expected = by_hand(metric_class, labels, p)
    np.testing.assert_allclose(metric.result(), expected, atol=1e-6)
    metric.reset_state()
    assert metric.result() == 0.0


@pytest.mark.parametrize("metric_class", METRICS)
def test_nothing_measured_is_zero(metric_class):
    assert metric_class().result() == 0.0
    assert measured(metric_class(), [0], [[0.5, 0.5]], sample_weight=[0.0]) == 0.0


@pytest.mark.parametrize("metric_class", METRICS)
def test_absent_rows_do_not_count_whatever_they_hold(metric_class):
    labels, p = predictions(4)
    expected = measured(metric_class(), labels[:1], p[:1])
    labels[1], p[2], p[3] = -1, np.nan, [9.0, 0.0, 0.0, -9.0]
    keep = [1.0, 0.0, 0.0, 0.0]
    result = measured(metric_class(), labels, p, sample_weight=keep)
    assert result == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("metric_class", METRICS)
def test_nan_prediction_makes_the_result_nan(metric_class):
    labels, p = predictions()
    p[3, 1] = np.nan
    assert np.isnan(measured(metric_class(), labels, p))


@pytest.mark.few(6)
@pytest.mark.parametrize("metric_class", METRICS)
@pytest.mark.parametrize(
    "wrong",
    ["negative", "too_large", "fraction", "nan", "logits", "two_hot", "sigmoids"],
)
def test_what_cannot_be_measured_is_an_error(metric_class, wrong):
    labels, p = predictions(6)
    labels = labels.astype("float32")
    values = {"negative": -1, "too_large": 4, "fraction": 0.5, "nan": np.nan}
    if wrong in values:
        labels[2] = values[wrong]
    elif wrong == "logits":
        p = np.log(p)
    elif wrong == "sigmoids":
        p[1] = [0.9, 0.8, 0.1, 0.0]
    else:
        labels = np.eye(4, dtype="float32")[labels.astype(int)]
        labels[0] = [1, 1, 0, 0]
    with pytest.raises(ValueError, match="integers in 0..3 or one-hot"):
        metric_class().update_state(labels, p)
    with pytest.raises(tf.errors.InvalidArgumentError, match="integers in 0..3"):
        tf.function(metric_class().update_state)(labels, p)
    metric = metric_class()
    tf.function(metric.update_state, jit_compile=True)(labels, p)
    assert np.isnan(metric.result())


@pytest.mark.parametrize("metric_class", METRICS)
def test_shapes_that_do_not_fit(metric_class):
    p = np.full((6, 3), 1 / 3)
    for labels in (np.zeros(5), np.zeros((6, 2)), np.zeros((6, 3, 1)), 0):
        with pytest.raises(ValueError, match="do not fit"):
            metric_class().update_state(labels, p)
    for weight in (np.ones((6, 2)), np.ones(5), np.ones((5, 1))):
        with pytest.raises(ValueError, match="do not fit"):
            metric_class().update_state(np.zeros(6), p, sample_weight=weight)
    with pytest.raises(ValueError, match="expected"):
        metric_class().update_state(0, 0.5)
    with pytest.raises(ValueError, match="are text"):
        metric_class().update_state(["a", "b", "a", "b", "a", "b"], p)


def test_likelihood_and_brier_of_certain_predictions():
    certain = [[1.0, 0.0], [0.0, 1.0]]
    assert measured(NegativeLogLikelihood(), [0, 1], certain) == 0.0
    assert measured(NegativeLogLikelihood(), [0, 0], certain) == np.inf
    assert measured(NegativeLogLikelihood(), [0], [1.0 + 1e-7]) == np.inf
    assert measured(BrierScore(), [1, 0], certain) == 2.0
    # A probability that float32 cannot hold is measured as given.
    tiny = np.array([[1e-200, 1.0]])
    np.testing.assert_allclose(
        measured(NegativeLogLikelihood(), [0], tiny), 200 * np.log(10), rtol=1e-6
    )


def test_soft_labels_count_by_their_weights():
    p = [[0.8, 0.2]]
    soft = [[0.5, 0.5]]
    expected = -0.5 * np.log(0.8) - 0.5 * np.log(0.2)
    assert measured(NegativeLogLikelihood(), soft, p) == pytest.approx(expected)
    assert measured(ExpectedCalibrationError(), soft, p) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("num_bins", "labels", "p", "expected"),
    [
        (10, [0, 1], [[0.95, 0.05], [1.0, 0.0]], 0.475),
        (10, [1], [0.0], 1.0),
        (10, [0, 0, 0], [[1.0, 0.0]] * 3, 0.0),
        (10, [0, 1], [[0.8, 0.2]] * 2, 0.3),
        (10, [0, 1], [[1.0, 0.0], [0.0, 1.0]], 0.0),
        (15, [0], [[0.7, 0.3]], 0.3),
        (1, [0, 1, 1], [[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]], 0.1),
    ],
)
def test_calibration_by_hand(num_bins, labels, p, expected):
    result = measured(ExpectedCalibrationError(num_bins), labels, p)
    assert result == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("num_bins", [1, 2, 7, 10, 15, 100])
def test_edges_are_in_the_bin_below(num_bins, dtype):
    edges = (np.arange(num_bins + 1) / num_bins).astype(dtype)
    count = reliability(np.zeros(num_bins + 1), edges, num_bins).count
    assert count.tolist() == [2] + [1] * (num_bins - 1)


def test_reliability_adds_up_to_the_calibration_error():
    labels, p = predictions(200)
    confidence, accuracy, count = reliability(labels, p)
    assert count.sum() == 200 and confidence.shape == accuracy.shape == (15,)
    np.testing.assert_array_equal(np.isnan(confidence), count == 0)
    np.testing.assert_array_equal(np.isnan(accuracy), count == 0)
    error = np.nansum(count * np.abs(accuracy - confidence)) / count.sum()
    metric = ExpectedCalibrationError()
    np.testing.assert_allclose(measured(metric, labels, p), error, atol=1e-6)


def test_reliability_errors_say_what_to_do():
    with pytest.raises(ValueError, match="at least one row"):
        reliability(np.zeros(0), np.zeros((0, 2)))
    with pytest.raises(ValueError, match="1 predictions with NaN"):
        reliability([0, 1], [[np.nan, 0.5], [0.5, 0.5]])
    for num_bins in (0, -1, 2.5):
        with pytest.raises(ValueError, match="whole number"):
            reliability([0], [[1.0, 0.0]], num_bins)
        with pytest.raises(ValueError, match="whole number"):
            ExpectedCalibrationError(num_bins)
