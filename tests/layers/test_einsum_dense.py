import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import WeightNormEinsumDense
from tests.layers.layer_check import check_equals_keras, check_layer

# Equation, shapes of outputs and inputs, and the kernel's axes of outputs.
EQUATIONS = {
    "dense": ("ab,bc->ac", 3, (4, 5), (1,)),
    "sequence": ("abc,cd->abd", (None, 3), (4, 2, 5), (1,)),
    "heads": ("abc,cde->abde", (None, 2, 3), (4, 2, 5), (1, 2)),
    "from_heads": ("abcd,cde->abe", (None, 3), (4, 2, 3, 5), (2,)),
    "dots_before": ("...x,xy->...y", 3, (4, 2, 5), (1,)),
    "dots_before_many": ("...x,xy->...y", 3, (4, 1, 2, 5), (1,)),
    "dots_for_nothing": ("...x,xy->...y", 3, (4, 5), (1,)),
    "dots_after": ("ab...,bc->ac...", 3, (4, 5, 2), (1,)),
    "outputs_in_another_order": ("abc,cde->aebd", (3, None, 2), (4, 2, 5), (1, 2)),
    "kernel_in_another_order": ("abc,edc->abde", (None, 2, 3), (4, 2, 5), (0, 1)),
    "dots_after_many": ("ab...,bc->ac...", 3, (4, 5, 1, 2), (1,)),
    "positions_summed": ("abc,cd->ad", 3, (4, 2, 5), (1,)),
    "one_position_one_kernel": ("abc,bcd->abd", (2, 3), (4, 2, 5), (0, 2)),
}
every_equation = pytest.mark.parametrize(
    ("equation", "output_shape", "input_shape", "output_axes"),
    EQUATIONS.values(),
    ids=EQUATIONS,
)


def bias_axes(equation):
    outputs = equation.split("->")[1]
    return outputs.replace("...", "")[-1]


@every_equation
def test_options(equation, output_shape, input_shape, output_axes):
    for bias in (None, bias_axes(equation)):
        arguments = {
            "equation": equation,
            "output_shape": output_shape,
            "bias_axes": bias,
            "activation": "tanh",
        }
        check_equals_keras(WeightNormEinsumDense, arguments, input_shape, output_axes)


@pytest.mark.parametrize("bias", ["d", "de", "e"])
def test_biases_of_several_axes(bias):
    # If there were as many positions as heads, Keras 3.15 would wrongly add the heads'
    # bias to the positions.
    arguments = {
        "equation": "abc,cde->abde",
        "output_shape": (None, 2, 3),
        "bias_axes": bias,
    }
    check_equals_keras(WeightNormEinsumDense, arguments, (4, 6, 5), (1, 2))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", ["dense", "heads", "from_heads", "dots_before", "outputs_in_another_order"]
)
def test_layer(name):
    equation, output_shape, input_shape, output_axes = EQUATIONS[name]
    arguments = {
        "equation": equation,
        "output_shape": output_shape,
        "bias_axes": bias_axes(equation),
    }
    check_layer(WeightNormEinsumDense, arguments, input_shape, output_axes)


@every_equation
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(equation, output_shape, input_shape, output_axes, dtype):
    """Compared with NumPy: on some CPUs stock `EinsumDense` is itself wrong here."""
    random = np.random.default_rng(0)
    layer = WeightNormEinsumDense(equation, output_shape, dtype=f"mixed_{dtype}")
    layer.build(input_shape)
    for num_rows in (1, 4, 9):
        x = random.normal(size=(num_rows, *input_shape[1:])).astype("float32")
        with tf.GradientTape() as tape:
            outputs = layer(x)
            loss = tf.reduce_sum(tf.cast(outputs, "float32"))
        by_scale = tape.gradient(loss, layer.scale.value)
        expected = np.einsum(equation, x, layer.kernel.numpy())
        assert outputs.dtype == dtype and outputs.shape == expected.shape
        tolerance = (1e-2 if dtype == "float16" else 5e-2) * np.abs(expected).max()
        np.testing.assert_allclose(
            tf.cast(outputs, "float32"), expected, rtol=0, atol=tolerance
        )
        # The loss is linear in the scales.
        total = np.sum(by_scale * layer.scale)
        rounding = tolerance * np.sqrt(expected.size)
        np.testing.assert_allclose(total, np.sum(expected), rtol=0, atol=rounding)
