"""Complex numbers are refused where only their real part would count."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf

X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
DATA = {"x": X, "y": X[:, :1], "sample_weight": np.ones(20)}


def make_model(*first, dtype="float32"):
    network = keras.Sequential(
        [
            keras.layers.Input((3,), dtype=dtype),
            *first,
            bhn_tf.layers.WeightNormDense(1),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field", "gaussian", num_examples=20)
    model.compile("adam", run_eagerly=True)
    return model


@pytest.mark.parametrize("name", DATA)
def test_they_are_refused(name):
    model = make_model()
    data = {**DATA, name: DATA[name].astype("complex64")}
    dataset = tf.data.Dataset.from_tensor_slices(tuple(data.values())).batch(5)
    for call in (
        lambda: model.fit(**data, verbose=0),
        lambda: model.fit(dataset, verbose=0),
        lambda: model.evaluate(**data, verbose=0),
        lambda: model.train_on_batch(**data),
    ):
        with pytest.raises(ValueError, match=f"`{name}` holds complex numbers"):
            call()


def test_they_are_refused_in_predictions():
    with pytest.raises(ValueError, match="`x` holds complex numbers"):
        make_model().predict(X.astype("complex64"), verbose=0)


def test_a_network_may_take_them():
    model = make_model(
        keras.layers.Lambda(tf.abs, output_shape=(3,)), dtype="complex64"
    )
    spectrum = X.astype("complex64")
    model.fit(spectrum, DATA["y"], verbose=0)
    assert model.predict(spectrum, verbose=0).shape == (20, 1)
