"""Calibration of every likelihood: whole numbers, positive ones, ordered classes."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf
from bhn_tf import conformal
from bhn_tf.baselines import Deterministic
from tests import networks

NUM_ROWS = 60
X, _ = networks.data(NUM_ROWS)
COUNTS = np.random.default_rng(0).poisson(3.0, size=NUM_ROWS)


def calibrate(model, y, **kwargs):
    return conformal.calibrate(model, X, y, num_samples=0, **kwargs)


def test_quantile_intervals_of_counts_and_of_positive_numbers():
    """Distributions of which TFP lacks a survival function or loses a tail's shape."""
    inputs = keras.Input((4,))
    outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in ("n", "t")}
    likelihoods = {
        "n": bhn_tf.likelihoods.NegativeBinomial(),
        "t": bhn_tf.likelihoods.LogNormal(),
    }
    model = Deterministic(keras.Model(inputs, outputs), likelihoods)
    y = {"n": COUNTS, "t": np.exp(X[:, 0])}
    calibrated = calibrate(model, y, score="quantile")
    lower, upper = calibrated.predict_interval(X, 0.8, verbose=0)
    inside = {n: (lower[n][:, 0] <= y[n]) & (upper[n][:, 0] >= y[n]) for n in y}
    # 61 · 0.8 = 48.8. The row that is the threshold is on the edge, where real numbers
    # round.
    assert inside["n"].sum() >= 49 and inside["t"].sum() in (48, 49)
    assert (lower["n"] % 1 == 0).all() and (upper["n"] % 1 == 0).all()
    assert (lower["n"] >= 0).all() and (lower["t"] > 0).all()


def test_counts_that_tie_on_the_bound_are_inside():
    """One prediction for all rows, so that many rows lie exactly on the bounds."""
    network = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    model = Deterministic(network, bhn_tf.likelihoods.Poisson())
    network.layers[-1].bias.assign([np.log(3.0)])
    for score in ("normalized", "absolute"):
        calibrated = calibrate(model, COUNTS, score=score)
        lower, upper = calibrated.predict_interval(X, 0.8, verbose=0)
        inside = (lower[:, 0] <= COUNTS) & (upper[:, 0] >= COUNTS)
        assert inside.sum() >= 49


def constant(likelihood, raw):
    network = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    network.layers[-1].bias.assign([raw])
    return Deterministic(network, likelihood)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("likelihood", "raw", "y"),
    [
        # An atom at 0, and other counts a thousand rounding errors away.
        (bhn_tf.likelihoods.ZeroInflatedPoisson(), np.log(1e5), COUNTS % 2 * 100_000),
        (bhn_tf.likelihoods.Poisson(), np.log(1e6), 1_000_000 + 999 * COUNTS),
        # Ties that a product of rounded numbers misses in the last digit.
        (bhn_tf.likelihoods.Gaussian(1.3), 3.8258486, 1 + COUNTS % 5),
        # Tails over many orders of magnitude.
        (bhn_tf.likelihoods.LogNormal(3.0), 0.0, np.exp(8.0 - 2.0 * COUNTS)),
    ],
)
@pytest.mark.parametrize("score", ["normalized", "quantile"])
def test_what_ties_with_the_threshold_is_inside(likelihood, raw, y, score):
    y = y.astype("float32")
    calibrated = calibrate(constant(likelihood, raw), y, score=score)
    for level in (0.3, 0.6, 0.9):
        lower, upper = calibrated.predict_interval(X, level, verbose=0)
        inside = (lower[:, 0] <= y) & (y <= upper[:, 0])
        assert inside.sum() >= np.ceil((NUM_ROWS + 1) * level)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("likelihood", "raw", "y", "highest"),
    [
        (bhn_tf.likelihoods.NegativeBinomial(2.0), 1.0, 3 * COUNTS, np.inf),
        (bhn_tf.likelihoods.Poisson(), -1.0, COUNTS, np.inf),
        (bhn_tf.likelihoods.LogNormal(0.5), 0.0, 0.1 + COUNTS, np.inf),
        (bhn_tf.likelihoods.Beta(), 2.0, (1 + COUNTS % 9) / 10, 1.0),
    ],
)
@pytest.mark.parametrize("score", ["normalized", "absolute", "upper_bound"])
def test_bounds_are_what_y_can_be(likelihood, raw, y, highest, score):
    calibrated = calibrate(constant(likelihood, raw), y, score=score)
    for level in (0.1, 0.95):
        lower, upper = calibrated.predict_interval(X, level, verbose=0)
        assert np.all((lower >= 0) & (lower <= upper) & (upper <= highest))


