import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import (
    MonteCarloDropout,
    MonteCarloSpatialDropout1D,
    MonteCarloSpatialDropout2D,
    MonteCarloSpatialDropout3D,
)
from bhn_tf.layers.generated import generated_values

# A layer, the shape of a row, and the axes (rows first) that share a mask.
LAYERS = {
    "plain": (lambda rate: MonteCarloDropout(rate), (60,), ()),
    "plain_3d": (lambda rate: MonteCarloDropout(rate), (6, 10), ()),
    "noise_shape": (
        lambda rate: MonteCarloDropout(rate, noise_shape=(None, 1, None)),
        (3, 60),
        (1,),
    ),
    "noise_shape_of_one_batch": (
        lambda rate: MonteCarloDropout(rate, noise_shape=(7, 1, 60)),
        (3, 60),
        (1,),
    ),
    "spatial_1d": (lambda rate: MonteCarloSpatialDropout1D(rate), (3, 60), (1,)),
    "spatial_2d": (lambda rate: MonteCarloSpatialDropout2D(rate), (3, 2, 60), (1, 2)),
    "spatial_2d_channels_first": (
        lambda rate: MonteCarloSpatialDropout2D(rate, "channels_first"),
        (60, 3, 2),
        (2, 3),
    ),
    "spatial_3d": (
        lambda rate: MonteCarloSpatialDropout3D(rate),
        (3, 2, 2, 60),
        (1, 2, 3),
    ),
    "spatial_3d_channels_first": (
        lambda rate: MonteCarloSpatialDropout3D(rate, "channels_first"),
        (60, 3, 2, 2),
        (2, 3, 4),
    ),
}
every_layer = pytest.mark.parametrize(
    ("make", "shape", "shared_axes"), LAYERS.values(), ids=LAYERS
)
RATE = 0.3


def drawn(layer, inputs, seed):
    with generated_values({id(layer): tf.constant(seed, tf.int32)}):
        return layer(inputs).numpy()


@every_layer
def test_a_seed_is_one_mask_for_all_rows_and_batch_sizes(make, shape, shared_axes):
    layer = make(RATE)
    inputs = np.ones((7, *shape), "float32")
    outputs = drawn(layer, inputs, [1, 2])
    np.testing.assert_array_equal(outputs, outputs[:1] * inputs)
    np.testing.assert_array_equal(drawn(layer, inputs[:2], [1, 2]), outputs[:2])
    np.testing.assert_array_equal(drawn(make(RATE), inputs, [1, 2]), outputs)
    assert not np.array_equal(drawn(layer, inputs, [1, 3]), outputs)


@every_layer
def test_mask_has_the_values_and_the_axes_of_keras(make, shape, shared_axes):
    layer = make(RATE)
    inputs = np.ones((7, *shape), "float32")
    for outputs in (drawn(layer, inputs, [1, 2]), layer(inputs, training=True).numpy()):
        values = np.unique(outputs)
        np.testing.assert_allclose(values, [0.0, 1 / (1 - RATE)], rtol=1e-6)
        for axis in shared_axes:
            first = np.take(outputs, [0], axis=axis)
            np.testing.assert_array_equal(
                outputs, np.broadcast_to(first, outputs.shape)
            )


@pytest.mark.few(2)
@every_layer
def test_mean_over_masks_is_the_input(make, shape, shared_axes):
    layer = make(RATE)
    inputs = np.ones((1, *shape), "float32")
    outputs = np.array([drawn(layer, inputs, [seed, 1]) for seed in range(100)])
    # Sixty independent masks a draw, with a standard deviation of 0.65 each.
    standard_error = np.sqrt(RATE / (1 - RATE) / 6000)
    assert abs(outputs.mean() - 1.0) < 4 * standard_error


@every_layer
def test_negative_seed_and_no_scope_leave_the_input_alone(make, shape, shared_axes):
    layer = make(RATE)
    inputs = np.random.default_rng(0).normal(size=(2, *shape)).astype("float32")
    np.testing.assert_array_equal(drawn(layer, inputs, [-1, -1]), inputs)
    np.testing.assert_array_equal(layer(inputs), inputs)
    np.testing.assert_array_equal(layer(inputs, training=False), inputs)


@every_layer
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_extreme_rates(make, shape, shared_axes, rate):
    layer = make(rate)
    inputs = np.ones((7, *shape), "float32")
    np.testing.assert_array_equal(drawn(layer, inputs, [1, 2]), (1 - rate) * inputs)
    np.testing.assert_array_equal(drawn(layer, inputs, [-1, -1]), inputs)


def test_other_layers_of_a_scope_are_not_drawn():
    layer, other = MonteCarloDropout(RATE), MonteCarloDropout(RATE)
    inputs = np.ones((2, 60), "float32")
    with generated_values({id(layer): tf.constant([1, 2])}):
        np.testing.assert_array_equal(other(inputs), inputs)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_seed_is_an_argument_of_a_traced_function(jit_compile):
    layer = MonteCarloDropout(RATE)

    @tf.function(jit_compile=jit_compile)
    def traced(inputs, seed):
        with generated_values({id(layer): seed}):
            return layer(inputs)

    inputs = tf.ones([2, 60])
    outputs = traced(inputs, tf.constant([1, 2]))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(traced(inputs, tf.constant([1, 2])), outputs)
    assert not np.array_equal(traced(inputs, tf.constant([5, 6])), outputs)
    np.testing.assert_array_equal(traced(inputs, tf.constant([-1, -1])), inputs)
    if not jit_compile:
        # XLA turns a seed into other numbers than TensorFlow does.
        np.testing.assert_array_equal(outputs, drawn(layer, inputs, [1, 2]))


@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16", "float64"])
def test_dtype_policies(policy):
    layer = MonteCarloDropout(RATE, dtype=policy)
    inputs = np.ones((2, 60), "float32")
    with generated_values({id(layer): tf.constant([1, 2])}):
        outputs = layer(inputs)
    assert outputs.dtype.name == layer.compute_dtype
    expected = drawn(MonteCarloDropout(RATE), inputs, [1, 2])
    np.testing.assert_allclose(tf.cast(outputs, "float32"), expected, rtol=1e-2)


@every_layer
def test_config_survives_json(make, shape, shared_axes):
    layer = make(RATE)
    config = json.loads(json.dumps(layer.get_config()))
    clone = type(layer).from_config(config)
    assert json.loads(json.dumps(clone.get_config())) == config
    inputs = np.ones((7, *shape), "float32")
    expected = drawn(layer, inputs, [1, 2])
    np.testing.assert_array_equal(drawn(clone, inputs, [1, 2]), expected)


def test_trains_as_dropout_does():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((60,)), MonteCarloDropout(RATE), keras.layers.Dense(1)]
    )
    inputs = np.ones((4, 60), "float32")
    first, second = model(inputs, training=True), model(inputs, training=True)
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(model(inputs), model(inputs))
