import pytest

from bhn_tf.layers import WeightNormDepthwiseConv1D, WeightNormDepthwiseConv2D
from tests.layers.layer_check import check_equals_keras, check_layer

LAYERS = {
    "1d": (WeightNormDepthwiseConv1D, (3, 7, 2)),
    "2d": (WeightNormDepthwiseConv2D, (3, 6, 7, 2)),
}
OPTIONS = {
    "same": {"padding": "same"},
    "strides": {"strides": 2},
    "dilation": {"dilation_rate": 2},
    "no_multiplier": {"depth_multiplier": 1},
    "kernel_of_one": {"kernel_size": 1},
    "regularizers": {"depthwise_regularizer": "l2", "activity_regularizer": "l1"},
}
# The kernel is [..., inputs, multiplier], with an output for each pair.
OUTPUT_AXES = (-2, -1)
every_layer = pytest.mark.parametrize(
    ("layer_class", "input_shape"), LAYERS.values(), ids=LAYERS
)


@pytest.mark.few(1)
@every_layer
@pytest.mark.parametrize("options", [{}, {"use_bias": False, "activation": "relu"}])
def test_layer(layer_class, input_shape, options):
    arguments = {"kernel_size": 3, "depth_multiplier": 3, **options}
    check_layer(layer_class, arguments, input_shape, OUTPUT_AXES)


@every_layer
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(layer_class, input_shape, options):
    arguments = {"kernel_size": 3, "depth_multiplier": 3, **options}
    check_equals_keras(layer_class, arguments, input_shape, OUTPUT_AXES)
