"""The networks of the zoo: small ones of every kind, and large ones that people bring.

Each entry makes a network without downloads and says what it takes. Weights are drawn;
γ, β and moving statistics are moved away from where they start, or a conversion that
forgot them would go unnoticed.
"""

import importlib.util
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
from keras import layers

NUM_CLASSES = 5
NUM_WORDS = 30


class Entry(NamedTuple):
    """A network of the zoo.

    Attributes:
        make: Makes it, with initial weights.
        is_large: Whether it takes longer than some seconds.
        requires: A package that it needs, or empty.
    """

    make: Callable[[], keras.Model]
    is_large: bool = False
    requires: str = ""


# -- small ones -----------------------------------------------------------------------


def perceptron():
    """Two hidden layers."""
    return keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(8, activation="relu"),
            layers.Dense(6, activation="gelu"),
            layers.Dense(NUM_CLASSES),
        ]
    )


def normalized_cnn():
    """Convolutions, each followed by batch normalisation."""
    stack = [keras.Input((8, 8, 3))]
    for filters in (4, 6):
        stack += [
            layers.Conv2D(filters, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
        ]
    stack += [layers.Flatten(), layers.Dropout(0.2), layers.Dense(NUM_CLASSES)]
    return keras.Sequential(stack)


def nested():
    """A model in a model, used twice, and two inputs by name."""
    inner = keras.Sequential(
        [keras.Input((6,)), layers.Dense(6, "relu"), layers.Dense(6)], name="inner"
    )
    inputs = {name: keras.Input((6,), name=name) for name in ("left", "right")}
    both = layers.Concatenate()([inner(inputs["left"]), inner(inputs["right"])])
    return keras.Model(inputs, layers.Dense(NUM_CLASSES)(both))


def u_net():
    """A U-Net: a label for every pixel, and connections that skip the middle."""
    inputs = keras.Input((8, 8, 3))
    x, kept = inputs, []
    for filters in (4, 6):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(8, 3, padding="same")(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for filters, skipped in zip((6, 4), reversed(kept), strict=True):
        x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
        x = layers.Concatenate()([x, skipped])
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Conv2D(NUM_CLASSES, 1)(x))


def transformer_encoder():
    """Words through two blocks of attention, with padding masked."""
    words = keras.Input((7,), dtype="int32")
    x = layers.Embedding(NUM_WORDS, 8, mask_zero=True)(words)
    for _ in range(2):
        attended = layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        hidden = layers.Dense(8)(layers.Dense(16, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, hidden]))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(words, layers.Dense(NUM_CLASSES)(x))


def bidirectional_lstm():
    """Sentences of several lengths, read both ways."""
    return keras.Sequential(
        [
            keras.Input((7,), dtype="int32"),
            layers.Embedding(NUM_WORDS, 6, mask_zero=True),
            layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
            layers.Bidirectional(layers.LSTM(4)),
            layers.Dense(NUM_CLASSES),
        ]
    )


def conv_lstm():
    """A convolutional LSTM over the frames of a film."""
    return keras.Sequential(
        [
            keras.Input((3, 6, 6, 2)),
            layers.ConvLSTM2D(4, 3, padding="same", return_sequences=True),
            layers.BatchNormalization(),
            layers.ConvLSTM2D(3, 3),
            layers.Flatten(),
            layers.Dense(NUM_CLASSES),
        ]
    )


def gru_characters():
    """The next character at every place of a text."""
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(NUM_WORDS, 6),
            layers.GRU(6, return_sequences=True),
            layers.GRU(6, return_sequences=True, reset_after=False),
            layers.Dense(NUM_WORDS),
        ]
    )


def separable():
    """Separable and depthwise convolutions around a group normalisation."""
    inputs = keras.Input((8, 8, 3))
    x = layers.SeparableConv2D(6, 3, padding="same")(inputs)
    x = layers.PReLU(shared_axes=[1, 2])(layers.GroupNormalization(2)(x))
    x = layers.DepthwiseConv2D(3, use_bias=False)(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization(scale=False)(x))
    x = layers.Conv2D(8, 1, groups=2)(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(NUM_CLASSES)(x))


# -- keras-hub, built small -----------------------------------------------------------


def hub_bert():
    """The BERT classifier of keras-hub, without its preprocessing."""
    from keras_hub import models

    backbone = models.BertBackbone(
        vocabulary_size=NUM_WORDS,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=8,
        num_segments=2,
    )
    task = models.BertTextClassifier(backbone, NUM_CLASSES, preprocessor=None)
    return graph_of_task(task)


def hub_vit():
    """The ViT classifier of keras-hub, with its first layer mended."""
    from keras_hub import models

    mend_patches_of_vit()
    backbone = models.ViTBackbone(
        image_shape=(8, 8, 3),
        patch_size=4,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        mlp_dim=16,
    )
    return graph_of_task(models.ViTImageClassifier(backbone, NUM_CLASSES))


