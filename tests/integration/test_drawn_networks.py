"""One draw of a converted network is a network of Keras's own layers."""

import keras
import numpy as np
import pytest
from keras import layers

import bhn_tf
from tests.conversion import keras_networks

LOADER = """
import sys
import keras
import numpy as np

folder = sys.argv[1]
for index in range(int(sys.argv[2])):
    x = dict(np.load(f"{folder}/x-{index}.npz"))
    x = x["x"] if set(x) == {"x"} else x
    network = keras.saving.load_model(f"{folder}/drawn-{index}.keras")
    np.save(f"{folder}/found-{index}.npy", network(x))
assert not [name for name in sys.modules if name.startswith("bhn_tf")]
"""


def every_kind_of_layer():
    """Kernels with groups, transposed, with two summed axes, of states and of heads."""
    inputs = keras.Input((6, 6, 4))
    x = layers.Conv2D(6, 3, groups=2, padding="same")(inputs)
    x = layers.Conv2DTranspose(4, 2)(x)
    x = layers.DepthwiseConv2D(2, depth_multiplier=2)(x)
    x = layers.SeparableConv2D(6, 2, depth_multiplier=2)(x)
    x = layers.EinsumDense("abcd,dce->abe", (5, 4), bias_axes="e")(x)
    x = layers.MultiHeadAttention(2, 3)(x, x)
    x = layers.GroupQueryAttention(3, 4, 2)(x, x)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    x = layers.GRU(3, return_sequences=True)(x)
    x = layers.SimpleRNN(4, return_sequences=True)(x)
    x = layers.RMSNormalization()(layers.LayerNormalization()(x))
    x = layers.ConvLSTM1D(2, 2)(layers.Reshape((5, 4, 1))(x))
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x)))


def drawn_and_expected(network, random):
    model = bhn_tf.from_keras(network, "mean_field", random)
    x = keras_networks.inputs_of(network)
    g = model.sample_scales(1, seed=1)[0]
    return model, x, model.draw(scales=g), np.asarray(model(x, scales=g))


@pytest.mark.slow
@pytest.mark.parametrize(
    "random", ["scale", "scale_and_bias", "rank_one", "kernel_and_bias"]
)
def test_a_draw_has_its_scales_in_kernels(random):
    network = every_kind_of_layer()
    model, x, drawn, expected = drawn_and_expected(network, random)
    np.testing.assert_allclose(drawn(x), expected, rtol=1e-5, atol=1e-5)
    assert np.abs(network(x) - expected).max() > 1e-3
    assert [type(layer) for layer in drawn.layers] == [
        type(layer) for layer in network.layers
    ]
    assert len(drawn.trainable_weights) == len(network.trainable_weights)
    assert model.num_random


@pytest.fixture(scope="module")
def names():
    # One has a class of the tests, the other a layer that Keras cannot load.
    skipped = {"kept_layers", "nested_and_shared"}
    return [name for name in keras_networks.NETWORKS if name not in skipped]


def test_draws_are_used_without_this_library(names, run_python, tmp_path):
    expected = []
    for index, name in enumerate(names):
        network = keras_networks.make(name)
        _, x, drawn, answers = drawn_and_expected(network, "scale")
        expected.append(answers)
        np.testing.assert_allclose(drawn(x), answers, rtol=1e-5, atol=1e-5)
        arrays = x if isinstance(x, dict) else {"x": x}
        if isinstance(x, list):
            inputs = [tensor.name for tensor in drawn.inputs]
            arrays = dict(zip(inputs, x, strict=True))
        np.savez(tmp_path / f"x-{index}.npz", **arrays)
        drawn.save(tmp_path / f"drawn-{index}.keras")
    (tmp_path / "load.py").write_text(LOADER)
    run_python(tmp_path / "load.py", tmp_path, len(names))()
    for index, answers in enumerate(expected):
        found = np.load(tmp_path / f"found-{index}.npy")
        np.testing.assert_allclose(found, answers, rtol=1e-5, atol=1e-5)


@keras.saving.register_keras_serializable("drawn")
class Block(layers.Layer):
    """A layer of one's own, with a projection and a network inside."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.project = layers.Dense(4)
        self.inner = keras.Sequential([layers.Dense(4), self.norm()])

    def norm(self):
        return layers.LayerNormalization()

    def build(self, input_shape):
        self.project.build(input_shape)
        self.inner.build((None, 4))

    def call(self, inputs):
        return self.inner(self.project(inputs))


@keras.saving.register_keras_serializable("drawn")
class BlockWithoutGamma(Block):
    def norm(self):
        return layers.BatchNormalization(scale=False)


@pytest.mark.parametrize("kind, is_folded", [(Block, True), (BlockWithoutGamma, False)])
def test_layers_of_ones_own(kind, is_folded):
    """If a user's own layer has no place for a γ, its twin stays."""
    network = keras.Sequential([keras.Input((4,)), kind(name="block"), layers.Dense(3)])
    model, x, drawn, expected = drawn_and_expected(network, "scale")
    assert model.conversion_report["block"].num_random
    np.testing.assert_allclose(drawn(x), expected, rtol=1e-5, atol=1e-5)
    assert (type(drawn.layers[0]) is kind) == is_folded


def test_networks_written_with_these_layers_keep_them():
    primary = keras.Sequential([keras.Input((4,)), bhn_tf.layers.WeightNormDense(3)])
    drawn = bhn_tf.BayesianHypernet(primary).draw(seed=1)
    assert isinstance(drawn.layers[0], bhn_tf.layers.WeightNormDense)
