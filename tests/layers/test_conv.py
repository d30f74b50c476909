import pytest

from bhn_tf.layers import WeightNormConv1D, WeightNormConv2D, WeightNormConv3D
from tests.layers.layer_check import check_layer

OPTIONS = {
    "plain": {},
    "without_bias": {"use_bias": False, "activation": "relu"},
    "same": {"padding": "same", "strides": 2},
    "dilated": {"dilation_rate": 2},
    "groups": {"groups": 2},
    "one_filter": {"filters": 1, "kernel_size": 1},
    "regularizers": {"kernel_regularizer": "l2", "activity_regularizer": "l1"},
}
LAYERS = {
    "1d": (WeightNormConv1D, (3, 7, 2)),
    "2d": (WeightNormConv2D, (3, 6, 7, 2)),
    "3d": (WeightNormConv3D, (2, 5, 6, 5, 2)),
}


def channels_first(shape):
    return (shape[0], shape[-1], *shape[1:-1])


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("layer_class", "input_shape"), LAYERS.values(), ids=LAYERS)
def test_convolutions(layer_class, input_shape, options):
    arguments = {"filters": 4, "kernel_size": 2, **options}
    check_layer(layer_class, arguments, input_shape)


@pytest.mark.parametrize(("layer_class", "input_shape"), LAYERS.values(), ids=LAYERS)
def test_channels_first(layer_class, input_shape):
    arguments = {"filters": 4, "kernel_size": 2, "data_format": "channels_first"}
    check_layer(layer_class, arguments, channels_first(input_shape))


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("dilation_rate", [1, 2])
def test_causal_padding(data_format, dilation_rate):
    arguments = {
        "filters": 4,
        "kernel_size": 3,
        "padding": "causal",
        "dilation_rate": dilation_rate,
        "data_format": data_format,
    }
    shape = (3, 7, 2)
    is_first = data_format == "channels_first"
    check_layer(WeightNormConv1D, arguments, channels_first(shape) if is_first else shape)
