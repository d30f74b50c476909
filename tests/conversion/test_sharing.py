"""A layer that several parts hold: what files and copies lose is said beforehand."""

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
    "make", [in_two_wrappers, in_a_wrapper_and_beside_it, in_two_models], ids=str
)
def test_what_no_file_holds_is_told_of_and_its_weights_are_kept(make, tmp_path):
    message = r"hold the layers \['dense'\].* a saved file does not load"
    with pytest.warns(UserWarning, match=message):
        model = bhn_tf.from_keras(make(), "mean_field")
    assert model.num_random == 4 + 3
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="generates 7 values, and the network has 11"):
        keras.saving.load_model(tmp_path / "model.keras")
    # As the message says.
    model.save_weights(tmp_path / "model.weights.h5")
    with pytest.warns(UserWarning, match=message):
        again = bhn_tf.from_keras(make(), "mean_field")
    again.load_weights(tmp_path / "model.weights.h5")
    answers = [m.predict(X, seed=1, verbose=0) for m in (model, again)]
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize(
    "make", [in_two_own_layers, in_an_own_layer_and_beside_it], ids=str
)
def test_what_the_copy_loses_is_told_of(make):
    with pytest.warns(UserWarning, match=r"hold \['dense'\]. In the copy"):
        model = bhn_tf.from_keras(make(), "mean_field")
    assert model.num_random == 4 + 4 + 3


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
