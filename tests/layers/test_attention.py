"""Attention equals that of its Keras twin, with projections that can be drawn."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import WeightNormGroupQueryAttention, WeightNormMultiHeadAttention
from bhn_tf.layers.generated import generated_values
from bhn_tf.networks.copying import pairs
from tests.layers.layer_check import (
    check_config,
    check_dtype_policies,
    check_random,
    inputs_of,
)

HEADS = {"num_heads": 2, "key_dim": 3}
GROUPS = {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2}
LAYERS = {
    "heads": (WeightNormMultiHeadAttention, HEADS),
    "values": (WeightNormMultiHeadAttention, {**HEADS, "value_dim": 4}),
    "outputs": (WeightNormMultiHeadAttention, {**HEADS, "output_shape": (2, 3)}),
    "no_bias": (WeightNormMultiHeadAttention, {**HEADS, "use_bias": False}),
    "regularizers": (
        WeightNormMultiHeadAttention,
        {**HEADS, "kernel_regularizer": "l2", "bias_regularizer": "l1"},
    ),
    "dropout": (WeightNormMultiHeadAttention, {**HEADS, "dropout": 0.3, "seed": 1}),
    "groups": (WeightNormGroupQueryAttention, GROUPS),
    "groups_no_bias": (WeightNormGroupQueryAttention, {**GROUPS, "use_bias": False}),
}
QUERY, VALUE = inputs_of((4, 6, 5)), inputs_of((4, 7, 5))[:, ::-1].copy()
CALLS = {
    "self": lambda layer: layer(QUERY, QUERY),
    "cross": lambda layer: layer(QUERY, VALUE, VALUE + 1),
    "causal": lambda layer: layer(QUERY, QUERY, use_causal_mask=True),
    "mask": lambda layer: layer(QUERY, VALUE, attention_mask=rows_of(6, 7)),
    "padding": lambda layer: layer(
        QUERY, VALUE, query_mask=rows_of(6), value_mask=rows_of(7), key_mask=rows_of(7)
    ),
    "scores": lambda layer: layer(QUERY, VALUE, return_attention_scores=True),
}


def rows_of(*shape):
    return tf.constant(np.random.default_rng(5).random((4, *shape)) < 0.7)


def pair(layer_class, arguments, policy="float32", **kwargs):
    """The layer and its Keras twin with equal weights, all of them random."""
    twin_class = layer_class.__mro__[layer_class.__mro__.index(keras.Layer) - 1]
    assert twin_class.__module__.startswith("keras.")
    layer = layer_class(**arguments, **kwargs, dtype=policy)
    twin = twin_class(**arguments, dtype=policy)
    rng = np.random.default_rng(1)
    for each in (layer, twin):
        each.build(QUERY.shape, VALUE.shape)
    for part, other in zip(layer.random_parts, kernels_of(twin), strict=True):
        other.kernel.assign(rng.normal(size=other.kernel.shape))
        part.direction.assign(other.kernel)
        if part.scale is not None:
            part.scale.assign(part.kernel_norm())
        if other.bias is not None:
            other.bias.assign(rng.normal(size=other.bias.shape))
            part.bias.assign(other.bias)
    return layer, twin


def kernels_of(layer):
    inside = [part for part, _ in pairs(layer, layer)]
    return [part for part in inside if isinstance(part, keras.layers.EinsumDense)]


def assert_close(results, expected, precision):
    for found, wanted in zip(
        keras.tree.flatten(results), keras.tree.flatten(expected), strict=True
    ):
        assert found.dtype == wanted.dtype
        wanted = tf.cast(wanted, "float32")
        np.testing.assert_allclose(
            tf.cast(found, "float32"),
            wanted,
            rtol=0,
            atol=precision * max(1, np.abs(wanted).max()),
        )


@pytest.mark.few(8)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("layer_class", "arguments"), LAYERS.values(), ids=LAYERS)
def test_equals_keras(layer_class, arguments, call):
    layer, twin = pair(layer_class, arguments)
    assert_close(call(layer), call(twin), 1e-5)
    np.testing.assert_allclose(sum(layer.losses), sum(twin.losses), rtol=1e-5)


@pytest.mark.parametrize("layer_class", [LAYERS["heads"], LAYERS["groups"]])
@pytest.mark.parametrize("policy", ["float64", "mixed_float16"])
def test_dtype_policies(layer_class, policy):
    layer, twin = pair(*layer_class, policy)
    precision = 3e-2 if policy == "mixed_float16" else 1e-5
    assert_close(tf.function(layer)(QUERY, VALUE), twin(QUERY, VALUE), precision)


def test_dropout_of_scores_is_that_of_keras():
    layer, twin = pair(*LAYERS["dropout"])
    results = layer(QUERY, VALUE, training=True)
    assert_close(results, twin(QUERY, VALUE, training=True), 1e-5)
    assert np.abs(results - layer(QUERY, VALUE)).max() > 1e-2


class Twos(keras.initializers.Initializer):
    """Not registered, so that Keras does not know it by its name."""

    def __call__(self, shape, dtype=None):
        return tf.fill(shape, tf.constant(2, dtype or "float32"))


class Sum(keras.regularizers.Regularizer):
    """Not registered either."""

    def __call__(self, values):
        return tf.reduce_sum(values)


class Unconstrained(keras.constraints.Constraint):
    """Neither is this."""

    def __call__(self, values):
        return values


@pytest.mark.parametrize("name", ["heads", "groups"])
def test_functions_and_classes_of_ones_own(name):
    layer_class, arguments = LAYERS[name]
    own = {
        "kernel_initializer": Twos(),
        "kernel_regularizer": Sum(),
        "bias_constraint": Unconstrained(),
    }
    layer, twin = pair(layer_class, {**arguments, **own})
    assert_close(layer(QUERY, VALUE), twin(QUERY, VALUE), 1e-5)
    np.testing.assert_allclose(sum(layer.losses), sum(twin.losses), rtol=1e-5)
    for initializer in (Twos(), lambda shape, dtype=None: Twos()(shape, dtype)):
        layer = layer_class(**arguments, scale_initializer=initializer)
        layer.build(QUERY.shape, VALUE.shape)
        assert all((weight.numpy() == 2).all() for weight in layer.generated_weights)


def test_scales_of_projections_are_drawn_one_by_one():
    layer = WeightNormMultiHeadAttention(2, 3, scale_initializer="random_normal")
    layer.build(QUERY.shape, VALUE.shape)
    query, key = (part.scale.numpy() for part in layer.random_parts[:2])
    assert np.abs(query - key).min() > 0


def test_masks_pass_through():
    layer, twin = pair(*LAYERS["heads"])
    padded = np.where(rows_of(6)[..., None], QUERY, 0)
    means = []
    for each in (layer, twin):
        masked = keras.layers.Masking()(padded)  # Attention takes the mask from it.
        outputs = each(masked, masked)
        means.append(keras.layers.GlobalAveragePooling1D()(outputs))
    assert_close(*means, 1e-5)
    unmasked = keras.ops.mean(layer(padded, padded), axis=1)
    assert np.abs(means[0] - unmasked).max() > 1e-2


class SelfAttention(WeightNormMultiHeadAttention):
    """With a single input, for the checks that all layers share."""

    def build(self, input_shape):
        super().build(input_shape, input_shape)

    def call(self, inputs):
        return super().call(inputs, inputs)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    class TWIN(keras.layers.MultiHeadAttention):
        def build(self, input_shape):
            super().build(input_shape, input_shape)

        def call(self, inputs):
            return super().call(inputs, inputs)


def test_what_all_layers_do():
    for check in (check_random, check_config, check_dtype_policies):
        check(SelfAttention, HEADS, (4, 6, 5))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["heads", "values", "groups"])
@pytest.mark.parametrize("random", ["scale_and_bias", "rank_one"])
def test_a_draw_for_each_row(name, random):
    """A row's output is that of the layer with this row's draw."""
    layer_class, arguments = LAYERS[name]
    layer, _ = pair(layer_class, arguments, random=random)
    rng = np.random.default_rng(4)
    variables = layer.generated_weights
    values = [rng.normal(size=(4, *v.shape)).astype("float32") for v in variables]

    @tf.function
    def under(query, value, draws):
        given = {id(v): draw for v, draw in zip(variables, draws, strict=True)}
        with generated_values(given):
            return layer(query, value)

    found = under(QUERY, VALUE, values)
    for row in range(4):
        for variable, draw in zip(variables, values, strict=True):
            variable.assign(draw[row])
        expected = layer(QUERY[row : row + 1], VALUE[row : row + 1])
        np.testing.assert_allclose(found[row], expected[0], rtol=1e-4, atol=1e-4)


def test_a_scale_for_each_unit_of_four_projections():
    layer, _ = pair(*LAYERS["values"])
    shapes = [(2, 3), (2, 3), (2, 4), (5,)]
    assert [v.shape for v in layer.generated_weights] == shapes
    assert layer.num_random == 6 + 6 + 8 + 5
    layer, _ = pair(*LAYERS["groups"])
    shapes = [(4, 3), (2, 3), (2, 3), (5,)]
    assert [v.shape for v in layer.generated_weights] == shapes


def test_what_is_not_supported_says_so():
    with pytest.raises(ValueError, match="'rank_one'.*got 'weights'"):
        WeightNormMultiHeadAttention(2, 3, random="weights")
    layer = WeightNormMultiHeadAttention(2, 3)
    with pytest.raises(ValueError, match="no weights yet"):
        print(layer.num_random)
    layer.build(QUERY.shape, VALUE.shape)
    with pytest.raises(ValueError, match="quantisation"):
        layer.quantize("int8")
    with pytest.raises(ValueError, match=r"[Ff]lash"):
        WeightNormMultiHeadAttention(2, 3, flash_attention=True)(QUERY, VALUE)
