"""A row has the same random number however its inputs are given."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import conformal
from bhn_tf.baselines import Deterministic

ROWS = np.random.default_rng(0).normal(size=(2, 60, 4)).astype("float32")
GIVEN = {"left": ROWS[0], "right": ROWS[1], "day": np.arange(60)[:, np.newaxis]}


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_a_network_of_one_input_may_get_it_by_name():
    network = keras.Sequential([keras.Input((4,), name="left"), keras.layers.Dense(3)])
    score = conformal.APS(randomized=True)
    calibrated = conformal.calibrate(
        Deterministic(network), GIVEN, np.arange(60) % 3, score=score, num_samples=0
    )
    found = calibrated.predict_set(GIVEN, 0.5, verbose=0)
    expected = calibrated.predict_set(GIVEN["left"], 0.5, verbose=0)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_randomized_sets_are_those_of_a_server(as_dictionary, tmp_path):
    """A dictionary may be in another order, and have columns of no use."""
    inputs = {name: keras.Input((4,), name=name) for name in ("right", "left")}
    outputs = keras.layers.Dense(3)(keras.layers.Concatenate()(list(inputs.values())))
    network = keras.Model(inputs if as_dictionary else list(inputs.values()), outputs)
    score = conformal.APS(randomized=True)
    calibrated = conformal.calibrate(
        Deterministic(network), GIVEN, np.arange(60) % 3, score=score, num_samples=0
    )
    path = calibrated.export(tmp_path, "predict_set")
    ask = tf.saved_model.load(path).signatures["predict_set"]
    rows = {name: tf.constant(GIVEN[name]) for name in inputs}
    expected = ask(**rows, level=tf.constant(0.5))["set"].numpy()
    forms = [GIVEN, {name: GIVEN[name] for name in inputs}]
    if not as_dictionary:
        forms.append([GIVEN[name] for name in inputs])
    for x in forms:
        found = calibrated.predict_set(x, 0.5, verbose=0)
        np.testing.assert_array_equal(found, expected)
