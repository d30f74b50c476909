"""A layer that several parts of a network hold stays one, or a warning says so."""

import keras
import numpy as np
import pytest
from keras import layers

import bhn_tf
from tests.conversion import keras_networks

X = np.random.default_rng(0).normal(size=(4, 3, 4)).astype("float32")


def with_head(network):
    """The network with a last layer."""
    x = layers.Flatten()(network.output)
    logits = layers.Dense(keras_networks.NUM_CLASSES, name="logits")(x)
    return keras_networks.randomized(keras.Model(network.input, logits))


def in_two_wrappers():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    once = layers.TimeDistributed(dense)(inputs)
    return with_head(keras.Model(inputs, layers.TimeDistributed(dense)(once)))


def in_a_wrapper_and_beside_it():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    return with_head(keras.Model(inputs, dense(layers.TimeDistributed(dense)(inputs))))


def in_two_models():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    first = keras.Sequential([keras.Input((3, 4)), dense])
    second = keras.Sequential([keras.Input((3, 4)), layers.ReLU(), dense])
    return with_head(keras.Model(inputs, second(first(inputs))))


@keras.saving.register_keras_serializable("tests")
class Holds(layers.Layer):
    """Is given a layer that it calls."""

    def __init__(self, held, **kwargs):
        super().__init__(**kwargs)
        self.held = held

    def build(self, input_shape):
        if not self.held.built:
            self.held.build(input_shape)

    def call(self, inputs):
        return keras.ops.tanh(self.held(inputs))

    def get_config(self):
        held = keras.saving.serialize_keras_object(self.held)
        return {**super().get_config(), "held": held}

    @classmethod
    def from_config(cls, config):
        held = keras.saving.deserialize_keras_object(config["held"])
        return cls(**{**config, "held": held})


def in_two_own_layers():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    return with_head(keras.Model(inputs, Holds(dense)(Holds(dense)(inputs))))


def in_an_own_layer_and_beside_it():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    return with_head(keras.Model(inputs, Holds(dense)(dense(inputs))))


@pytest.mark.parametrize(
    "make", [in_two_wrappers, in_a_wrapper_and_beside_it, in_two_models]
)
def test_one_layer_stays_one_in_copies_and_files(make, tmp_path):
    network = make()
    model = bhn_tf.from_keras(network, "mean_field")  # Warnings are errors here.
    assert model.num_random == 4 + 3
    raw = model(X, scales=model.hypernet.center())
    np.testing.assert_allclose(raw, network(X), rtol=1e-5, atol=1e-6)
    model.compile("adam", jit_compile=False)
    model.fit(X, np.arange(4) % 3, verbose=0)
    loaded = keras_networks.assert_saved_and_served_answer_the_same(
        model, X, tmp_path, 1e-5
    )
    assert loaded.num_random == 4 + 3
    assert loaded.conversion_report == model.conversion_report
    assert [v.path for v in loaded.variables] == [v.path for v in model.variables]
    for each in (model, loaded):
        each.train_on_batch(X, np.arange(4) % 3)
    answers = [m.predict(X, num_samples=0, verbose=0) for m in (model, loaded)]
    np.testing.assert_allclose(*answers, rtol=1e-5)


def test_one_layer_stays_one_in_files_of_baselines(tmp_path):
    network = in_two_models()
    for model in (
        bhn_tf.baselines.Deterministic(network),
        bhn_tf.baselines.DeepEnsemble([network, in_two_wrappers()]),
    ):
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        answers = [m.predict(X, verbose=0) for m in (model, loaded)]
        np.testing.assert_allclose(*answers, rtol=1e-5)


@pytest.mark.parametrize("make", [in_two_own_layers, in_an_own_layer_and_beside_it])
def test_what_own_layers_share_is_told_of(make, tmp_path):
    network = make()
    with pytest.warns(UserWarning, match=r"hold \['dense'\]. In the copy"):
        model = bhn_tf.from_keras(network, "mean_field")
    assert model.num_random == 4 + 4 + 3
    with pytest.warns(UserWarning, match=r"hold \['dense'\].* does not load"):
        model = bhn_tf.baselines.Deterministic(network)
    model.save_weights(tmp_path / "model.weights.h5")
    expected = model.predict(X, verbose=0)
    for weight in network.weights:
        weight.assign(keras.ops.zeros_like(weight))
    model.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(model.predict(X, verbose=0), expected)


def test_a_model_that_is_called_twice_is_not_told_of(tmp_path):
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    each = layers.TimeDistributed(dense)
    inner = keras.Sequential([keras.Input((3, 4)), each, layers.Dense(4)])
    network = with_head(keras.Model(inputs, inner(inner(inputs))))
    model = bhn_tf.from_keras(network, "mean_field")  # Warnings are errors here.
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    answers = [m.predict(X, seed=1, verbose=0) for m in (model, loaded)]
    np.testing.assert_allclose(*answers, rtol=1e-5)
