import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import BatchNormalization
from bhn_tf.layers.generated import generated_values
from tests.layers.layer_check import built, check_config, check_random, inputs_of

OPTIONS = {
    "plain": {},
    "without_center": {"center": False},
    "numbers": {"momentum": 0.5, "epsilon": 0.1},
    "initializers": {
        "gamma_initializer": keras.initializers.RandomNormal(1.0, seed=1),
        "beta_initializer": keras.initializers.RandomNormal(seed=2),
        "moving_mean_initializer": keras.initializers.RandomNormal(seed=3),
    },
    "regularizers": {"gamma_regularizer": "l2", "beta_regularizer": "l1"},
    "constraints": {"gamma_constraint": "non_neg", "beta_constraint": "max_norm"},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
# These checks need "scale_and_bias", which does not exist without a β.
WITH_SHIFT = {name: o for name, o in OPTIONS.items() if o.get("center", True)}
every_option_with_a_shift = pytest.mark.parametrize(
    "options", WITH_SHIFT.values(), ids=WITH_SHIFT
)


def pair(options, inputs):
    """The layer and its Keras twin with equal weights, all of them random."""
    layer = built(BatchNormalization, options, inputs)
    twin = built(keras.layers.BatchNormalization, options, inputs)
    rng = np.random.default_rng(1)
    for weight, other in zip(layer.weights, twin.weights, strict=True):
        assert weight.name == other.name and weight.trainable == other.trainable
        values = rng.uniform(0.5, 2.0, size=weight.shape)
        weight.assign(values)
        other.assign(values)
    return layer, twin


@every_option
@pytest.mark.parametrize("shape", [(8, 3), (4, 5, 3), (2, 4, 5, 3)])
def test_fresh_layer_equals_keras(shape, options):
    inputs = inputs_of(shape)
    layer = built(BatchNormalization, options, inputs)
    twin = built(keras.layers.BatchNormalization, options, inputs)
    for training in (False, True, False):
        expected = twin(inputs, training=training)
        result = layer(inputs, training=training)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(layer.losses, twin.losses, rtol=1e-6)
    for name in ("moving_mean", "moving_variance"):
        statistics = getattr(layer, name)
        np.testing.assert_allclose(statistics, getattr(twin, name), rtol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((4, 3, 6, 5), 1), ((4, 3, 6), -2)])
def test_other_axes(shape, axis):
    inputs = inputs_of(shape)
    layer, twin = pair({"axis": axis}, inputs)
    for training in (False, True):
        expected = twin(inputs, training=training)
        result = layer(inputs, training=training)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    "renorm" not in inspect.signature(keras.layers.BatchNormalization).parameters,
    reason="this version of Keras has no renormalisation",
)
def test_renormalization():
    inputs = inputs_of((8, 3))
    layer, twin = pair({"renorm": True}, inputs)
    for _ in range(3):
        expected = twin(inputs, training=True)
        result = layer(inputs, training=True)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_masks_leave_rows_out_of_the_moments():
    inputs = inputs_of((4, 5, 3))
    mask = np.random.default_rng(2).random((4, 5)) < 0.5
    layer, twin = pair({}, inputs)
    expected = twin(inputs, training=True, mask=tf.constant(mask))
    result = layer(inputs, training=True, mask=tf.constant(mask))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.few(5)
@every_option_with_a_shift
@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 5, 3)])
def test_generated_scales(shape, options):
    check_random(BatchNormalization, options, shape)


@pytest.mark.parametrize("training", [False, True])
def test_generated_values_multiply_what_is_normalised(training):
    inputs = inputs_of((6, 3))
    layer = built(BatchNormalization, {"random": "scale_and_bias"}, inputs)
    plain = built(
        keras.layers.BatchNormalization, {"scale": False, "center": False}, inputs
    )
    rng = np.random.default_rng(4)
    gamma, beta = (rng.normal(size=(6, 3)).astype("float32") for _ in range(2))
    with generated_values(
        {id(layer.gamma): tf.constant(gamma), id(layer.beta): tf.constant(beta)}
    ):
        result = layer(inputs, training=training)
    expected = gamma * plain(inputs, training=training) + beta
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@every_option_with_a_shift
def test_config_survives_json(options):
    check_config(BatchNormalization, options, (4, 3))


def test_config_keeps_what_is_left_out():
    for scale, center in ((True, False), (False, True), (False, False)):
        layer = BatchNormalization(random="none", scale=scale, center=center)
        clone = BatchNormalization.from_config(layer.get_config())
        clone.build((None, 3))
        expected = (["gamma"] if scale else []) + (["beta"] if center else [])
        assert [weight.name for weight in clone.trainable_weights] == expected


@pytest.mark.parametrize("policy", ["float64", "float16", "mixed_float16"])
def test_dtype_policies(policy):
    inputs = inputs_of((8, 3))
    layer, twin = pair({"dtype": policy}, inputs)
    for training in (False, True):
        result = tf.function(layer)(inputs, training=training)
        assert result.dtype.name == layer.compute_dtype
        expected = tf.cast(twin(inputs, training=training), "float32")
        np.testing.assert_allclose(
            tf.cast(result, "float32"), expected, rtol=1e-2, atol=1e-2
        )


@pytest.mark.parametrize(
    "arguments",
    [
        {"scale": False},
        {"random": "scale_and_bias", "center": False},
    ],
)
def test_generating_what_is_left_out_is_refused(arguments):
    with pytest.raises(ValueError, match="generates what .* leave out"):
        BatchNormalization(**arguments)


def test_a_kernel_cannot_be_asked_for():
    with pytest.raises(ValueError, match="'scale_and_bias'.*got 'kernel'"):
        BatchNormalization(random="kernel")
