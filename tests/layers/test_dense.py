import keras
import pytest

from bhn_tf.layers import WeightNormDense
from tests.layers.layer_check import check_layer

OPTIONS = {
    "plain": {},
    "without_bias": {"use_bias": False},
    "one_output": {"units": 1},
    "activation": {"activation": "tanh"},
    "activation_object": {"activation": keras.activations.relu},
    "regularizers": {
        "kernel_regularizer": keras.regularizers.L2(0.1),
        "bias_regularizer": "l1",
        "activity_regularizer": keras.regularizers.L1(0.2),
    },
    "constraints": {"kernel_constraint": "max_norm", "bias_constraint": "non_neg"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_dense(options):
    check_layer(WeightNormDense, {"units": 3, **options}, (4, 5))


@pytest.mark.parametrize("input_shape", [(4, 2, 5), (3, 2, 2, 5), (4, 1), (1, 5)])
def test_shapes_of_inputs(input_shape):
    check_layer(WeightNormDense, {"units": 3, "activation": "relu"}, input_shape)
