"""Frozen parts stay frozen when a file is loaded, however late they are made."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.layers import WeightNormSeparableConv1D
from tests import networks

X = np.random.default_rng(0).normal(size=(20, 6, 4)).astype("float32")
Y = np.arange(20) % 3


def sequence_network():
    inputs = keras.Input((6, 4))
    hidden = keras.layers.SeparableConv1D(3, 2, padding="same", name="made_late")(
        inputs
    )
    hidden = keras.layers.MultiHeadAttention(2, 3, name="of_parts")(hidden, hidden)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(inputs, keras.layers.Dense(3, name="head")(hidden))


def saved_and_loaded(model, path):
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert len(loaded.trainable_variables) == len(model.trainable_variables)
    assert len(loaded.optimizer.variables) == len(model.optimizer.variables)
    return loaded


@pytest.mark.parametrize("name", ["made_late", "of_parts"])
def test_a_frozen_layer_of_parts(name, tmp_path):
    model = bhn_tf.from_keras(sequence_network(), "mean_field", freeze=[name])
    model.compile(keras.optimizers.Adam(0.1))
    model.fit(X, Y, verbose=0)
    loaded = saved_and_loaded(model, tmp_path / "model.keras")
    before = [w.numpy() for w in loaded.primary.get_layer(name).weights]
    assert before and not loaded.primary.get_layer(name).trainable_weights
    loaded.fit(X, Y, verbose=0)
    after = [w.numpy() for w in loaded.primary.get_layer(name).weights]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("hypernet", ["realnvp", "mean_field"])
def test_a_frozen_hypernet(hypernet, tmp_path):
    x, y = networks.data(20)
    model = bhn_tf.BayesianHypernet(networks.plain(), hypernet)
    model.hypernet.trainable = False
    model.compile("adam")
    model.fit(x, y, verbose=0)
    loaded = saved_and_loaded(model, tmp_path / "model.keras")
    assert not loaded.hypernet.trainable_variables


def test_a_layer_that_is_made_frozen():
    layer = WeightNormSeparableConv1D(3, 2, trainable=False)
    layer.build((None, 6, 4))
    assert layer.weights and not layer.trainable_weights
    layer.trainable = True
    assert len(layer.trainable_weights) == len(layer.weights)


def test_what_was_thawed_inside_of_what_is_frozen_goes_on_training():
    base = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    base.trainable = False
    base.layers[-1].trainable = True
    network = keras.Sequential([keras.Input((4,)), base, keras.layers.Dense(3)])
    before = len(network.trainable_weights)
    model = bhn_tf.baselines.Deterministic(network)
    assert len(model.trainable_variables) == before == 4
