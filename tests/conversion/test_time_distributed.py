"""`TimeDistributed` is entered like a nested model: what it repeats becomes random."""

import keras
import numpy as np
import pytest
from keras import layers

import bhn_tf
from bhn_tf.layers import WeightNormDense
from tests.conversion import keras_networks


def video():
    """Layers, a nested model and a wrapper of recurrent layers, repeated."""
    frame = keras.Sequential(
        [layers.Input((4, 4, 2)), layers.Conv2D(3, 3, name="conv"), layers.Flatten()],
        name="frame",
    )
    inputs = keras.Input((3, 6, 6, 2))
    x = layers.TimeDistributed(layers.Conv2D(2, 3, name="first"), name="each")(inputs)
    x = layers.TimeDistributed(frame, name="frames")(x)
    x = layers.TimeDistributed(layers.Dense(4, "tanh", name="dense"), name="words")(x)
    x = layers.LSTM(3, name="lstm")(x)
    outputs = layers.Dense(keras_networks.NUM_CLASSES, name="logits")(x)
    return keras_networks.randomized(keras.Model(inputs, outputs))


def convert(network, **kwargs):
    return bhn_tf.from_keras(network, "mean_field", **kwargs)


def random_paths(model):
    return [row.path for row in model.conversion_report if row.num_random]


@pytest.mark.slow
def test_what_it_repeats_is_converted_trained_saved_and_drawn(tmp_path):
    network = video()
    model = convert(network)
    assert random_paths(model) == [
        "each/first",
        "frames/frame/conv",
        "words/dense",
        "lstm",
        "logits",
    ]
    x = np.random.default_rng(0).normal(size=(5, 3, 6, 6, 2)).astype("float32")
    center = model.hypernet.center()
    np.testing.assert_allclose(
        model(x, scales=center), network(x), rtol=1e-4, atol=1e-5
    )
    g = model.sample_scales(5, seed=1)
    rows = [model(x[i : i + 1], scales=g[i])[0] for i in range(5)]
    np.testing.assert_allclose(model(x, scales=g), rows, rtol=1e-4, atol=1e-5)
    model.compile("adam", per_example_noise=True, jit_compile=False)
    logs = model.fit(x, np.arange(5) % 3, verbose=0).history
    assert np.isfinite(logs["loss"]).all()
    samples = model.predict_samples(x, num_samples=3, seed=1, verbose=0)
    drawn = model.draw(scales=model.sample_scales(3, seed=1)[0])
    np.testing.assert_allclose(
        keras.ops.softmax(drawn(x)), samples[:, 0], rtol=1e-4, atol=1e-5
    )
    assert not any(type(each) is WeightNormDense for each in drawn._flatten_layers())
    keras_networks.assert_saved_and_served_answer_the_same(model, x, tmp_path, 1e-4)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("frames", ["frames/frame/conv"]),
        ("dense", ["words/dense"]),
        (layers.Conv2D, ["each/first", "frames/frame/conv"]),
    ],
    ids=str,
)
def test_arguments_reach_inside(chosen, expected):
    network = video()
    assert random_paths(convert(network, only=chosen)) == expected
    assert set(random_paths(convert(network, skip=chosen))).isdisjoint(expected)
    model = convert(network, freeze=chosen)
    # What is generated is trained by the hypernet, and directions and biases here.
    trained = {each.path.split("/")[-2] for each in model.primary.trainable_variables}
    named = {path.split("/")[-1] for path in expected}
    assert trained == {"first", "conv", "dense", "lstm_cell", "logits"} - named


def normalized(norm, data_format="channels_last", outside=False):
    shape = (3, 2, 5, 5) if data_format == "channels_first" else (3, 5, 5, 2)
    conv = layers.Conv2D(4, 1, use_bias=False, data_format=data_format, name="conv")
    return keras.Sequential(
        [
            layers.Input(shape),
            layers.TimeDistributed(conv, name="each"),
            layers.TimeDistributed(layers.ReLU()),
            norm if outside else layers.TimeDistributed(norm, name="norms"),
            layers.Flatten(),
            layers.Dense(keras_networks.NUM_CLASSES, name="logits"),
        ]
    )


@pytest.mark.parametrize(
    ("norm", "data_format", "outside", "expected"),
    [
        (layers.BatchNormalization, "channels_last", False, "norms/norm"),
        (layers.BatchNormalization, "channels_last", True, "norm"),
        (lambda **kw: layers.BatchNormalization(axis=2, **kw), "channels_first", True,
         "norm"),
        (lambda **kw: layers.BatchNormalization(axis=1, **kw), "channels_first", False,
         "norms/norm"),
        (lambda **kw: layers.GroupNormalization(4, **kw), "channels_last", False,
         "norms/norm"),
    ],
)  # fmt: skip
def test_a_normalisation_behind_it_or_inside_cancels(
    norm, data_format, outside, expected
):
    network = normalized(norm(name="norm"), data_format, outside)
    assert random_paths(convert(network)) == [expected, "logits"]


def test_a_normalisation_of_steps_cancels_nothing():
    network = normalized(layers.BatchNormalization(axis=1, name="norm"), outside=True)
    assert random_paths(convert(network)) == ["each/conv", "logits"]


def test_dropout_inside_is_drawn():
    network = keras.Sequential(
        [
            layers.Input((5, 4)),
            layers.TimeDistributed(layers.Dropout(0.5)),
            layers.Flatten(),
        ]
    )
    model = bhn_tf.baselines.MCDropout(network, "gaussian")
    x = np.ones((1, 5, 4), "float32")
    samples = model.predict_samples(x, num_samples=5, verbose=0)
    assert len(np.unique(samples[0], axis=0)) > 1