def mend_patches_of_vit():
    """Gives the layer a configuration that its constructor takes; see docs/gotchas.md.

    In keras-hub 0.32 it holds two sizes that the layer computes from the others.
    """
    from keras_hub.src.models.vit import vit_layers

    layer = vit_layers.ViTPatchingAndEmbedding
    get_config = layer.get_config

    def get_config_of_arguments(self):
        config = get_config(self)
        for computed in ("num_patches", "num_positions"):
            config.pop(computed, None)
        return config

    layer.get_config = get_config_of_arguments


def hub_resnet():
    """The ResNet classifier of keras-hub."""
    from keras_hub import models

    backbone = models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[3],
        # The smallest sizes that it takes.
        stackwise_num_filters=[64, 8],
        stackwise_num_blocks=[1, 1],
        stackwise_num_strides=[1, 2],
        block_type="basic_block",
        image_shape=(16, 16, 3),
    )
    return graph_of_task(models.ResNetImageClassifier(backbone, NUM_CLASSES))


def hub_gpt2():
    """A head for classes on the GPT-2 backbone of keras-hub."""
    from keras_hub import models

    backbone = models.GPT2Backbone(
        vocabulary_size=NUM_WORDS,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=8,
    )
    pooled = layers.GlobalAveragePooling1D()(backbone.output)
    return keras.Model(backbone.input, layers.Dense(NUM_CLASSES)(pooled))


def graph_of_task(task):
    """The functional graph of a task of keras-hub, without its preprocessing.

    A task has its own `call` and way of training, but was made as a functional model:
    layers connect its inputs with its outputs.
    """
    return keras.Model(task.input, task.output, name=task.name)


# -- large ones -----------------------------------------------------------------------


def _application(name, size):
    def make():
        return getattr(keras.applications, name)(
            weights=None, input_shape=(size, size, 3), classes=NUM_CLASSES
        )

    return Entry(make, is_large=True)


NETWORKS = {
    **{
        make.__name__: Entry(make)
        for make in (
            perceptron,
            normalized_cnn,
            nested,
            u_net,
            transformer_encoder,
            bidirectional_lstm,
            conv_lstm,
            gru_characters,
            separable,
        )
    },
    **{
        make.__name__: Entry(make, requires="keras_hub")
        for make in (hub_bert, hub_vit, hub_resnet, hub_gpt2)
    },
    "MobileNetV2": _application("MobileNetV2", 64),
    "MobileNetV2@96": _application("MobileNetV2", 96),
    "ResNet50": _application("ResNet50", 64),
    "EfficientNetB0": _application("EfficientNetB0", 64),
    "DenseNet121": _application("DenseNet121", 64),
    "ConvNeXtTiny": _application("ConvNeXtTiny", 64),
    "InceptionV3": _application("InceptionV3", 75),
}


def is_there(name: str) -> bool:
    """Whether the package that a network needs is installed."""
    requires = NETWORKS[name].requires
    return not requires or importlib.util.find_spec(requires) is not None


def make(name: str) -> keras.Model:
    """Returns a network, with some weights moved from where they start."""
    keras.utils.set_random_seed(0)
    network = NETWORKS[name].make()
    rng = np.random.default_rng(0)
    for weight in network.weights:
        moved = 0.05 * rng.normal(size=weight.shape)
        if weight.name in ("beta", "bias", "moving_mean"):
            weight.assign(keras.ops.convert_to_numpy(weight) + moved)
        elif weight.name in ("gamma", "moving_variance"):
            weight.assign(keras.ops.convert_to_numpy(weight) * np.exp(moved))
    return network


def data(network: keras.Model, num_rows: int):
    """Random inputs in the structure that a network takes, and labels.

    Rows of word numbers end in padding (0), which padding masks mark.
    """
    rng = np.random.default_rng(1)
    lengths = rng.integers(3, 7, size=num_rows)

    def batch(tensor):
        shape = (num_rows, *[size or 7 for size in tensor.shape[1:]])
        if keras.backend.is_float_dtype(tensor.dtype):
            return rng.normal(size=shape).astype(tensor.dtype)
        is_word = np.arange(shape[1]) < lengths[:, None]
        if tensor.name.startswith("padding_mask"):
            return is_word.astype("int32")
        if tensor.name.startswith("segment"):
            return np.zeros(shape, "int32")
        return (rng.integers(1, NUM_WORDS, size=shape) * is_word).astype("int32")

    is_sequential = isinstance(network, keras.Sequential)
    inputs = network.inputs if is_sequential else network.input
    is_single = isinstance(inputs, list) and len(inputs) == 1
    x = keras.tree.map_structure(batch, inputs[0] if is_single else inputs)
    sizes = [size or 7 for size in network.output_shape[1:]]
    return x, rng.integers(0, sizes[-1], size=(num_rows, *sizes[:-1]))
