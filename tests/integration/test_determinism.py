"""One seed, one result: bit for bit, in processes of their own."""

import numpy as np
import pytest

SCRIPT = """
import sys
import keras
import numpy as np
import tensorflow as tf
import bhn_tf
from tests import networks

keras.utils.set_random_seed(int(sys.argv[2]))
tf.config.experimental.enable_op_determinism()
x, y = networks.data(40)

def network():
    return keras.Sequential(
        [
            keras.Input((4,)),
            bhn_tf.layers.WeightNormDense(5, activation="relu"),
            keras.layers.Dropout(0.3),
            bhn_tf.layers.WeightNormDense(3),
        ]
    )

results = {}
models = {
    "realnvp": networks.bayesian(network()),
    "dropout": bhn_tf.baselines.MCDropout(network()),
}
for name, model in models.items():
    # "auto", the default: Keras leaves XLA out where it could not be deterministic.
    model.compile("adam", metrics=["accuracy"])
    history = model.fit(
        x, y, batch_size=16, epochs=2, validation_split=0.2, verbose=0
    ).history
    results[name + " weights"] = np.concatenate(
        [np.ravel(value) for value in networks.weights_of(model)]
    )
    results[name + " predictions"] = model.predict(x, num_samples=3, verbose=0)
    results[name + " logs"] = np.ravel(list(history.values()))
np.savez(sys.argv[1], **results)
"""


@pytest.fixture(scope="module")
def runs(run_python, tmp_path_factory):
    """Results of three processes: the same seed twice, and another."""
    directory = tmp_path_factory.mktemp("runs")
    seeds = {"first": 1, "again": 1, "other": 2}
    started = [
        run_python("-c", SCRIPT, directory / f"{name}.npz", seed)
        for name, seed in seeds.items()
    ]
    for wait in started:
        wait()
    return {name: dict(np.load(directory / f"{name}.npz")) for name in seeds}


@pytest.mark.parametrize("what", ["weights", "predictions", "logs"])
@pytest.mark.parametrize("name", ["realnvp", "dropout"])
def test_a_seed_decides_everything(runs, name, what):
    key = f"{name} {what}"
    np.testing.assert_array_equal(runs["again"][key], runs["first"][key])
    assert not np.array_equal(runs["other"][key], runs["first"][key])
