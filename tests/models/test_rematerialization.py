"""Layers that run again for their gradient give the same one of g, or are refused."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import WeightNormDense
from tests import networks

#: Which parts are made in the scope, its arguments, and whether that works.
CASES = {
    "ordinary layers": ({"ordinary"}, {}, True),
    "layers with scales": ({"random"}, {}, False),
    "a model around them": ({"inner"}, {}, False),
    "the network": ({"network"}, {}, False),
    "large outputs": (
        {"random"},
        {"mode": "larger_than", "output_size_threshold": 1},
        False,
    ),
    "activations": ({"random", "inner", "network"}, {"mode": "activations"}, True),
    "named layers": (
        {"random"},
        {"mode": "list_of_layers", "layer_names": ["first"]},
        False,
    ),
    "other named layers": (
        {"ordinary", "random"},
        {"mode": "list_of_layers", "layer_names": ["ordinary"]},
        True,
    ),
    "switched off": ({"random", "inner", "network"}, {"mode": None}, True),
}


def model_made_in(parts, arguments):
    def scope_of(part):
        is_inside = part in parts
        return keras.RematScope(**arguments) if is_inside else contextlib.nullcontext()

    keras.utils.set_random_seed(0)
    with scope_of("random"):
        first = WeightNormDense(5, activation="tanh", name="first")
        last = WeightNormDense(networks.NUM_CLASSES)
    with scope_of("ordinary"):
        ordinary = keras.layers.Dense(5, activation="tanh", name="ordinary")
    with scope_of("inner"):
        inner = keras.Sequential([keras.Input((networks.NUM_FEATURES,)), first])
    with scope_of("network"):
        outer = [keras.Input((networks.NUM_FEATURES,)), inner, ordinary, last]
        network = keras.Sequential(outer)
    return networks.bayesian(network, "mean_field")


@pytest.mark.few(8)
@pytest.mark.parametrize("case", CASES)
def test_the_gradient_of_what_is_generated(case):
    parts, arguments, works = CASES[case]
    if not works:
        with pytest.raises(ValueError, match=r"RematScope.*no gradient"):
            model_made_in(parts, arguments)
        return
    x, _ = networks.data(6)
    gradients = []
    for made_in in (parts, set()):
        model = model_made_in(made_in, arguments)
        scales = tf.Variable(np.ones(model.num_random, "float32"))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, scales=scales) ** 2)
        gradients.append(tape.gradient(loss, scales).numpy())
    found, expected = gradients
    assert expected.all()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
