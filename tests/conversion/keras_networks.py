"""Keras networks to convert, whose weights and statistics are not the initial ones."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

NUM_CLASSES = 3


def mlp():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="relu", name="hidden"),
            layers.Dropout(0.5),
            layers.Dense(NUM_CLASSES, name="logits"),
        ],
        name="mlp",
    )


def softmax_classifier():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, activation="tanh"),
            layers.Dense(NUM_CLASSES, activation="softmax"),
        ]
    )


def vgg():
    stack = [keras.Input((8, 8, 3))]
    for filters in (4, 6):
        stack += [
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
        ]
    stack += [layers.Flatten(), layers.Dense(8, "relu"), layers.Dense(NUM_CLASSES)]
    return keras.Sequential(stack)


def normalized_cnn():
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, name="conv"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(),
            layers.Conv2D(5, 3, activation="relu", name="conv_relu"),
            layers.BatchNormalization(name="norm_after_relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(NUM_CLASSES, name="logits"),
        ]
    )


def resnet():
    inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, padding="same", name="stem")(inputs)
    for index in (1, 2):
        shortcut = x
        for half in ("a", "b"):
            name = f"{index}{half}"
            x = layers.Conv2D(
                4, 3, padding="same", use_bias=False, name=f"conv_{name}"
            )(x)
            x = layers.BatchNormalization(name=f"norm_{name}")(x)
            if half == "a":
                x = layers.ReLU()(x)
        x = layers.ReLU()(layers.Add()([x, shortcut]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(NUM_CLASSES, name="logits")(x))


def convolutions_1d():
    return keras.Sequential(
        [
            keras.Input((12, 4)),
            layers.Conv1D(6, 3, padding="causal", dilation_rate=2, groups=2),
            layers.LeakyReLU(),
            layers.DepthwiseConv1D(3, depth_multiplier=2, activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(NUM_CLASSES),
        ]
    )


def convolutions_3d():
    return keras.Sequential(
        [
            keras.Input((5, 5, 5, 2)),
            layers.Conv3D(3, 3, activation="relu"),
            layers.Conv3DTranspose(2, 2, use_bias=False),
            layers.Flatten(),
            layers.Dense(NUM_CLASSES),
        ]
    )


def transposed():
    return keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(12, activation="relu"),
            layers.Reshape((4, 3)),
            layers.Conv1DTranspose(6, 3, strides=2),
            layers.Reshape((3, 3, 6)),
            layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
            layers.ReLU(max_value=6),
            layers.Flatten(),
            layers.Dense(NUM_CLASSES),
        ]
    )


def depthwise():
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.DepthwiseConv2D(3, depth_multiplier=2, activation="relu"),
            layers.SeparableConv2D(4, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(NUM_CLASSES),
        ]
    )


def einsum():
    inputs = keras.Input((5, 8))
    x = layers.EinsumDense(
        "abc,cde->abde", (5, 2, 3), bias_axes="de", activation="relu"
    )(inputs)
    x = layers.EinsumDense("abde,def->abf", (5, 4))(x)
    x = layers.EinsumDense("...x,xy->...y", 6, bias_axes="y")(x)
    return keras.Model(inputs, layers.Dense(NUM_CLASSES)(layers.Flatten()(x)))


def two_branches():
    image = keras.Input((6, 6, 2), name="image")
    features = keras.Input((4,), name="features")
    branch = keras.Sequential(
        [keras.Input((6, 6, 2)), layers.Conv2D(4, 3), layers.Flatten()], name="branch"
    )
    hidden = layers.Dense(5, activation="relu", name="hidden")(features)
    x = layers.Concatenate()([branch(image), hidden])
    return keras.Model([image, features], layers.Dense(NUM_CLASSES, name="logits")(x))


def nested_and_shared():
    """A nested model used twice, and a layer shared by it and the model around it."""
    shared = layers.Dense(4, activation="tanh", name="shared")
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4, name="first"), shared], name="inner"
    )
    middle_input = keras.Input((4,))
    middle = keras.Model(
        middle_input, layers.Dense(4, name="second")(inner(middle_input)), name="middle"
    )
    inputs = keras.Input((4,))
    x = keras.ops.relu(middle(inner(inputs))) + inputs
    return keras.Model(inputs, layers.Dense(NUM_CLASSES, name="logits")(shared(x)))


def nested():
    """As above, without a layer shared by two models, which Keras cannot load."""
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4), layers.Dense(4, "relu")], name="inner"
    )
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(NUM_CLASSES)(inner(inner(inputs))))


@keras.saving.register_keras_serializable("tests")
class Shift(layers.Layer):
    """A layer of a user's own class."""

    def build(self, input_shape):
        self.shift = self.add_weight(shape=input_shape[-1:], name="shift")

    def call(self, inputs):
        return inputs + self.shift


def recurrent():
    """States handed from layer to layer, and images that follow one another."""
    inputs = keras.Input((5, 4))
    hidden, state = layers.GRU(
        3, reset_after=False, return_sequences=True, return_state=True, name="gru"
    )(inputs)
    hidden = layers.SimpleRNN(3, use_bias=False, name="simple")(
        hidden, initial_state=state
    )
    images = layers.Reshape((5, 4, 1))(inputs)
    images = layers.ConvLSTM1D(2, 2, go_backwards=True, name="conv_lstm")(images)
    hidden = layers.Concatenate()([hidden, layers.Flatten()(images)])
    return keras.Model(inputs, layers.Dense(NUM_CLASSES, name="logits")(hidden))


