"""What holds for every weight-normalised layer, checked by one call."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers.generated import generated_values
from bhn_tf.layers.random_affine import RandomAffine
from bhn_tf.layers.random_parts import RandomParts
from bhn_tf.layers.recurrent_weight_norm import RecurrentWeightNorm
from bhn_tf.layers.weight_norm import WeightNorm

WITH_KERNELS = (WeightNorm, RecurrentWeightNorm, RandomParts)

# Relative precision of the outputs; half precision rounds inputs, kernel and product.
POLICIES = {
    "float32": 1e-5,
    "float64": 1e-5,
    "float16": 1e-2,
    "mixed_float16": 1e-2,
    "mixed_bfloat16": 5e-2,
}


def regularises(dtype):
    """Whether this Keras regularises a dtype; before 3.14 L1 takes float32 alone."""
    try:
        keras.regularizers.L1()(tf.ones((1,), dtype))
    except tf.errors.InvalidArgumentError:
        return False
    return True


def call_eagerly(layer, inputs):
    return layer(inputs)


def call_by_xla(layer, inputs):
    return tf.function(layer, jit_compile=True)(inputs)


def check_layer(layer_class, arguments, input_shape, output_axes=(-1,)):
    """Checks a layer with some constructor arguments against its Keras twin.

    Args:
        layer_class: A layer `WeightNorm...` of `bhn_tf.layers`.
        arguments: Constructor arguments that the Keras layer has as well.
        input_shape: Shape of a batch of inputs, rows first.
        output_axes: Axes of the kernel that have a scale for each entry.
    """
    check_equals_keras(layer_class, arguments, input_shape, output_axes)
    check_random(layer_class, arguments, input_shape)
    check_dtype_policies(layer_class, arguments, input_shape)
    arguments, inputs = seeded(layer_class, arguments), inputs_of(input_shape)
    for policy in ("float32", "float16", "mixed_float16"):
        for length in (0.0, 1e-6):
            _check_short_directions(
                layer_class, arguments, inputs, policy, length, output_axes
            )
    _check_leaves_zero(layer_class, arguments, inputs)
    check_config(layer_class, arguments, input_shape)
    _check_refuses_integers(layer_class, arguments, inputs)


def check_equals_keras(
    layer_class, arguments, input_shape, output_axes=(-1,), call=call_eagerly
):
    """The part of `check_layer` that compares outputs with those of the twin.

    With `call=call_by_xla` also for what TensorFlow's own convolutions of the CPU lack
    or get wrong where oneDNN does not replace them, as on older processors.
    """
    arguments, inputs = seeded(layer_class, arguments), inputs_of(input_shape)
    _check_equals_its_twin(layer_class, arguments, inputs, call)
    _check_scales_multiply_directions(layer_class, arguments, inputs, output_axes, call)


def check_random(layer_class, arguments, input_shape):
    """The part of `check_layer` about what is generated; for every random layer."""
    inputs = inputs_of(input_shape)
    is_made_of_parts = issubclass(layer_class, RandomParts)
    for random in layer_class.MODES if is_made_of_parts else layer_class.GENERATED:
        modes = {**seeded(layer_class, arguments), "random": random}
        _check_generated_values(layer_class, modes, inputs)
        _check_stays_handed_over(layer_class, modes, inputs)


def check_dtype_policies(layer_class, arguments, input_shape):
    """The part of `check_layer` about precision; for every random layer."""
    arguments, inputs = seeded(layer_class, arguments), inputs_of(input_shape)
    for policy, precision in POLICIES.items():
        _check_dtype_policy(layer_class, arguments, inputs, policy, precision)


def check_equals_its_twin(layer_class, arguments, input_shape):
    """A fresh layer is its Keras twin, with shapes and losses."""
    inputs = inputs_of(input_shape)
    _check_equals_its_twin(layer_class, seeded(layer_class, arguments), inputs)


def check_config(layer_class, arguments, input_shape):
    """A configuration that went through JSON makes an equal, independent layer."""
    inputs = inputs_of(input_shape)
    arguments = seeded(layer_class, arguments)
    arguments = {**arguments, "random": "scale_and_bias", "name": "layer"}
    if issubclass(layer_class, WITH_KERNELS):
        initializer = keras.initializers.RandomNormal(mean=1.0, seed=5)
        arguments["scale_initializer"] = initializer
    layer = built(layer_class, arguments, inputs)
    config = json.loads(json.dumps(layer.get_config()))
    assert set(arguments) <= set(config)
    clone = layer_class.from_config(config)
    assert json.loads(json.dumps(clone.get_config())) == config
    clone.build(inputs.shape)
    assert not {id(w) for w in clone.weights} & {id(w) for w in layer.weights}
    np.testing.assert_array_equal(clone(inputs), layer(inputs))


def check_gradient_of_points(layer_class, input_shape, **options):
    """Strides of 2 and a kernel of 1: its gradient is a sum over every other point.

    Transposed, every point is an output, and those between them have no kernel.
    """
    inputs = inputs_of((9, *input_shape[1:]))
    arguments = {"filters": 3, "kernel_size": 1, "strides": 2, "use_bias": False}
    layer = built(layer_class, {**arguments, **options, "random": "kernel"}, inputs)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(layer(inputs)))
    gradient = np.squeeze(tape.gradient(loss, layer.direction.value))
    matrix = np.squeeze(layer.direction.numpy()).astype("float64")
    is_transposed = "Transpose" in layer_class.__name__
    if is_transposed:
        matrix, gradient = matrix.T, gradient.T
    else:
        steps = [slice(None, None, 2)] * (inputs.ndim - 2)
        inputs = inputs[(slice(None), *steps)]
    points = inputs.reshape(-1, inputs.shape[-1]).astype("float64")
    _assert_close(gradient, 2 * points.T @ (points @ matrix), 1e-5)


def seeded(layer_class, arguments):
    """Adds initialisers with seeds: a layer and its twin then draw the same weights."""
    if not issubclass(layer_class, WITH_KERNELS):
        return arguments
    if issubclass(layer_class, keras.layers.Embedding):
        return {"embeddings_initializer": _kernels_of_seed(1), **arguments}
    name, found = layer_class.__name__, {}
    if "Separable" in name:
        found["pointwise_initializer"] = _kernels_of_seed(3)
    is_depthwise = "Depthwise" in name or "Separable" in name
    kernel = "depthwise_initializer" if is_depthwise else "kernel_initializer"
    if issubclass(layer_class, RecurrentWeightNorm):
        arguments = {
            "recurrent_initializer": keras.initializers.Orthogonal(seed=3),
            **arguments,
        }
    return {
        **found,
        kernel: _kernels_of_seed(1),
        "bias_initializer": keras.initializers.RandomNormal(seed=2),
        **arguments,
    }


def _kernels_of_seed(seed):
    return keras.initializers.GlorotUniform(seed=seed)


def inputs_of(shape):
    """A batch of noise of a shape, or given inputs themselves."""
    if isinstance(shape, np.ndarray):
        return shape
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def twin_of(layer_class, arguments, inputs):
    """The built Keras layer with these arguments."""
    name = layer_class.__name__.removeprefix("WeightNorm")
    twin = getattr(layer_class, "TWIN", None) or getattr(keras.layers, name)
    arguments = {name: value for name, value in arguments.items() if name != "random"}
    return built(twin, arguments, inputs)


def built(layer_class, arguments, inputs):
    layer = layer_class(**arguments)
    layer.build(inputs.shape)
    return layer


def _kernels(layer, twin):
    """A layer's directions, their scales, and the twin's corresponding kernels."""
    if isinstance(layer, WeightNorm):
        return [(layer.direction, layer.scale, twin.kernel)]
    cell = twin.cell
    return [
        (layer.direction, layer.scale, cell.kernel),
        (layer.recurrent_direction, layer.recurrent_scale, cell.recurrent_kernel),
    ]


def _normalized(kernel, scale, output_axes):
    kernel = np.asarray(kernel, "float64")
    output_axes = {axis % kernel.ndim for axis in output_axes}
    axes = tuple(axis for axis in range(kernel.ndim) if axis not in output_axes)
    norm = np.sqrt(np.sum(kernel**2, axis=axes, keepdims=True))
    return np.expand_dims(scale, axes) * kernel / norm


def _assert_close(results, expected, precision):
    expected = np.asarray(expected, "float64")
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(
        np.asarray(results).astype("float64"), expected, rtol=0, atol=precision * size
    )


def _check_equals_its_twin(layer_class, arguments, inputs, call=call_eagerly):
    twin = twin_of(layer_class, arguments, inputs)
    layer = built(layer_class, arguments, inputs)
    _assert_close(call(layer, inputs), call(twin, inputs), 1e-6)
    np.testing.assert_allclose(layer.losses, twin.losses, rtol=1e-6)
    shape = (None, *inputs.shape[1:])
    assert layer.compute_output_shape(shape) == twin.compute_output_shape(shape)
    symbolic = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
    assert layer(symbolic).shape == twin(symbolic).shape


def _check_scales_multiply_directions(
    layer_class, arguments, inputs, output_axes, call=call_eagerly
):
    """`w_j = g_j v_j / ||v_j||`, whatever g and v are."""
    layer = built(layer_class, arguments, inputs)
    twin = twin_of(layer_class, arguments, inputs)
    rng = np.random.default_rng(3)
    for direction, layer_scale, of_twin in _kernels(layer, twin):
        scale, kernel = (
            rng.normal(size=variable.shape).astype("float32")
            for variable in (layer_scale, of_twin)
        )
        layer_scale.assign(scale)
        direction.assign(kernel)
        of_twin.assign(_normalized(kernel, scale, output_axes).astype("float32"))
    _assert_close(call(layer, inputs), call(twin, inputs), 1e-5)


def _check_generated_values(layer_class, arguments, inputs):
    """A generated value is used as if the layer's own variable held it."""
    layer = built(layer_class, arguments, inputs)
    own_outputs = layer(inputs).numpy()
    _assert_close(own_outputs, twin_of(layer_class, arguments, inputs)(inputs), 1e-6)
    variables = layer.generated_weights
    assert [variable.name for variable in variables] == _generated_names(layer)
    assert layer.num_random == sum(np.prod(v.shape, dtype=int) for v in variables)

    rng = np.random.default_rng(4)
    rows = len(inputs)
    draws = [rng.normal(size=(rows, *v.shape)).astype("float32") for v in variables]

    def under(values):
        values = {
            id(v): tf.constant(draw) for v, draw in zip(variables, values, strict=True)
        }
        with generated_values(values):
            return layer(inputs).numpy()

    def holding(values):
        other = built(layer_class, arguments, inputs)
        for weight, draw in zip(other.generated_weights, values, strict=True):
            weight.assign(draw)
        return other(inputs).numpy()

    for row in range(rows):
        values = [draw[row] for draw in draws]
        np.testing.assert_allclose(under(values), holding(values), rtol=1e-6, atol=1e-6)
    if variables and layer.supports_scales_per_row:
        each = np.stack(
            [under([draw[row] for draw in draws])[row] for row in range(rows)]
        )
        np.testing.assert_allclose(under(draws), each, rtol=1e-5, atol=1e-5)
        repeated = [np.stack([draw[0]] * rows) for draw in draws]
        one_set = under([draw[0] for draw in draws])
        np.testing.assert_allclose(under(repeated), one_set, rtol=1e-6, atol=1e-6)
    assert layer.supports_scales_per_row == (not layer.random.startswith("kernel"))
    np.testing.assert_array_equal(layer(inputs), own_outputs)


