"""What draws share is computed only once, which changes no result."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf import baselines, layers
from bhn_tf.layers.generated import generated_values
from bhn_tf.models import shared_prefix
from tests.networks import bayesian

ROWS, FEATURES = 7, 6


@pytest.fixture(autouse=True)
def share_every_product(monkeypatch):
    monkeypatch.setattr(shared_prefix, "_FEWEST_INPUTS_OF_SHARED_PRODUCT", 1)


def inputs(*shape):
    return np.random.default_rng(0).normal(size=(ROWS, *shape)).astype("float32")


def perceptron():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Rescaling(0.5),
            layers.WeightNormDense(5, activation="relu"),
            layers.WeightNormDense(3),
        ]
    )


def convolutional():
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.WeightNormConv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            keras.layers.Flatten(),
            layers.WeightNormDense(3),
        ]
    )


def branched():
    x = keras.Input((FEATURES,))
    left = layers.WeightNormDense(4, activation="relu")(x)
    plain = keras.layers.Dense(4, activation="tanh")(x)
    right = layers.WeightNormDense(4, random="scale_and_bias")(plain)
    both = keras.layers.Concatenate()([left, plain * 2.0, right])
    return keras.Model(x, layers.WeightNormDense(3)(both))


def twice():
    x = keras.Input((FEATURES,))
    shared = layers.WeightNormDense(FEATURES)
    return keras.Model(x, layers.WeightNormDense(3)(shared(x) + shared(shared(x))))


def called_by_keyword():
    x = keras.Input((FEATURES,))
    hidden = layers.WeightNormDense(4, activation="relu")(inputs=x)
    return keras.Model(x, layers.WeightNormDense(3)(inputs=hidden))


def nested():
    x = keras.Input((FEATURES,))
    return keras.Model(x, layers.WeightNormDense(3)(perceptron()(x)))


def generated_kernels():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.WeightNormDense(4, random="kernel_and_bias", activation="relu"),
            layers.WeightNormDense(3, random="none"),
        ]
    )


def without_shared_prefix(model, x, scales):
    raws = []
    for draw in keras.ops.convert_to_tensor(scales):
        with generated_values(model.posterior.values_of(draw)):
            raws.append(model.primary(x, training=False))
    return np.stack(raws)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "make",
    [
        perceptron,
        convolutional,
        branched,
        twice,
        called_by_keyword,
        nested,
        generated_kernels,
    ],
)
def test_predictions_equal_those_of_whole_networks(make):
    primary = make()
    x = inputs(*primary.input_shape[1:])
    model = bayesian(primary, bhn_tf.hypernets.MeanField(0.3))
    samples = model.predict_samples(x, num_samples=5, seed=1, verbose=0)
    raws = without_shared_prefix(model, x, model.sample_scales(5, seed=1))
    expected = np.moveaxis(keras.ops.softmax(raws), 0, 1)
    np.testing.assert_allclose(samples, expected, rtol=1e-5, atol=1e-6)
    assert np.std(samples, axis=1).max() > 1e-3


def test_layers_before_the_first_draw_are_called_once():
    calls = []

    class Counted(keras.layers.Layer):
        def call(self, inputs):
            calls.append(1)
            return inputs

    primary = perceptron()
    first, *others = primary.layers
    primary = keras.Sequential([primary.inputs[0], first, Counted(), *others])
    model = bayesian(primary)
    model.compile(run_eagerly=True)
    calls.clear()
    model.predict(inputs(FEATURES), num_samples=4, verbose=0)
    assert len(calls) == 1


def test_dropout_shares_what_comes_before_it():
    network = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(20, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3),
        ]
    )
    model = baselines.MCDropout(
        network, likelihood=bhn_tf.likelihoods.Categorical(from_logits=True)
    )
    x = inputs(FEATURES)
    samples = model.predict_samples(x, num_samples=6, seed=2, verbose=0)
    for index, draw in enumerate(model.posterior.draw(6, 2).values):
        with generated_values(model.posterior.values_of(draw)):
            raw = model.network(x, training=False)
        np.testing.assert_allclose(
            samples[:, index], keras.ops.softmax(raw), rtol=1e-5, atol=1e-6
        )


def test_a_subclass_may_change_its_inputs():
    """The product of the unchanged inputs was shared, and answered instead."""

    class Squared(layers.WeightNormDense):
        def call(self, inputs):
            return super().call(inputs**2)

    primary = keras.Sequential([keras.Input((FEATURES,)), Squared(3)])
    x = inputs(FEATURES)
    model = bayesian(primary, bhn_tf.hypernets.MeanField(0.3))
    samples = model.predict_samples(x, num_samples=3, seed=1, verbose=0)
    raws = without_shared_prefix(model, x, model.sample_scales(3, seed=1))
    expected = np.moveaxis(keras.ops.softmax(raws), 0, 1)
    np.testing.assert_allclose(samples, expected, rtol=1e-5, atol=1e-6)
