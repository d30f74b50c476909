"""Recurrent layers of a trained network become random, also in `Bidirectional`."""

import keras
import numpy as np
import pytest
from keras import layers

import bhn_tf
from bhn_tf.conversion.selection import paths_of_layers
from tests.conversion import keras_networks

FORWARD, BACKWARD = "lstm/forward_lstm", "lstm/backward_lstm"
OTHERS = {"embedding", "distributed/step", "layer_normalization", "logits"}
TOKENS = np.array([[3, 4, 1, 0, 0, 0, 0], [0, 0, 5, 6, 7, 8, 9], [0] * 7], "int32")


@pytest.fixture(scope="module")
def network():
    return keras_networks.make("sequence")


def convert(network, **kwargs):
    return bhn_tf.from_keras(network, "mean_field", **kwargs)


def random_paths(model):
    return {row.path for row in model.conversion_report if row.num_random}


def test_report_has_a_row_for_each_direction(network):
    report = convert(network).conversion_report
    for path in (FORWARD, BACKWARD):
        # Four gates of three units, two kernels.
        assert report[path].num_random == 24 and report[path].layer == "LSTM"
        assert report[path].generated == ("scale", "recurrent_scale")
    report = convert(network, random="rank_one").conversion_report
    assert report[FORWARD].num_random == 24 + 4 + 3


@pytest.mark.slow
def test_padding_is_still_padding(network):
    model = convert(network)
    for centre, expected in (
        (model(TOKENS, scales=model.hypernet.center()), network(TOKENS)),
        (model.predict(TOKENS, num_samples=0, verbose=0), None),
    ):
        expected = network.predict(TOKENS, verbose=0) if expected is None else expected
        if centre.shape == expected.shape and isinstance(centre, np.ndarray):
            expected = keras.ops.softmax(expected)
        np.testing.assert_allclose(centre, expected, atol=1e-6)


@pytest.mark.parametrize(
    ["chosen", "expected"],
    [
        ("lstm", {FORWARD, BACKWARD}),
        ("forward_lstm", {FORWARD}),
        (layers.LSTM, {FORWARD, BACKWARD}),
        (lambda layer: getattr(layer, "go_backwards", False), {BACKWARD}),
    ],
)
def test_only_skip_and_freeze(network, chosen, expected):
    assert random_paths(convert(network, only=chosen)) == expected
    everything = {FORWARD, BACKWARD, *OTHERS}
    assert random_paths(convert(network, skip=chosen)) == everything - expected
    model = convert(network, freeze=chosen)
    frozen = {
        path
        for layer, (path,) in paths_of_layers(model.primary).items()
        if not layer.trainable
    }
    assert frozen == expected
    assert random_paths(model) == everything


def test_the_wrapper_itself_can_be_named(network):
    wrapper = network.get_layer("lstm")
    assert random_paths(convert(network, only=wrapper)) == {FORWARD, BACKWARD}
    one = wrapper.forward_layer
    assert random_paths(convert(network, only=[one])) == {FORWARD}


def test_what_keras_leaves_out_of_a_configuration_is_kept():
    stack = [
        layers.LSTM(3, implementation=1, return_sequences=True, name="random"),
        layers.GRU(3, use_cudnn=False, name="plain"),
    ]
    network = keras.Sequential([keras.Input((5, 2)), *stack, layers.Dense(3)])
    model = convert(network, skip="plain")
    assert model.primary.get_layer("random").cell.implementation == 1
    assert type(model.primary.get_layer("plain")) is layers.GRU
    assert model.primary.get_layer("plain").use_cudnn is False


def test_no_normalisation_cancels_scales_within_a_recurrence():
    network = keras.Sequential(
        [
            keras.Input((5, 2)),
            layers.SimpleRNN(3, activation=None, use_bias=False, name="simple"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(3, name="logits"),
        ]
    )
    assert random_paths(convert(network)) == {"simple", "logits"}


def test_a_converted_network_is_converted_again(network):
    once = convert(network, random="scale_and_bias").primary
    again = convert(once, skip="lstm")
    np.testing.assert_allclose(again.primary(TOKENS), network(TOKENS), atol=1e-6)
    assert random_paths(again) == OTHERS


def test_states_of_a_stateful_layer_move_as_those_of_the_original():
    network = keras.Sequential(
        [
            keras.Input((5, 2), batch_size=4),
            layers.LSTM(3, stateful=True, name="lstm"),
            layers.Dense(3),
        ]
    )
    model = convert(network)
    x = np.random.default_rng(0).normal(size=(4, 5, 2)).astype("float32")
    for _ in range(3):
        expected = keras.ops.softmax(network.predict(x, verbose=0))
        found = model.predict(x, num_samples=0, verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_draw_is_an_ordinary_network(network):
    model = convert(network)
    scales = model.sample_scales(1, seed=1)[0]
    drawn = model.draw(scales=scales)
    np.testing.assert_allclose(drawn(TOKENS), model(TOKENS, scales=scales), atol=1e-6)
