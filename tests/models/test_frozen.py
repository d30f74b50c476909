"""Frozen parts stay frozen when a file is loaded, however late they are made."""

import copy

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf import likelihoods
from bhn_tf.layers import WeightNormDense, WeightNormSeparableConv1D
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("hypernet", ["realnvp", "mean_field"])
def test_a_frozen_hypernet(hypernet, tmp_path):
    x, y = networks.data(20)
    model = bhn_tf.BayesianHypernet(networks.sequential(), hypernet)
    model.hypernet.trainable = False
    model.compile("adam")
    model.fit(x, y, verbose=0)
    loaded = saved_and_loaded(model, tmp_path / "model.keras")
    assert loaded.hypernet.weights
    assert not any(weight.trainable for weight in loaded.hypernet.weights)


@pytest.mark.slow
def test_a_frozen_part_of_a_hypernet(tmp_path):
    x, y = networks.data(20)
    model = bhn_tf.BayesianHypernet(networks.sequential(), "realnvp")
    model.hypernet.flow_steps[0].trainable = False
    model.hypernet.affine.log_stddev.trainable = False
    model.compile("adam")
    model.fit(x, y, verbose=0)
    loaded = saved_and_loaded(model, tmp_path / "model.keras")
    for again in (loaded, copy.deepcopy(model)):
        assert [w.trainable for w in again.hypernet.weights] == [
            w.trainable for w in model.hypernet.weights
        ]
    thawed = loaded.hypernet.flow_steps[0]
    thawed.trainable = True
    assert all(weight.trainable for weight in thawed.weights)


REALS, COUNTS = X[:, 0, :1], np.arange(20) % 4


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (likelihoods.Gaussian(trainable=True), REALS),
        (likelihoods.StudentT(trainable=True), REALS),
        (likelihoods.Mixture(trainable=True), REALS),
        (likelihoods.NegativeBinomial(trainable=True), COUNTS),
        (likelihoods.Ordinal(trainable=True), COUNTS),
        (likelihoods.Standardized(likelihoods.Laplace(trainable=True)), REALS),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_frozen_likelihood(likelihood, y, tmp_path):
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model = bhn_tf.baselines.Deterministic(network, likelihood)
    before = len(model.trainable_variables)
    model.likelihood.trainable = False
    model.compile(keras.optimizers.Adam(0.1))
    model.fit(X[:, 0], y, verbose=0)
    loaded = saved_and_loaded(model, tmp_path / "model.keras")
    assert not loaded.likelihood.trainable
    loaded.likelihood.trainable = True
    assert len(loaded.trainable_variables) == before > 2


@pytest.mark.parametrize("frozen", ["all", "one"])
def test_frozen_likelihoods_of_several_outputs(frozen, tmp_path):
    inputs = keras.Input((4,))
    outputs = [keras.layers.Dense(1, name=name)(inputs) for name in ("a", "b")]
    parts = [likelihoods.Gaussian(trainable=True) for _ in outputs]
    model = bhn_tf.baselines.Deterministic(keras.Model(inputs, outputs), parts)
    layer = model.likelihood if frozen == "all" else model.likelihood.parts[1]
    layer.trainable = False
    model.compile("adam")
    loaded = saved_and_loaded(model, tmp_path / "model.keras")
    assert loaded.likelihood.trainable == (frozen == "one")
    for found, part in zip(loaded.likelihood.parts, parts, strict=True):
        assert found.trainable == part.trainable


@pytest.mark.parametrize("built", ["before", "after"])
def test_a_frozen_prior(built, tmp_path):
    network = keras.Sequential([WeightNormDense(1)])
    if built == "before":
        network.build((None, 4))
    model = bhn_tf.BayesianHypernet(network, "mean_field", prior_stddev="learned")
    model.learned_prior_stddev.trainable = False
    model.compile("adam")
    model.build((None, 4))
    loaded = saved_and_loaded(model, tmp_path / "model.keras")
    assert not loaded.learned_prior_stddev.trainable
    loaded.learned_prior_stddev.trainable = True
    assert loaded.learned_prior_stddev.log_stddev.trainable


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
