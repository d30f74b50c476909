"""Small graphs of all supported layers, drawn by hypothesis."""

import keras
from hypothesis import strategies as st
from keras import layers

from tests.conversion import keras_networks

ACTIVATIONS = st.sampled_from([None, "relu", "tanh"])
UNITS = st.integers(2, 4)
BIAS = st.booleans()


def _after_dense(draw, x):
    """Something for vectors [B, units]."""
    kind = draw(st.sampled_from(["dense", "batch", "layer", "rms", "dropout", "sum"]))
    if kind == "dense":
        return layers.Dense(draw(UNITS), draw(ACTIVATIONS), use_bias=draw(BIAS))(x)
    if kind == "batch":
        return layers.BatchNormalization(scale=draw(BIAS), center=draw(BIAS))(x)
    if kind == "layer":
        return layers.LayerNormalization(scale=draw(BIAS), center=draw(BIAS))(x)
    if kind == "rms":
        return layers.RMSNormalization()(x)
    if kind == "dropout":
        return layers.Dropout(0.3)(x)
    return layers.Add()([x, layers.Dense(x.shape[-1], draw(ACTIVATIONS))(x)])


def _after_image(draw, x):
    """Something for images [B, 4, 4, channels]."""
    kinds = [
        "conv",
        "transpose",
        "depthwise",
        "separable",
        "batch",
        "group",
        "branches",
    ]
    kind = draw(st.sampled_from(kinds))
    options = {"padding": "same", "use_bias": draw(BIAS)}
    if kind == "conv":
        size = draw(st.integers(1, 3))
        return layers.Conv2D(draw(UNITS), size, activation="relu", **options)(x)
    if kind == "transpose":
        return layers.Conv2DTranspose(draw(UNITS), 2, **options)(x)
    if kind == "depthwise":
        return layers.DepthwiseConv2D(2, depth_multiplier=1, **options)(x)
    if kind == "separable":
        return layers.SeparableConv2D(draw(UNITS), 2, **options)(x)
    if kind == "batch":
        return layers.ReLU()(layers.BatchNormalization(scale=draw(BIAS))(x))
    if kind == "group":
        groups = draw(st.sampled_from([1, x.shape[-1]]))
        return layers.GroupNormalization(groups, scale=draw(BIAS))(x)
    branches = [layers.Conv2D(draw(UNITS), 1)(x), layers.MaxPooling2D(1)(x)]
    return layers.Concatenate()(branches)


def _after_sequence(draw, x):
    """Something for sequences [B, 5, features]."""
    kinds = ["rnn", "bidirectional", "conv", "einsum", "heads", "groups", "norm"]
    kind = draw(st.sampled_from(kinds))
    if kind in ("rnn", "bidirectional"):
        recurrent = draw(st.sampled_from([layers.LSTM, layers.GRU, layers.SimpleRNN]))
        layer = recurrent(draw(UNITS), return_sequences=True, use_bias=draw(BIAS))
        return (layers.Bidirectional(layer) if kind == "bidirectional" else layer)(x)
    if kind == "conv":
        return layers.Conv1D(draw(UNITS), 2, padding="causal")(x)
    if kind == "einsum":
        return layers.EinsumDense("...x,xy->...y", draw(UNITS), bias_axes="y")(x)
    if kind == "heads":
        return layers.MultiHeadAttention(2, 2, use_bias=draw(BIAS))(x, x)
    if kind == "groups":
        return layers.GroupQueryAttention(2, 2, 1)(x, x)
    return layers.LayerNormalization()(x)


_INPUTS = {
    "vector": ((4,), _after_dense),
    "image": ((4, 4, 3), _after_image),
    "sequence": ((5, 3), _after_sequence),
    "words": ((5,), _after_sequence),
}


def graph(draw):
    """A network with random weights: a chain of up to three pieces, and a classifier.

    A piece may be a model of its own, which is used twice.

    Args:
        draw: That of `st.data()`: layers draw seeds, which a strategy may not.
    """
    kind = draw(st.sampled_from(sorted(_INPUTS)))
    shape, piece = _INPUTS[kind]
    is_words = kind == "words"
    inputs = keras.Input(shape, dtype="int32" if is_words else "float32")
    x = layers.Embedding(11, 3, mask_zero=draw(BIAS))(inputs) if is_words else inputs
    for _ in range(draw(st.integers(1, 3))):
        x = piece(draw, x)
    if kind == "image":
        x = layers.GlobalAveragePooling2D()(x)
    elif kind != "vector":
        x = layers.GlobalAveragePooling1D()(x)
    if draw(st.booleans()):
        size = x.shape[-1]
        inner = keras.Sequential([keras.Input((size,)), layers.Dense(size, "tanh")])
        x = layers.Add()([inner(inner(x)), x])
    outputs = layers.Dense(keras_networks.NUM_CLASSES)(x)
    network = keras.Model(inputs, outputs)
    return keras_networks.randomized(network, seed=draw(st.integers(0, 100)))
