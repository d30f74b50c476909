"""Properties that hold for every conversion, whatever the graph and its layers."""

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import bhn_tf
from tests.conversion import keras_networks
from tests.conversion.random_graphs import graph

# A convolution drops the mask of an embedding, in Keras as here.
pytestmark = pytest.mark.filterwarnings("ignore:.*destroy the mask:UserWarning")

MODES = st.sampled_from(
    ["scale", "scale_and_bias", "rank_one", "kernel", "kernel_and_bias"]
)


def check(network, random):
    model = bhn_tf.from_keras(network, "mean_field", random)
    x = keras_networks.inputs_of(network)
    expected = np.asarray(network(x))
    size = np.abs(expected).max() + 1e-6
    assert model.num_random == model.conversion_report.num_random
    assert model.num_random == sum(row.num_random for row in model.conversion_report)

    again = type(model).from_config(model.get_config())
    assert again.num_random == model.num_random
    assert again.conversion_report == model.conversion_report
    again.set_weights(model.get_weights())
    for each in (model, again):
        found = each(x, scales=each.hypernet.center())
        assert np.abs(found - expected).max() <= 1e-5 * size

    g = model.sample_scales(1, seed=1)[0]
    answers = np.asarray(model(x, scales=g))
    drawn = model.draw(scales=g)
    assert np.abs(drawn(x) - answers).max() <= 1e-5 * (np.abs(answers).max() + 1)
    stock = [type(layer) for layer in network.layers]
    assert [type(layer) for layer in drawn.layers] == stock
    keras.backend.clear_session()


def properties(max_examples):
    # Keras takes most of an example's time; examples are the same in every run.
    return settings(
        max_examples=max_examples,
        deadline=None,
        derandomize=True,
        database=None,
        # Not shrunk: failing graphs are small, and shrinking takes many examples.
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


@properties(max_examples=2)
@given(st.data(), MODES)
def test_some_graphs(data, random):
    check(graph(data.draw), random)


@pytest.mark.slow
@properties(max_examples=200)
@given(st.data(), MODES)
def test_many_graphs(data, random):
    check(graph(data.draw), random)
