"""Loading weights that a hypernet generates has no effect, and warns."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from tests import networks

X, Y = networks.data(8)
QUIET = {"verbose": 0}


def model_of(seed):
    keras.utils.set_random_seed(seed)
    network = keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Dense(5, activation="relu"),
            keras.layers.Dense(networks.NUM_CLASSES),
        ]
    )
    # Its scales are the norms of its kernels, and differ from seed to seed.
    model = bhn_tf.from_keras(network, "mean_field", num_examples=len(X))
    return networks.compiled(model)


CALLS = {
    "fit": lambda model: model.fit(X, Y, **QUIET),
    "predict": lambda model: model.predict(X, **QUIET),
    "evaluate": lambda model: model.evaluate(X, Y, **QUIET),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("call", CALLS)
def test_weights_that_are_loaded_into_the_network_after_it_was_wrapped(call, tmp_path):
    other, model = model_of(1), model_of(0)
    other.primary.save_weights(tmp_path / "network.weights.h5")
    if call == "predict":
        # Changes by training are not changes by loading.
        model.fit(X, Y, **QUIET)
    model.primary.load_weights(tmp_path / "network.weights.h5")
    with pytest.warns(UserWarning, match=r"dense.*/scale'.*have no effect"):
        CALLS[call](model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        CALLS[call](model)


def restored(model, path):
    tf.train.Checkpoint(model=model).save(path / "checkpoint")
    again = model_of(1)
    checkpoint = tf.train.Checkpoint(model=again)
    checkpoint.restore(tf.train.latest_checkpoint(path)).expect_partial()
    return again


def with_weights_of_file(model, path):
    model.save_weights(path / "model.weights.h5")
    again = model_of(1)
    again.load_weights(path / "model.weights.h5")
    return again


def with_weights_set(model, _):
    again = model_of(1)
    again.set_weights(model.get_weights())
    return again


def loaded(model, path):
    model.save(path / "model.keras")
    return keras.saving.load_model(path / "model.keras")


@pytest.mark.few(1)
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("is_trained", [False, True], ids=["new", "trained"])
@pytest.mark.parametrize(
    "move", [restored, with_weights_of_file, with_weights_set, loaded]
)
def test_a_whole_model_is_loaded_without_a_word(move, is_trained, tmp_path):
    model = model_of(0)
    if is_trained:
        model.fit(X, Y, **QUIET)
    again = move(model, tmp_path)
    draws = {"num_samples": 2, "seed": 1, **QUIET}
    np.testing.assert_allclose(
        again.predict(X, **draws), model.predict(X, **draws), rtol=1e-5
    )
