"""Checks not needed for every layer: arguments, saving, unsupported features."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import layers
from bhn_tf.layers import WeightNormConv2D, WeightNormDense
from bhn_tf.layers.generated import generated_values
from bhn_tf.layers.weight_norm import WeightNorm


def test_unknown_random_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="'kernel_and_bias'.*got 'weights'"):
        WeightNormDense(3, random="weights")


@pytest.mark.parametrize(
    "argument", [{"lora_rank": 2}, {"quantization_config": "int8"}]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda **kwargs: WeightNormDense(3, **kwargs),
        lambda **kwargs: WeightNormConv2D(3, 2, **kwargs),
    ],
)
def test_what_would_replace_the_kernel_is_refused(make, argument):
    with pytest.raises(ValueError, match="the kernel of a weight-normalised layer"):
        make(**argument)


@pytest.mark.parametrize("policy", ["int8_from_float32", "float8_from_mixed_float16"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **kwargs: WeightNormDense(3, **kwargs),
        lambda **kwargs: WeightNormConv2D(3, 2, **kwargs),
        lambda **kwargs: layers.WeightNormEmbedding(3, 2, **kwargs),
        lambda **kwargs: layers.WeightNormEinsumDense("ab,bc->ac", 2, **kwargs),
    ],
)
def test_quantised_policies_are_refused(make, policy):
    with pytest.raises(ValueError, match=f"cannot have.*{policy}.*`model.draw"):
        make(dtype=policy)


def test_a_quantised_policy_of_a_map_is_refused_once_the_layer_has_its_place():
    policies = keras.dtype_policies.DTypePolicyMap()
    policies["quantised"] = keras.dtype_policies.get("int8_from_float32")
    layer = WeightNormDense(3, name="quantised", dtype=policies)
    with pytest.raises(ValueError, match="cannot have the quantised dtype policy"):
        layer.build((None, 4))
    WeightNormDense(3, name="dense", dtype=policies).build((None, 4))


def test_methods_that_would_replace_the_kernel_are_refused():
    layer = WeightNormDense(3)
    layer.build((None, 4))
    with pytest.raises(ValueError, match="LoRA"):
        layer.enable_lora(2)
    with pytest.raises(ValueError, match="quantisation"):
        layer.quantize("int8")


@pytest.mark.filterwarnings("ignore:.*have a `quantize` method")
def test_a_network_is_quantised_around_weight_normalised_layers():
    """As with all layers that cannot be: Keras warns, and goes on to the next."""
    attention = layers.WeightNormMultiHeadAttention(1, 4)
    inputs = keras.Input((3, 4))
    hidden = keras.layers.Dense(4)(WeightNormDense(4, name="stays")(inputs))
    network = keras.Model(inputs, keras.layers.Dense(2)(attention(hidden, hidden)))
    with pytest.warns(UserWarning, match="stays as it is.*`bhn_tf.from_keras") as found:
        network.quantize("int8")
    assert sum(str(each.message).startswith("'stays'") for each in found) == 1
    modes = [getattr(layer, "quantization_mode", None) for layer in network.layers]
    assert [mode for mode in modes if mode] == ["int8", "int8"]
    assert network(np.ones([2, 3, 4])).shape == (2, 3, 2)


@pytest.mark.parametrize("random", WeightNorm.GENERATED)
def test_unbuilt_layer_says_what_to_do(random):
    layer = WeightNormDense(3, random=random)
    for use in (lambda: layer.num_random, layer.hand_over):
        with pytest.raises(ValueError, match="no weights yet; build it or call it"):
            use()


def test_integers_are_refused_in_a_model_too():
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    model = keras.Model(inputs, WeightNormConv2D(3, 2)(inputs))
    with pytest.raises(TypeError, match="cast them first"):
        model(np.ones((2, 8, 8, 1), "uint8"))


def test_scale_initializer_sets_the_norm():
    layer = WeightNormDense(3, scale_initializer="ones", use_bias=False)
    outputs = layer(np.eye(4, dtype="float32"))
    np.testing.assert_allclose(np.linalg.norm(outputs, axis=0), 1.0, rtol=1e-6)


def test_layers_draw_apart():
    first, second = WeightNormDense(3), WeightNormDense(3)
    for layer in (first, second):
        layer.build((None, 4))
    assert not np.allclose(first.kernel, second.kernel)


def test_length_of_a_direction_has_no_effect():
    layer = WeightNormDense(3)
    inputs = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    before = layer(inputs)
    layer.kernel.assign(layer.kernel * tf.constant([1e-6, 7.0, 1e6]))
    np.testing.assert_allclose(layer(inputs), before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [1e-6, 1e6])
def test_length_of_a_direction_has_no_effect_under_mixed_precision(length):
    layer = WeightNormDense(3, dtype="mixed_float16")
    inputs = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    with tf.GradientTape() as tape:
        before = layer(inputs)
        loss = tf.reduce_sum(before**2)
    gradient = tape.gradient(loss, layer.kernel.value)
    layer.kernel.assign(layer.kernel * length)
    with tf.GradientTape() as tape:
        after = layer(inputs)
        loss = tf.reduce_sum(after**2)
    np.testing.assert_allclose(after, before, rtol=1e-2, atol=1e-2)
    # The gradient is inversely proportional to the length, in full precision.
    scaled = length * tape.gradient(loss, layer.kernel.value)
    np.testing.assert_allclose(scaled, gradient, rtol=2e-2, atol=2e-2)


def test_gradient_is_orthogonal_to_the_direction():
    layer = WeightNormDense(3)
    inputs = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(inputs) ** 2)
    gradient = tape.gradient(loss, layer.kernel.value)
    products = np.sum(gradient * layer.kernel, axis=0)
    assert np.abs(gradient).max() > 0.1
    np.testing.assert_allclose(products, 0.0, atol=1e-4)


def test_masks_are_passed_on():
    sequence = keras.Sequential(
        [
            keras.Input((None, 4)),
            keras.layers.Masking(),
            WeightNormDense(3),
            keras.layers.GlobalAveragePooling1D(),
        ]
    )
    short = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    padded = np.concatenate([short, np.zeros((2, 2, 4), "float32")], axis=1)
    np.testing.assert_allclose(sequence(padded), sequence(short), rtol=1e-5)


@pytest.mark.parametrize(
    ["name", "arguments", "shape", "kernel_axis"],
    [
        ("Dense", (3,), (5, 4), 0),
        ("Dense", (3,), (5, 2, 4), 0),
        ("Conv2D", (3, 2), (5, 4, 4, 2), 2),
        ("Conv1DTranspose", (3, 2, 2), (5, 4, 2), 2),
        ("DepthwiseConv2D", (2,), (5, 4, 4, 2), 2),
        ("EinsumDense", ("abc,cd->abd", (None, 3)), (5, 2, 4), 0),
    ],
)
def test_scales_of_inputs_multiply_their_part_of_the_kernel(
    name, arguments, shape, kernel_axis
):
    """`w_ij = g_j s_i v_ij / ‖v_j‖`, of a fresh layer, whose g_j is ‖v_j‖."""
    layer = getattr(layers, f"WeightNorm{name}")(*arguments, random="rank_one")
    twin = getattr(keras.layers, name)(*arguments)
    inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
    layer(inputs), twin(inputs)
    scales = np.random.default_rng(1).normal(size=shape[-1]).astype("float32")
    along = [1] * len(layer.direction.shape)
    along[kernel_axis] = len(scales)
    twin.kernel.assign(layer.direction.numpy() * scales.reshape(along))
    assert layer.num_random == layer.scale.numpy().size + len(scales)
    with generated_values({id(layer.input_scale): tf.constant(scales)}):
        np.testing.assert_allclose(layer(inputs), twin(inputs), rtol=1e-4, atol=1e-5)
