import pytest

from bhn_tf.layers import (
    WeightNormConv1DTranspose,
    WeightNormConv2DTranspose,
    WeightNormConv3DTranspose,
)
from tests.layers.layer_check import (
    call_by_xla,
    check_equals_keras,
    check_gradient_of_points,
    check_layer,
)

LAYERS = {
    "1d": (WeightNormConv1DTranspose, (3, 5, 2)),
    "2d": (WeightNormConv2DTranspose, (3, 4, 5, 2)),
    "3d": (WeightNormConv3DTranspose, (2, 3, 2, 3, 2)),
}
OPTIONS = {
    "same": {"padding": "same"},
    "strides": {"strides": 2},
    "output_padding": {"strides": 2, "output_padding": 1, "padding": "same"},
    "one_filter": {"filters": 1, "kernel_size": 1},
    "strided_points": {"kernel_size": 1, "strides": 3},
    "strided_points_same": {"kernel_size": 1, "strides": 2, "padding": "same"},
    "strided_points_output_padding": {
        "kernel_size": 1,
        "strides": 3,
        "output_padding": 1,
    },
    "strided_points_most_output_padding": {
        "kernel_size": 1,
        "strides": 2,
        "output_padding": 1,
        "padding": "same",
    },
}
# The kernel is [..., outputs, inputs].
OUTPUT_AXES = (-2,)
every_layer = pytest.mark.parametrize(
    ("layer_class", "input_shape"), LAYERS.values(), ids=LAYERS
)


@pytest.mark.few(1)
@every_layer
@pytest.mark.parametrize("options", [{}, {"use_bias": False, "activation": "relu"}])
def test_layer(layer_class, input_shape, options):
    arguments = {"filters": 3, "kernel_size": 2, **options}
    check_layer(layer_class, arguments, input_shape, OUTPUT_AXES)


@pytest.mark.few(8)
@every_layer
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(layer_class, input_shape, options):
    arguments = {"filters": 3, "kernel_size": 2, **options}
    check_equals_keras(layer_class, arguments, input_shape, OUTPUT_AXES)


@every_layer
def test_dilation(layer_class, input_shape):
    arguments = {"filters": 3, "kernel_size": 2, "dilation_rate": 2}
    check_equals_keras(
        layer_class, arguments, input_shape, OUTPUT_AXES, call=call_by_xla
    )


@every_layer
def test_gradients_of_strided_points(layer_class, input_shape):
    """With few channels, stock Keras writes beyond its memory in this gradient."""
    check_gradient_of_points(layer_class, input_shape)
