import pytest

from bhn_tf.layers import WeightNormConv1D, WeightNormConv2D, WeightNormConv3D
from tests.layers.layer_check import (
    call_by_xla,
    check_equals_keras,
    check_gradient_of_points,
    check_layer,
)

LAYERS = {
    "1d": (WeightNormConv1D, (3, 7, 2)),
    "2d": (WeightNormConv2D, (3, 6, 7, 2)),
    "3d": (WeightNormConv3D, (2, 5, 6, 5, 2)),
}
OPTIONS = {
    "same": {"padding": "same"},
    "strides": {"strides": 2},
    "same_strides": {"padding": "same", "strides": 2},
    "dilation": {"dilation_rate": 2},
    "groups": {"groups": 2},
    "one_filter": {"filters": 1, "kernel_size": 1},
    "strided_points": {"kernel_size": 1, "strides": 2},
    "strided_points_groups": {"kernel_size": 1, "strides": 2, "groups": 2},
    "regularizers": {"kernel_regularizer": "l2", "activity_regularizer": "l1"},
}
CAUSAL = {
    "plain": {},
    "strides": {"strides": 2},
    "dilation": {"dilation_rate": 2},
    "groups": {"groups": 2},
    "strided_points": {"kernel_size": 1, "strides": 2},
}
every_layer = pytest.mark.parametrize(
    ("layer_class", "input_shape"), LAYERS.values(), ids=LAYERS
)


def channels_first(shape):
    return (shape[0], shape[-1], *shape[1:-1])


@pytest.mark.few(1)
@every_layer
@pytest.mark.parametrize("options", [{}, {"use_bias": False, "activation": "relu"}])
def test_layer(layer_class, input_shape, options):
    check_layer(layer_class, {"filters": 4, "kernel_size": 2, **options}, input_shape)


@pytest.mark.few(9)
@every_layer
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(layer_class, input_shape, options):
    arguments = {"filters": 4, "kernel_size": 2, **options}
    check_equals_keras(layer_class, arguments, input_shape)


@every_layer
def test_strides_beyond_the_kernel_with_padding(layer_class, input_shape):
    arguments = {"filters": 4, "kernel_size": 1, "strides": 3, "padding": "same"}
    check_equals_keras(layer_class, arguments, input_shape, call=call_by_xla)


@every_layer
def test_channels_first(layer_class, input_shape):
    # If there were as many filters as the last axis is long, Keras 3.15 would wrongly
    # add the bias along that axis.
    shape = (*channels_first(input_shape)[:-1], 10)
    for options in ({"kernel_size": 2}, {"kernel_size": 1, "strides": 2}):
        arguments = {"filters": 4, "data_format": "channels_first", **options}
        check_equals_keras(layer_class, arguments, shape, call=call_by_xla)


@pytest.mark.parametrize("options", CAUSAL.values(), ids=CAUSAL)
def test_causal_padding(options):
    arguments = {"filters": 4, "kernel_size": 3, "padding": "causal", **options}
    check_equals_keras(WeightNormConv1D, arguments, (3, 7, 2))


def test_causal_padding_with_channels_first():
    arguments = {"filters": 4, "kernel_size": 3, "padding": "causal"}
    arguments["data_format"] = "channels_first"
    check_equals_keras(WeightNormConv1D, arguments, (3, 2, 7), call=call_by_xla)


def test_scales_of_a_causal_convolution():
    arguments = {"filters": 4, "kernel_size": 3, "padding": "causal"}
    check_layer(WeightNormConv1D, arguments, (3, 7, 2))


@every_layer
def test_gradients_of_strided_points(layer_class, input_shape):
    """With few channels, stock Keras writes beyond its memory in this gradient."""
    check_gradient_of_points(layer_class, input_shape, padding="same")