def _generated_names(layer):
    if isinstance(layer, RandomParts):
        return [name for part in layer.random_parts for name in _generated_names(part)]
    if isinstance(layer, RandomAffine):
        return ["gamma", "beta"][
            : ("none", "scale", "scale_and_bias").index(layer.random)
        ]
    if isinstance(layer, keras.layers.RMSNormalization):
        return {"none": [], "scale": ["scale"]}[layer.random]
    if isinstance(layer, keras.layers.Embedding):
        is_kernel = layer.random.startswith("kernel")
        name = "embeddings" if is_kernel else "scale"
        return [] if layer.random == "none" else [name]
    bias = [] if layer.bias is None else ["bias"]
    if isinstance(layer, RecurrentWeightNorm):
        scales, kernels = ([name, f"recurrent_{name}"] for name in ("scale", "kernel"))
        return {
            "none": [],
            "scale": scales,
            "scale_and_bias": scales + bias,
            "rank_one": [*scales, "input_scale", "recurrent_input_scale"],
            "kernel": kernels,
            "kernel_and_bias": kernels + bias,
        }[layer.random]
    return {
        "none": [],
        "scale": ["scale"],
        "scale_and_bias": ["scale", *bias],
        "rank_one": ["scale", "input_scale"],
        "kernel": ["kernel"],
        "kernel_and_bias": ["kernel", *bias],
    }[layer.random]


