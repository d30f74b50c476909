import keras
import pytest

from bhn_tf.layers import WeightNormDense
from tests.layers.layer_check import check_equals_keras, check_layer

OPTIONS = {
    "one_output": {"units": 1},
    "activation_object": {"activation": keras.activations.relu},
    "regularizers": {
        "kernel_regularizer": keras.regularizers.L2(0.1),
        "bias_regularizer": "l1",
        "activity_regularizer": keras.regularizers.L1(0.2),
    },
    "constraints": {"kernel_constraint": "max_norm", "bias_constraint": "non_neg"},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{}, {"use_bias": False, "activation": "relu"}])
@pytest.mark.parametrize("input_shape", [(4, 5), (3, 2, 2, 5)])
def test_layer(input_shape, options):
    check_layer(WeightNormDense, {"units": 3, **options}, input_shape)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(options):
    check_equals_keras(WeightNormDense, {"units": 3, **options}, (4, 5))


@pytest.mark.slow
def test_a_single_input():
    check_layer(WeightNormDense, {"units": 3}, (4, 1))


@pytest.mark.parametrize("input_shape", [(1, 5), (4, 2, 5)])
def test_shapes_of_inputs(input_shape):
    check_equals_keras(WeightNormDense, {"units": 3}, input_shape)
