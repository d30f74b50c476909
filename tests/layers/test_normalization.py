import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import layers
from tests.layers.layer_check import (
    built,
    check_config,
    check_random,
    inputs_of,
    regularises,
    twin_of,
)

NORMALIZATIONS = {
    "layer": (layers.LayerNormalization, {}, (4, 5, 6)),
    "layer_of_two_axes": (layers.LayerNormalization, {"axis": [1, -1]}, (4, 5, 6)),
    "layer_over_positions": (layers.LayerNormalization, {"axis": 1}, (4, 5, 6)),
    "group": (layers.GroupNormalization, {"groups": 2}, (4, 3, 5, 6)),
    "group_for_each": (layers.GroupNormalization, {"groups": -1}, (4, 3, 6)),
    "group_first": (layers.GroupNormalization, {"groups": 3, "axis": 1}, (4, 6, 5)),
    "options": (
        layers.LayerNormalization,
        {
            "epsilon": 0.1,
            "gamma_initializer": keras.initializers.RandomNormal(1.0, seed=1),
            "beta_regularizer": "l1",
            "gamma_constraint": "non_neg",
        },
        (4, 6),
    ),
    "rms": (layers.RMSNormalization, {}, (4, 5, 6)),
    "rms_of_two_axes": (layers.RMSNormalization, {"axis": [1, 2]}, (4, 5, 6)),
}
every_kind = pytest.mark.parametrize(
    ("layer_class", "options", "shape"), NORMALIZATIONS.values(), ids=NORMALIZATIONS
)


@every_kind
@pytest.mark.parametrize("policy", ["float32", "float64", "mixed_float16"])
def test_equals_keras(layer_class, options, shape, policy):
    inputs = inputs_of(shape)
    layer = built(layer_class, {**options, "dtype": policy}, inputs)
    twin = twin_of(layer_class, {**options, "dtype": policy}, inputs)
    rng = np.random.default_rng(1)
    for weight, other in zip(layer.weights, twin.weights, strict=True):
        assert weight.name == other.name
        values = rng.uniform(0.5, 2.0, size=weight.shape)
        weight.assign(values)
        other.assign(values)
    results, expected = tf.function(layer)(inputs), twin(inputs)
    assert results.dtype == expected.dtype
    precision = 1e-2 if policy == "mixed_float16" else 1e-5
    np.testing.assert_allclose(
        tf.cast(results, "float32"),
        tf.cast(expected, "float32"),
        rtol=precision,
        atol=precision,
    )
    if regularises(layer.variable_dtype):
        np.testing.assert_allclose(layer.losses, twin.losses, rtol=1e-6)


@every_kind
def test_generated_values(layer_class, options, shape):
    check_random(layer_class, options, shape)
    if layer_class is not layers.RMSNormalization:
        check_config(layer_class, options, shape)


@pytest.mark.parametrize("name", ["LayerNormalization", "GroupNormalization"])
@pytest.mark.parametrize(
    "arguments", [{"scale": False}, {"random": "scale_and_bias", "center": False}]
)
def test_generating_what_is_left_out_is_refused(name, arguments):
    groups = {"groups": 2} if name.startswith("Group") else {}
    with pytest.raises(ValueError, match="generates what .* leave out"):
        getattr(layers, name)(**groups, **arguments)


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match="got 'scale_and_bias'"):
        layers.RMSNormalization(random="scale_and_bias")
    with (
        pytest.warns(UserWarning, match="deprecated"),
        pytest.raises(ValueError, match="Use `bhn_tf.layers.RMSNormalization`"),
    ):
        layers.LayerNormalization(rms_scaling=True)


def test_without_scale_and_shift():
    for scale, center in ((True, False), (False, True), (False, False)):
        options = {"random": "none", "scale": scale, "center": center}
        layer = layers.GroupNormalization(groups=2, **options)
        clone = layers.GroupNormalization.from_config(layer.get_config())
        clone.build((None, 5, 6))
        expected = (["gamma"] if scale else []) + (["beta"] if center else [])
        assert [weight.name for weight in clone.weights] == expected