def _check_stays_handed_over(layer_class, arguments, inputs):
    """Toggling `trainable` never trains a weight that the hypernet generates."""
    layer = layer_class(**arguments)
    inner = keras.Sequential([keras.Input(inputs.shape[1:]), layer])
    outer = keras.Sequential([keras.Input(inputs.shape[1:]), inner])
    all_ids = {id(weight) for weight in layer.trainable_weights}
    assert {id(weight) for weight in layer.generated_weights} <= all_ids
    assert {id(weight) for weight in outer.trainable_variables} == all_ids
    layer.hand_over()
    own = all_ids - {id(weight) for weight in layer.generated_weights}
    for owner in (layer, inner, outer):
        for trainable in (True, False, True):
            owner.trainable = trainable
            expected = own if trainable else set()
            assert {id(w) for w in owner.trainable_variables} == expected
        assert {id(w) for w in outer.trainable_variables} == own
        assert {id(w) for w in layer.trainable_weights} == own


def _check_dtype_policy(layer_class, arguments, inputs, policy, precision):
    expected = built(layer_class, arguments, inputs)
    layer = built(layer_class, {**arguments, "dtype": policy}, inputs)
    for weight, other in zip(layer.weights, expected.weights, strict=True):
        weight.assign(other)
    assert {weight.dtype for weight in layer.weights} == {layer.variable_dtype}
    values = {
        id(own): tf.stack([tf.cast(other, "float32")] * len(inputs))
        for own, other in zip(
            layer.generated_weights, expected.generated_weights, strict=True
        )
    }

    # In a graph, where dtypes are checked more strictly than in eager execution.
    @tf.function
    def outputs_of(inputs):
        with generated_values(values):
            return layer(inputs), layer(tf.cast(inputs, "float64"))

    for outputs in (layer(inputs), *outputs_of(tf.constant(inputs))):
        assert outputs.dtype.name == layer.compute_dtype
        _assert_close(tf.cast(outputs, "float64"), expected(inputs), precision)


