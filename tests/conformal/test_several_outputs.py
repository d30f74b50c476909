"""Each of several outputs of one model has its own calibration."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf import conformal
from bhn_tf.baselines import Deterministic
from tests import networks

NUM_ROWS = 60
X, CLASSES = networks.data(NUM_ROWS)
Y = np.stack([X[:, 0], 3.0 - X[:, 1]], axis=1)
COLOURS = np.where(X[:, 3] > 0, "blue", "red")
LABELS = {"age": Y, "kind": CLASSES, "late": (X[:, 0] > 0).astype("int32")}
LIKELIHOODS = {"age": "gaussian", "kind": "categorical", "late": "bernoulli"}
UNITS = {"age": 2, "kind": 3, "late": 1}


def calibrate(model, y, **kwargs):
    return conformal.calibrate(model, X, y, num_samples=3, seed=4, **kwargs)


@pytest.fixture(scope="module")
def networks_of_several():
    """A network with all outputs, and one for each output, with the same weights."""
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    outputs = {n: keras.layers.Dense(u, name=n)(hidden) for n, u in UNITS.items()}
    alone = {name: keras.Model(inputs, output) for name, output in outputs.items()}
    return keras.Model(inputs, outputs), alone


@pytest.mark.slow
def test_each_output_is_calibrated_as_if_it_were_alone(networks_of_several):
    network, alone = networks_of_several
    score = {"age": "absolute", "kind": conformal.APS(randomized=True)}
    model = Deterministic(network, LIKELIHOODS)
    calibrated = calibrate(model, LABELS, score=score, temperature=True)
    lower, upper = calibrated.predict_interval(X, 0.8, verbose=0)
    sets = calibrated.predict_set(X, 0.8, verbose=0)
    answers = calibrated.predict_uncertainty(X, verbose=0)
    for name, of_one in alone.items():
        one = calibrate(
            Deterministic(of_one, LIKELIHOODS[name]),
            LABELS[name],
            score=score.get(name),
            temperature=name != "age",
        )
        found, expected = calibrated.of_output(name), one.of_output()
        np.testing.assert_allclose(
            found.calibration_scores, expected.calibration_scores, rtol=1e-5, atol=1e-6
        )
        assert found.temperature == pytest.approx(expected.temperature, rel=1e-4)
        mean = answers[name]["mean"]
        np.testing.assert_allclose(mean, one.predict(X, verbose=0), atol=1e-5)
        if name == "age":
            bounds = one.predict_interval(X, 0.8, verbose=0)
            found_bounds = (lower["age"], upper["age"])
            np.testing.assert_allclose(found_bounds, bounds, rtol=1e-4, atol=1e-4)
        else:
            expected_set = one.predict_set(X, 0.8, verbose=0)
            np.testing.assert_array_equal(sets[name], expected_set)
    chosen = calibrated.reject_threshold(0.9, 0.5, output="kind")
    assert chosen.coverage > 0
    monitor = conformal.DriftMonitor(calibrated, 0.01, output="kind")
    assert not monitor.update(X) and monitor.num_rows == NUM_ROWS


def test_outputs_in_a_list_keep_their_places(networks_of_several):
    network, _ = networks_of_several
    outputs = [network.output[name] for name in ("kind", "age")]
    listed = keras.Model(network.input, outputs)
    model = Deterministic(listed, ["categorical", "gaussian"])
    calibrated = calibrate(model, [CLASSES, Y])
    lower, upper = calibrated.predict_interval(X, 0.8, verbose=0)
    sets = calibrated.predict_set(X, 0.8, verbose=0)
    assert lower[0] is None and lower[1].shape == upper[1].shape == Y.shape
    assert sets[0].shape == (NUM_ROWS, 3) and sets[1] is None
    share = bhn_tf.metrics.coverage(CLASSES, sets[0])
    assert share >= 0.8


def test_several_outputs_are_asked_by_name(networks_of_several):
    network, _ = networks_of_several
    model = Deterministic(network, LIKELIHOODS)
    with pytest.raises(ValueError, match=r"Output 'kind': .*classes"):
        calibrate(model, LABELS, score="quantile")
    with pytest.raises(ValueError, match=r"Output 'age': .*dictionary by output"):
        calibrate(model, LABELS, by="class")
    with pytest.raises(ValueError, match="'kinds'"):
        calibrate(model, LABELS, score={"kinds": "aps"})
    calibrated = calibrate(model, LABELS)
    for ask in (
        lambda: calibrated.thresholds(0.8),
        lambda: calibrated.reject_threshold(0.1),
        lambda: conformal.DriftMonitor(calibrated),
        lambda: calibrated.thresholds(0.8, output="kinds"),
    ):
        with pytest.raises(ValueError, match=r"one of \['age', 'kind', 'late'\]"):
            ask()
    with pytest.raises(ValueError, match="by groups"):
        calibrated.predict_set(X, 0.8, verbose=0, by=COLOURS)


@pytest.mark.slow
def test_a_dictionary_of_one_output_needs_no_name():
    inputs = keras.Input((4,))
    network = keras.Model(inputs, {"age": keras.layers.Dense(2)(inputs)})
    calibrated = calibrate(Deterministic(network, {"age": "gaussian"}), {"age": Y})
    lower, _ = calibrated.predict_interval(X, 0.8, verbose=0)
    assert lower["age"].shape == Y.shape
    for output in (None, "age"):
        monitor = conformal.DriftMonitor(calibrated, output=output)
        monitor.update(X)
        assert monitor.num_rows == NUM_ROWS


@pytest.mark.slow
def test_a_server_asks_for_the_groups_of_each_output(tmp_path):
    """0 and 1 may be the answers to two questions, given equally often."""
    inputs = keras.Input((4,))
    outputs = {
        name: keras.layers.Dense(1, name=name)(inputs) for name in ("age", "pay")
    }
    model = Deterministic(
        keras.Model(inputs, outputs), {"age": "gaussian", "pay": "gaussian"}
    )
    y = {"age": Y[:, :1], "pay": Y[:, 1:]}
    numbers = np.arange(NUM_ROWS)
    groups = {"age": numbers % 2, "pay": numbers // (NUM_ROWS // 2)}
    calibrated = calibrate(model, y, by=groups)
    path = calibrated.export(tmp_path / "apart", "predict_interval")
    ask = tf.saved_model.load(path).signatures["predict_interval"]
    served = ask(
        inputs=tf.constant(X),
        level=tf.constant(0.8),
        **{f"{name}_by": tf.constant(by, tf.int64) for name, by in groups.items()},
    )
    lower, upper = calibrated.predict_interval(X, 0.8, verbose=0, by=groups)
    for name in groups:
        np.testing.assert_allclose(served[f"{name}_lower"], lower[name], rtol=1e-6)
        np.testing.assert_allclose(served[f"{name}_upper"], upper[name], rtol=1e-6)
    together = calibrate(model, y, by=groups["age"])
    path = together.export(tmp_path / "together", "predict_interval")
    ask = tf.saved_model.load(path).signatures["predict_interval"]
    assert set(ask.structured_input_signature[1]) == {"inputs", "level", "by"}
