"""Recurrent layers beside Keras's: every way to call them, and scales for each row."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import layers
from bhn_tf.layers.generated import generated_values
from tests.layers.layer_check import (
    built,
    check_config,
    check_equals_keras,
    check_layer,
    check_random,
    inputs_of,
    seeded,
    twin_of,
)

ROWS, STEPS, FEATURES, UNITS = 3, 4, 2, 3
SEQUENCES = (ROWS, STEPS, FEATURES)
#: Class and constructor arguments of each layer, with a shape of inputs.
KINDS = {
    "lstm": (layers.WeightNormLSTM, {"units": UNITS}, SEQUENCES),
    "gru": (layers.WeightNormGRU, {"units": UNITS}, SEQUENCES),
    "gru_before": (
        layers.WeightNormGRU,
        {"units": UNITS, "reset_after": False},
        SEQUENCES,
    ),
    "simple": (layers.WeightNormSimpleRNN, {"units": UNITS}, SEQUENCES),
    "conv": (
        layers.WeightNormConvLSTM1D,
        {"filters": UNITS, "kernel_size": 2},
        (ROWS, STEPS, 4, FEATURES),
    ),
    "conv_first": (
        layers.WeightNormConvLSTM1D,
        {"filters": UNITS, "kernel_size": 2, "data_format": "channels_first"},
        (ROWS, STEPS, FEATURES, 4),
    ),
}


def _computes_channels_first() -> bool:
    try:
        keras.layers.Conv1D(1, 1, data_format="channels_first")(np.zeros([1, 1, 2]))
    except tf.errors.UnimplementedError:
        return False
    return True


# TensorFlow's own convolutions of the CPU lack it, and oneDNN, which has it, replaces
# them on newer processors only.
if not _computes_channels_first():
    del KINDS["conv_first"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_layer():
    check_layer(*KINDS["lstm"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gru", "gru_before", "simple", "conv"])
def test_kinds_of_a_layer(kind):
    layer_class, arguments, shape = KINDS[kind]
    check_equals_keras(layer_class, arguments, shape)
    check_random(layer_class, arguments, shape)
    check_config(layer_class, seeded(layer_class, arguments), shape)


@pytest.mark.parametrize(
    ["layer_class", "shape", "options"],
    [
        (layers.WeightNormConvLSTM2D, (2, 2, 3, 4, 2), {"strides": 2}),
        (layers.WeightNormConvLSTM3D, (2, 2, 3, 3, 4, 1), {"padding": "same"}),
    ],
)
def test_convolutions_of_more_dimensions(layer_class, shape, options):
    arguments = {"filters": 2, "kernel_size": 2, **options}
    check_equals_keras(layer_class, arguments, shape)


OPTIONS = {
    "backwards": {"go_backwards": True, "return_sequences": True},
    "unrolled": {"unroll": True, "return_sequences": True},
    "regularizers": {
        "kernel_regularizer": "l2",
        "recurrent_regularizer": "l1",
        "bias_regularizer": "l2",
        "activity_regularizer": "l2",
    },
    "constraints": {"kernel_constraint": "max_norm", "recurrent_constraint": "non_neg"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(options):
    arguments = {"units": UNITS, **options}
    check_equals_keras(layers.WeightNormLSTM, arguments, SEQUENCES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "gru", "simple"])
def test_gates_one_by_one_without_bias(kind):
    layer_class, arguments, shape = KINDS[kind]
    arguments = {**arguments, "use_bias": False, "activation": "relu"}
    if kind != "simple":
        arguments["implementation"] = 1
    check_random(layer_class, arguments, shape)


def draws_for_rows(layer):
    rng = np.random.default_rng(6)
    return {
        id(variable): rng.normal(size=(ROWS, *variable.shape)).astype("float32")
        for variable in layer.generated_weights
    }


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ["random", "dropout"],
    [
        ("scale_and_bias", 0.5),
        ("rank_one", 0.0),
        pytest.param("scale_and_bias", 0.0, marks=pytest.mark.slow),
        pytest.param("rank_one", 0.5, marks=pytest.mark.slow),
    ],
)
@every_kind
def test_a_call_with_everything(kind, random, dropout):
    """Masks, sequences, given and returned states, and dropout, in a graph."""
    layer_class, arguments, shape = KINDS[kind]
    options = {"return_sequences": True, "return_state": True, "go_backwards": True}
    options |= {"dropout": dropout, "recurrent_dropout": dropout, "seed": 1}
    arguments = seeded(layer_class, {**arguments, **options})
    inputs = inputs_of(shape)
    mask = np.array([[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]], bool)

    def call(layer, training):
        # Both draw the same dropout.
        generator = layer.cell.seed_generator
        generator.state.assign(tf.ones_like(generator.state))
        states = [tf.ones_like(state) * 0.3 for state in layer.get_initial_state(ROWS)]
        return layer(inputs, initial_state=states, mask=mask, training=training)

    layer = built(layer_class, {**arguments, "random": random}, inputs)
    twin = twin_of(layer_class, arguments, inputs)
    for training in (False, True):
        found, expected = call(layer, training), call(twin, training)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert layer.compute_mask(inputs, mask)[0] is mask

    draws = draws_for_rows(layer)
    alike = {key: np.stack([draw[0]] * ROWS) for key, draw in draws.items()}

    @tf.function
    def under(values):
        with generated_values(values):
            return call(layer, True)

    # The same noise, whether scales multiply the kernels or the products.
    found = under({key: tf.constant(draw) for key, draw in alike.items()})
    expected = under({key: tf.constant(draw[0]) for key, draw in alike.items()})
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert np.ptp(one) > 0.01


@every_kind
def test_state_is_kept_from_call_to_call(kind):
    layer_class, arguments, shape = KINDS[kind]
    arguments = seeded(layer_class, {**arguments, "stateful": True})
    inputs = inputs_of(shape)
    layer = built(layer_class, arguments, inputs)
    twin = twin_of(layer_class, arguments, inputs)
    first = layer(inputs).numpy()
    np.testing.assert_allclose(first, twin(inputs), atol=1e-6)
    np.testing.assert_allclose(layer(inputs), twin(inputs), atol=1e-6)
    assert np.abs(layer(inputs) - first).max() > 1e-3
    layer.reset_state()
    np.testing.assert_allclose(layer(inputs), first, atol=1e-6)
    layer.reset_state()
    with generated_values(draws_for_rows(layer)):
        rows = layer(inputs).numpy()
        assert np.abs(layer(inputs) - rows).max() > 1e-3


@pytest.mark.parametrize("merge_mode", ["concat", None])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_both_directions(kind, merge_mode):
    """Also a guard: if Keras fused both directions, it would ignore the scales."""
    layer_class, arguments, shape = KINDS[kind]
    arguments = seeded(layer_class, {**arguments, "return_sequences": True})
    inputs = inputs_of(shape)
    twin = getattr(keras.layers, layer_class.__name__.removeprefix("WeightNorm"))
    wrapper = keras.layers.Bidirectional(layer_class(**arguments), merge_mode)
    stock = keras.layers.Bidirectional(twin(**arguments), merge_mode)
    mask = np.array([[1, 1, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]], bool)
    for of_call in ({}, {"mask": mask}):
        found, expected = wrapper(inputs, **of_call), stock(inputs, **of_call)
        for one, other in zip(
            keras.tree.flatten(found), keras.tree.flatten(expected), strict=True
        ):
            np.testing.assert_allclose(one, other, atol=1e-6)
    # Twice the scales are twice the kernels.
    both = [wrapper.forward_layer, wrapper.backward_layer]
    doubled = {
        id(scale): tf.constant(2.0 * scale.numpy())
        for layer in both
        for scale in layer.generated_weights
    }
    for layer in (stock.forward_layer, stock.backward_layer):
        for kernel in (layer.cell.kernel, layer.cell.recurrent_kernel):
            kernel.assign(2.0 * kernel)
    with generated_values(doubled):
        found = keras.tree.flatten(wrapper(inputs))
    for one, other in zip(found, keras.tree.flatten(stock(inputs)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_arguments_that_keras_does_not_save():
    layer = layers.WeightNormLSTM(3, use_cudnn=False, implementation=1)
    again = layers.WeightNormLSTM.from_config(layer.get_config())
    assert again.use_cudnn is False and again.cell.implementation == 1


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_what_a_gpu_is_given(name, monkeypatch):
    """cuDNN gets kernels with the draw in them; it is not used for a draw per row."""
    layer = built(*KINDS[name][:2], inputs_of(SEQUENCES))
    kernels = []

    def on_a_gpu(*_args, kernel, recurrent_kernel, **_kwargs):
        kernels.extend([kernel, recurrent_kernel])
        raise NotImplementedError

    monkeypatch.setattr(f"keras.src.backend.{name}", on_a_gpu)
    doubled = {
        id(scale): tf.constant(2.0 * scale.numpy()) for scale in layer.generated_weights
    }
    with generated_values(doubled):
        layer(inputs_of(SEQUENCES))
    directions = (layer.direction, layer.recurrent_direction)
    for kernel, direction in zip(kernels, directions, strict=True):
        np.testing.assert_allclose(kernel, 2.0 * direction.numpy(), atol=1e-6)
    with generated_values(draws_for_rows(layer)):
        layer(inputs_of(SEQUENCES))
    assert len(kernels) == 2
