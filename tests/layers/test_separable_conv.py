import pytest

from bhn_tf.layers import WeightNormSeparableConv1D, WeightNormSeparableConv2D
from tests.layers.layer_check import (
    check_config,
    check_dtype_policies,
    check_equals_its_twin,
    check_random,
)

SHAPES = {WeightNormSeparableConv1D: (4, 7, 2), WeightNormSeparableConv2D: (4, 6, 7, 2)}
OPTIONS = {
    "plain": {},
    "multiplier": {"depth_multiplier": 3, "activation": "tanh"},
    "strides": {"strides": 2, "padding": "same", "use_bias": False},
    "dilation": {"dilation_rate": 2},
    "regularizers": {
        "depthwise_regularizer": "l2",
        "pointwise_regularizer": "l1",
        "bias_regularizer": "l2",
        "activity_regularizer": "l2",
    },
}
every_layer = pytest.mark.parametrize("layer_class", SHAPES)


@every_layer
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_fresh_layer_equals_keras(layer_class, options):
    arguments = {"filters": 3, "kernel_size": 2, **options}
    check_equals_its_twin(layer_class, arguments, SHAPES[layer_class])


@pytest.mark.few(1)
@every_layer
def test_layer(layer_class):
    arguments = {"filters": 3, "kernel_size": 2, "depth_multiplier": 2}
    for check in (check_random, check_config, check_dtype_policies):
        check(layer_class, arguments, SHAPES[layer_class])


def test_a_scale_for_each_output_of_both_kernels():
    layer = WeightNormSeparableConv2D(5, 3, depth_multiplier=2)
    layer.build((None, 6, 6, 3))
    assert [v.shape for v in layer.generated_weights] == [(3, 2), (5,)]
    assert layer.num_random == 11 and layer.supports_scales_per_row