def test_ordered_classes_have_sets():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    likelihood = bhn_tf.likelihoods.Ordinal(4)
    y = np.arange(NUM_ROWS) % 4
    calibrated = calibrate(Deterministic(network, likelihood), y, temperature=True)
    sets = calibrated.predict_set(X, 0.8, verbose=0)
    assert sets.shape == (NUM_ROWS, 4)
    assert bhn_tf.metrics.coverage(y, sets) >= 0.8
    assert calibrated.predict(X, verbose=0).shape == (NUM_ROWS, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CensoredWeibull", "CensoredLogNormal"])
def test_waiting_times_are_at_least_their_bound(name, tmp_path):
    """Waiting times, some only partly seen, with a model that knows nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4_000, 4)).astype("float32")
    times = np.exp(x[:, 0]) * rng.weibull(1.5, size=len(x))
    waited = np.minimum(times, rng.exponential(2.0, size=len(x)))
    y = np.stack([waited, waited == times], axis=1)
    assert 0.2 < y[:, 1].mean() < 0.8
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model = Deterministic(network, getattr(bhn_tf.likelihoods, name)(3.0))
    calibrated = conformal.calibrate(model, x[:2_000], y[:2_000], num_samples=0)
    lower, upper = calibrated.predict_interval(x[2_000:], 0.8, verbose=0)
    assert np.all(upper == np.inf) and np.all(lower > 0)
    # It holds as promised for the times waited, and more often for the whole times.
    limits = scipy.stats.betabinom(2_000, 1_601, 400).ppf([0.005, 0.995])
    held = np.sum(lower[:, 0] <= waited[2_000:])
    assert limits[0] <= held <= limits[1]
    assert np.sum(lower[:, 0] <= times[2_000:]) >= held

    calibrated.save(tmp_path / "bound.keras")
    loaded = keras.saving.load_model(tmp_path / "bound.keras")
    served = tf.saved_model.load(calibrated.export(tmp_path, "predict_interval"))
    request = {"inputs": tf.constant(x[:50]), "level": tf.constant(0.8)}
    answers = served.signatures["predict_interval"](**request)
    for found in (
        loaded.predict_interval(x[:50], 0.8, verbose=0),
        (answers["lower"], answers["upper"]),
    ):
        expected = calibrated.predict_interval(x[:50], 0.8, verbose=0)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("score", ["absolute", conformal.UpperBound()])
def test_what_a_time_may_be_at_most_is_not_promised(score):
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model = Deterministic(network, bhn_tf.likelihoods.CensoredWeibull())
    y = np.stack([np.exp(X[:, 0]), X[:, 1] > 0], axis=1)
    with pytest.raises(ValueError, match="at least"):
        calibrate(model, y, score=score)


@pytest.mark.slow
def test_an_infinite_mean_is_no_middle_of_an_interval():
    model = constant(bhn_tf.likelihoods.LogNormal(14.0), 0.0)
    y = np.exp(14.0 * scipy.stats.norm.ppf(np.arange(1, NUM_ROWS + 1) / 61))
    y = np.clip(y, 1e-30, 1e30).astype("float32")
    with pytest.raises(ValueError, match="mean is infinite.*'quantile'"):
        calibrate(model, y, score="absolute")
    calibrated = calibrate(model, y, score="quantile")
    lower, upper = calibrated.predict_interval(X, 0.8, verbose=0)
    assert 49 <= np.sum((lower[:, 0] <= y) & (y <= upper[:, 0])) <= 50


@pytest.mark.filterwarnings("ignore:.*is not registered")
def test_what_has_no_mean_is_told_so():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    cauchy = bhn_tf.likelihoods.Distribution(
        lambda raw: tfp.distributions.Cauchy(raw, 1.0)
    )
    with pytest.raises(ValueError, match="take a likelihood with a mean"):
        calibrate(Deterministic(network, cauchy), X[:, :1])