def _check_short_directions(
    layer_class, arguments, inputs, policy, length, output_axes
):
    """Directions of (almost) zero length: all of them, or that of one output."""
    for outputs in (..., (0,) * len(output_axes)):
        layer = built(
            layer_class,
            {**arguments, "dtype": policy, "scale_initializer": "ones"},
            inputs,
        )
        kernel = layer.direction.numpy()
        np.moveaxis(kernel, output_axes, range(len(output_axes)))[outputs] = length
        layer.direction.assign(kernel)
        optimizer = keras.optimizers.SGD(1e-3)
        for _ in range(10):
            with tf.GradientTape() as tape:
                results = layer(inputs)
                loss = tf.reduce_mean(tf.square(tf.cast(results, "float32") - 2.0))
            gradients = tape.gradient(loss, layer.trainable_variables)
            for tensor in (results, *gradients):
                assert np.isfinite(tf.cast(tensor, "float32")).all()
            optimizer.apply(gradients, layer.trainable_variables)
        assert np.isfinite(tf.cast(layer(inputs), "float32")).all()


def _check_leaves_zero(layer_class, arguments, inputs):
    """A zero direction learns like the twin's kernel."""
    twin = twin_of(layer_class, arguments, inputs)
    layer = built(layer_class, arguments, inputs)
    direction, scale, of_twin = _kernels(layer, twin)[0]
    scale.assign(tf.ones_like(scale))
    for kernel in (of_twin, direction):
        kernel.assign(tf.zeros_like(kernel))
    gradients = []
    for each, kernel in ((twin, of_twin), (layer, direction)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(each(inputs) - 1.0))
        gradients.append(tape.gradient(loss, kernel.value))
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-5, atol=1e-5)


def _check_refuses_integers(layer_class, arguments, inputs):
    layer = built(layer_class, arguments, inputs)
    for dtype in ("uint8", "int32", "bool"):
        with pytest.raises(TypeError, match=f"{dtype}.*cast them first"):
            layer(np.ones(inputs.shape, dtype))
