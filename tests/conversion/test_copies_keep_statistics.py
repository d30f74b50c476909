"""Copies of a network keep adapted statistics, which are not weights."""

import keras
import numpy as np

import bhn_tf
from bhn_tf.layers import WeightNormDense

X = (np.random.default_rng(0).normal(size=(30, 3)) * 10 + 5).astype("float32")


def adapted():
    layer = keras.layers.Normalization()
    layer.adapt(X)
    return layer


def test_a_draw_keeps_them():
    network = keras.Sequential(
        [keras.layers.Input((3,)), adapted(), WeightNormDense(2)]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field")
    scales = model.sample_scales(1, seed=1)[0]
    np.testing.assert_allclose(
        model.draw(seed=1)(X), model(X, scales=scales), rtol=1e-5, atol=1e-6
    )


def test_monte_carlo_dropout_keeps_them():
    network = keras.Sequential(
        [
            keras.layers.Input((3,)),
            adapted(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model = bhn_tf.baselines.MCDropout(network)
    np.testing.assert_allclose(
        model.predict(X, num_samples=0, verbose=0),
        network.predict(X, verbose=0),
        rtol=1e-5,
        atol=1e-6,
    )