def sequence():
    """Integers in, padding, and layers that are kept as they are."""
    return keras.Sequential(
        [
            keras.Input((7,), dtype="int32"),
            layers.Embedding(11, 4, mask_zero=True, name="embedding"),
            layers.Bidirectional(
                layers.LSTM(3, return_sequences=True, name="lstm"), name="lstm"
            ),
            layers.TimeDistributed(layers.Dense(4, name="step"), name="distributed"),
            layers.LayerNormalization(name="layer_normalization"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(NUM_CLASSES, name="logits"),
        ]
    )


def kept_layers():
    """Statistics that are more than weights, and a layer of one's own."""
    standardize = layers.Normalization(name="standardize")
    standardize.adapt(np.random.default_rng(1).normal(3, 2, size=(50, 4)))
    return keras.Sequential(
        [
            keras.Input((4,)),
            standardize,
            Shift(name="shift"),
            layers.Dense(NUM_CLASSES, name="logits"),
        ]
    )


def transformer():
    """Words with padding, a block of attention before and one behind a norm."""
    words = keras.Input((7,), dtype="int32")
    x = layers.Embedding(11, 6, mask_zero=True, name="words")(words)
    attention = layers.MultiHeadAttention(2, 3, dropout=0.1, name="heads")
    attended = attention(x, x, use_causal_mask=True)
    x = layers.LayerNormalization(name="norm")(layers.Add()([x, attended]))
    attended = layers.GroupQueryAttention(3, 4, 2, name="groups")(x, x)
    x = layers.GlobalAveragePooling1D()(layers.Add()([x, attended]))
    return keras.Model(words, layers.Dense(NUM_CLASSES, name="logits")(x))


def group_normalized():
    """Separable convolutions, and groups of one channel, of several, without γ."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 4)),
            layers.SeparableConv2D(6, 3, depth_multiplier=2, name="separable"),
            layers.GroupNormalization(2, name="of_several"),
            layers.PReLU(),
            layers.Conv2D(6, 3, name="conv"),
            layers.GroupNormalization(6, name="of_one"),
            layers.ReLU(),
            layers.DepthwiseConv2D(2, use_bias=False, name="depthwise"),
            layers.BatchNormalization(scale=False, name="without_gamma"),
            layers.ReLU(),
            layers.Flatten(),
            layers.RMSNormalization(name="rms"),
            layers.Dense(NUM_CLASSES, name="logits"),
        ]
    )


NETWORKS = {
    network.__name__: network
    for network in (
        mlp,
        softmax_classifier,
        vgg,
        normalized_cnn,
        resnet,
        convolutions_1d,
        convolutions_3d,
        transposed,
        depthwise,
        einsum,
        two_branches,
        nested_and_shared,
        nested,
        recurrent,
        sequence,
        transformer,
        group_normalized,
        kept_layers,
    )
}


def randomized(network, seed=0):
    """Returns the network with random weights and moving statistics."""
    rng = np.random.default_rng(seed)
    kept = {
        id(weight)
        for layer in network._flatten_layers()
        if isinstance(layer, layers.Normalization)
        for weight in layer.weights
    }
    for weight in network.weights:
        values = rng.normal(size=weight.shape) / np.sqrt(np.prod(weight.shape[:-1]))
        if weight.name == "moving_variance":
            values = 0.5 + np.abs(values)
        elif weight.name == "gamma":
            values += 1
        if id(weight) not in kept:
            weight.assign(values)
    return network


def make(name):
    return randomized(NETWORKS[name]())


def inputs_of(network, rows=6):
    """A batch of inputs in the network's own structure."""
    rng = np.random.default_rng(2)

    def batch(tensor):
        shape = (rows, *tensor.shape[1:])
        if tensor.dtype == "int32":
            return rng.integers(0, 11, size=shape).astype("int32")
        return rng.normal(size=shape).astype("float32")

    inputs = network.inputs if isinstance(network, keras.Sequential) else network.input
    inputs = keras.tree.map_structure(batch, inputs)
    is_single = isinstance(inputs, list) and len(inputs) == 1
    return inputs[0] if is_single else inputs


def assert_saved_and_served_answer_the_same(model, x, folder, rtol):
    """A loaded model has the same samples, a served one the same centre.

    Returns the loaded model.
    """
    samples = model.predict_samples(x, num_samples=3, seed=1, verbose=0)
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    found = loaded.predict_samples(x, num_samples=3, seed=1, verbose=0)
    np.testing.assert_allclose(found, samples, rtol=1e-5, atol=1e-6)
    path = model.export(folder, signatures=("deterministic",))
    served = tf.saved_model.load(path).signatures["deterministic"]
    expected = model.predict(x, num_samples=0, verbose=0)
    np.testing.assert_allclose(served(tf.constant(x))["mean"], expected, rtol=rtol)
    return loaded
