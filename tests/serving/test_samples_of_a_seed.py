"""A served model gives the same samples for a seed as Python does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, MCDropout
from bhn_tf.layers import WeightNormDense
from bhn_tf.serving.signatures import MOST_SAMPLES
from tests import networks


def network(dense=keras.layers.Dense):
    return keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            dense(6, activation="relu"),
            keras.layers.Dropout(0.3),
            dense(networks.NUM_CLASSES),
        ]
    )


MAKE = {
    "realnvp": lambda: networks.bayesian(network(WeightNormDense)),
    "mean field": lambda: networks.bayesian(
        network(WeightNormDense), bhn_tf.hypernets.MeanField()
    ),
    "dropout": lambda: MCDropout(network()),
}


@pytest.fixture(scope="module", params=MAKE)
def served(request, tmp_path_factory):
    model = MAKE[request.param]()
    # With XLA, as predictions are compiled unless told otherwise.
    model.compile("sgd", jit_compile=True)
    path = model.export(tmp_path_factory.mktemp("served"), signatures="sample")
    loaded = tf.saved_model.load(path)
    return model, loaded.signatures["sample"], loaded


def sample(function, x, num_samples, seed):
    arguments = function.structured_input_signature[1]
    (name,) = set(arguments) - {"num_samples", "seed"}
    scalars = {"num_samples": tf.constant(num_samples), "seed": tf.constant(seed)}
    return function(**{name: tf.constant(x)}, **scalars)["samples"].numpy()


@pytest.mark.slow
@pytest.mark.parametrize("num_samples", [1, 2, 5])
def test_the_same_seed_has_the_same_samples(served, num_samples):
    model, function, _ = served
    x, _ = networks.data(5)
    for seed in (0, 7, 2**31 - 1):
        found = sample(function, x, num_samples, seed)
        asked = {"num_samples": num_samples, "seed": seed, "verbose": 0}
        np.testing.assert_allclose(found, model.predict_samples(x, **asked), atol=1e-6)
    if num_samples > 1:
        assert np.abs(found[:, 0] - found[:, 1]).max() > 1e-4


@pytest.mark.few(2)
@pytest.mark.parametrize("num_samples", [0, -1, MOST_SAMPLES + 1, 2**31 - 1])
def test_numbers_of_samples_without_a_meaning_are_refused(served, num_samples):
    _, function, _ = served
    x, _ = networks.data(2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"1 to {MOST_SAMPLES}"):
        sample(function, x, num_samples, 7)


def test_an_ensemble_draws_one_member_by_its_seed():
    model = networks.compiled(DeepEnsemble([networks.plain() for _ in range(3)]))
    x, _ = networks.data(4)
    members = [member(x) for member in model.members]

    def drawn(outputs):
        return [np.array_equal(outputs, member) for member in members].index(True)

    seen = [drawn(model(x, seed=seed)) for seed in range(30)]
    assert seen == [drawn(model(x, seed=seed)) for seed in range(30)]
    assert set(seen) == {0, 1, 2}
    keras.utils.set_random_seed(1)
    assert {drawn(model(x)) for _ in range(30)} == {0, 1, 2}
