"""Images of 0 ... 255 are refused if nothing in the network scales them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf

X = np.random.default_rng(0).integers(0, 256, size=(20, 4, 4, 1)).astype("uint8")
Y = np.arange(20) % 2


def make_model(*first):
    network = keras.Sequential(
        [
            keras.layers.Input((4, 4, 1)),
            *first,
            keras.layers.Flatten(),
            bhn_tf.layers.WeightNormDense(2),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field", num_examples=20)
    model.compile("adam")
    return model


def test_every_call_refuses_them():
    model = make_model()
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
    for call in (
        lambda: model.fit(X, Y, verbose=0),
        lambda: model.fit(dataset, verbose=0),
        lambda: model.evaluate(X, Y, verbose=0),
        lambda: model.predict(X, verbose=0),
        lambda: model.predict_uncertainty(X, verbose=0),
    ):
        with pytest.raises(ValueError, match="uint8"):
            call()


@keras.saving.register_keras_serializable("tests")
class Scaling(keras.layers.Layer):
    """A layer of one's own, of which only its author knows what it does."""

    def call(self, inputs):
        return keras.ops.cast(inputs, self.compute_dtype) / 255


class ScalesItself(keras.Model):
    """A model that scales its inputs in its own `call`."""

    def __init__(self):
        super().__init__()
        self.flat, self.dense = keras.layers.Flatten(), bhn_tf.layers.WeightNormDense(2)

    def call(self, inputs):
        return self.dense(self.flat(tf.cast(inputs, tf.float32) / 255))


def assert_answers_of_floats(model):
    np.testing.assert_allclose(
        model.predict(X, verbose=0, seed=1),
        model.predict(X.astype("float32"), verbose=0, seed=1),
        rtol=1e-6,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        (Scaling(),),
        (keras.layers.Lambda(lambda x: tf.cast(x, tf.float32) / 255),),
        (keras.layers.RandomFlip(), Scaling()),
        (keras.Sequential([keras.Input((4, 4, 1)), Scaling()]),),
        (keras.layers.BatchNormalization(),),
        (bhn_tf.layers.LayerNormalization(),),
        None,
    ],
    ids=[
        "layer",
        "Lambda",
        "behind a flip",
        "nested",
        "batch norm",
        "layer norm",
        "subclassed",
    ],
)
def test_what_comes_first_may_scale_them(first):
    if first is None:
        likelihood = bhn_tf.likelihoods.Categorical(from_logits=True)
        model = bhn_tf.BayesianHypernet(ScalesItself(), "mean_field", likelihood)
        model.compile("adam", run_eagerly=True)
    else:
        model = make_model(*first)
    model.fit(X, Y, verbose=0)
    assert_answers_of_floats(model)


@pytest.mark.parametrize(
    "first",
    [
        (keras.layers.RandomFlip(),),
        (keras.layers.Conv2D(2, 2), Scaling()),
        (keras.layers.Conv2D(2, 2), keras.layers.BatchNormalization()),
    ],
)
def test_what_comes_too_late_does_not_scale_them(first):
    with pytest.raises(ValueError, match="nothing in the network scales"):
        make_model(*first).fit(X, Y, verbose=0)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_operations_may_scale_them(dtype):
    inputs = keras.Input((4, 4, 1), dtype=dtype)
    scaled = keras.ops.cast(inputs, "float32") / 255
    outputs = bhn_tf.layers.WeightNormDense(2)(keras.layers.Flatten()(scaled))
    outer = keras.Input((4, 4, 1), dtype=dtype)
    network = keras.Model(outer, keras.Model(inputs, outputs)(outer))
    model = bhn_tf.BayesianHypernet(network, "mean_field")
    assert_answers_of_floats(model)


def test_a_network_that_scales_them_gives_the_answers_of_floats():
    model = make_model(keras.layers.Rescaling(1 / 255))
    model.fit(X, Y, verbose=0)
    assert_answers_of_floats(model)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.IntegerLookup(vocabulary=[*range(200)], output_mode="multi_hot"),
        keras.layers.Hashing(9, output_mode="multi_hot"),
        keras.layers.Discretization([50.0, 99.0], output_mode="multi_hot"),
    ],
)
def test_bytes_are_numbers_of_things_too(layer):
    is_lookup = isinstance(layer, keras.layers.IntegerLookup)
    x = X.reshape([20, 16])
    inputs = keras.Input((16,), dtype="int64" if is_lookup else "int32")
    network = keras.Model(inputs, keras.layers.Dense(2)(layer(inputs)))
    model = bhn_tf.from_keras(network, "mean_field")
    model.compile("adam")
    model.fit(x, Y, verbose=0)
    expected = model.predict(x.astype("int64"), verbose=0, seed=1)
    np.testing.assert_array_equal(model.predict(x, verbose=0, seed=1), expected)
