"""One draw gives equal results in every way that the library computes with it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import layers
from bhn_tf.layers import WeightNormDense
from tests import networks

NUM_ROWS = 6
PRIMARIES = list(networks.PRIMARIES)


@pytest.fixture(scope="module", params=PRIMARIES)
def model(request):
    return networks.bayesian(networks.PRIMARIES[request.param](), seed=1)


def written_out(model, scales):
    """The primary as a plain Keras network that holds g · v / ‖v‖ as its kernels."""
    start = 0

    def kernel_of(layer):
        nonlocal start
        v = keras.ops.convert_to_numpy(layer.kernel)
        g = scales[start : start + layer.units]
        start += layer.units
        return [g * v / np.linalg.norm(v, axis=0), layer.bias.numpy()]

    hidden = keras.layers.Dense(5, activation="relu")
    logits = keras.layers.Dense(networks.NUM_CLASSES)
    before = [
        keras.layers.Dense(5, use_bias=False)
        for layer in model.primary._flatten_layers()
        if type(layer) is keras.layers.Dense
    ]
    network = keras.Sequential(
        [keras.Input((networks.NUM_FEATURES,)), *before]
        # The layer that is used twice stands behind the plain one.
        + [hidden] * (2 if before else 1)
        + [logits]
    )
    # The values come in the order in which the network has its layers.
    random = random_layers(model.primary)
    hidden.set_weights(kernel_of(random[hidden.units]))
    logits.set_weights(kernel_of(random[logits.units]))
    for layer in before:
        (plain,) = [
            own
            for own in model.primary._flatten_layers()
            if type(own) is keras.layers.Dense
        ]
        layer.set_weights(plain.get_weights())
    return network


def random_layers(network):
    """The layers that have a share of D, by their number of units."""
    return {
        layer.units: layer
        for layer in network._flatten_layers()
        if isinstance(layer, WeightNormDense)
    }


def test_values_are_counted_once(model):
    assert model.num_random == 8
    layers = random_layers(model.primary)
    assert {units: layer.num_random for units, layer in layers.items()} == {5: 5, 3: 3}
    trained = {variable.path for variable in model.trainable_variables}
    for layer in layers.values():
        assert layer.kernel.path in trained and layer.scale.path not in trained


@pytest.mark.few(2)
def test_one_draw_by_every_way(model):
    x, _ = networks.data(NUM_ROWS)
    scales = model.sample_scales(1, seed=7)[0]
    expected = model(x, scales=scales)
    answers = {
        "repeated for each row": model(x, scales=np.tile(scales, (NUM_ROWS, 1))),
        "drawn": model.draw(seed=7)(x),
        "given": model.draw(scales=scales)(x),
        "written out": written_out(model, scales)(x),
        "in a graph": tf.function(model)(x, scales=tf.constant(scales)),
        "under XLA": tf.function(model, jit_compile=True)(x, scales=scales),
    }
    for name, answer in answers.items():
        np.testing.assert_allclose(answer, expected, atol=1e-5, err_msg=name)
    assert np.abs(expected - model(x, scales=scales + 1)).max() > 0.1


@pytest.mark.few(2)
def test_centre_by_every_way(model):
    x, _ = networks.data(NUM_ROWS)
    centre = keras.ops.convert_to_numpy(model.hypernet.center())
    expected = written_out(model, centre)(x)
    np.testing.assert_allclose(model(x, scales=centre), expected, atol=1e-5)
    np.testing.assert_allclose(model.draw(scales=centre)(x), expected, atol=1e-5)
    np.testing.assert_allclose(
        model.predict(x, num_samples=0, verbose=0), tf.nn.softmax(expected), atol=1e-5
    )
    # A fresh model is the network it was made of.
    np.testing.assert_allclose(model.primary(x), expected, atol=1e-5)


def test_a_draw_for_each_row(model):
    x, _ = networks.data(NUM_ROWS)
    scales = model.sample_scales(NUM_ROWS, seed=3)
    expected = [model(x[i : i + 1], scales=scales[i])[0] for i in range(NUM_ROWS)]
    np.testing.assert_allclose(model(x, scales=scales), expected, atol=1e-5)


def test_a_drawn_network_shares_nothing(model):
    x, _ = networks.data(NUM_ROWS)
    network = model.draw(seed=1)
    assert isinstance(network, keras.Model) and network is not model.primary
    before = network(x)
    np.testing.assert_array_equal(before, network(x))
    for variable in model.weights:
        variable.assign(tf.zeros_like(variable))
    np.testing.assert_array_equal(network(x), before)


@pytest.mark.parametrize("random", ["scale_and_bias", "kernel", "kernel_and_bias"])
def test_other_generated_values(random):
    x, _ = networks.data(NUM_ROWS)
    model = networks.bayesian(networks.nested(random=random), "mean_field")
    sizes = {"scale_and_bias": 16, "kernel": 35, "kernel_and_bias": 43}
    assert model.num_random == sizes[random]
    scales = model.sample_scales(1, seed=7)[0]
    np.testing.assert_allclose(
        model(x, scales=scales), model.draw(seed=7)(x), atol=1e-5
    )
    centre = model.hypernet.center()
    np.testing.assert_allclose(model(x, scales=centre), model.primary(x), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("random", [*layers.WeightNormLSTM.GENERATED][1:])
def test_draws_of_layers_with_cells(random):
    """Values of a cell are generated for the layer around it."""
    sequences = keras.Input((4, 3))
    recurrent = layers.WeightNormLSTM(2, return_sequences=True, random=random)
    hidden = keras.layers.Bidirectional(recurrent)(sequences)
    for kind in (layers.WeightNormGRU, layers.WeightNormSimpleRNN):
        hidden = kind(4, return_sequences=True, random=random)(hidden)
    for rank in (1, 2, 3):
        kind = getattr(layers, f"WeightNormConvLSTM{rank}D")
        image = keras.layers.Reshape((4, *[1] * (rank - 1), -1, 1))(hidden)
        hidden = keras.layers.Reshape((4, -1))(
            kind(2, 1, return_sequences=True, random=random)(image)
        )
    outputs = keras.layers.Dense(3)(keras.layers.Flatten()(hidden))
    model = networks.bayesian(keras.Model(sequences, outputs), "mean_field")
    x = np.random.default_rng(0).normal(size=(NUM_ROWS, 4, 3)).astype("float32")
    scales = 3.0 * model.sample_scales(2, seed=7)
    for one in scales:
        expected = model(x, scales=one)
        np.testing.assert_allclose(model.draw(scales=one)(x), expected, atol=1e-5)
        assert np.abs(expected - model.primary(x)).max() > 1e-3


def test_deterministic_layers_have_no_share():
    model = networks.bayesian(networks.sequential(random="none"))
    assert model.num_random == 0
    x, _ = networks.data(NUM_ROWS)
    np.testing.assert_array_equal(model(x), model.primary(x))
