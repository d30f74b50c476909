"""The networks that are measured, in each of the compared libraries."""

import keras
import numpy as np

import bhn_tf
from bhn_tf import layers

NUM_EXAMPLES = 50_000
BATCH_SIZE = 128
PERCEPTRON, CONVOLUTIONAL = "mlp", "cnn"
INPUT_SHAPES = {PERCEPTRON: (784,), CONVOLUTIONAL: (32, 32, 3)}
NUM_CLASSES = 10


def stack(kind: str, library, dense, conv, input_shape=None):
    """The perceptron 784-800-800-10 or the CIFAR network 64-64-pool-128-128-pool-512.

    Args:
        kind: `PERCEPTRON` or `CONVOLUTIONAL`.
        library: `keras`, or `tf_keras` for layers that need it.
        dense, conv: Classes of the layers.
    """
    pool = library.layers.MaxPooling2D
    if kind == PERCEPTRON:
        hidden = [dense(800, activation="relu"), dense(800, activation="relu")]
    else:
        hidden = [
            conv(64, 3, activation="relu"),
            conv(64, 3, activation="relu"),
            pool(),
            conv(128, 3, activation="relu"),
            conv(128, 3, activation="relu"),
            pool(),
            library.layers.Flatten(),
            dense(512, activation="relu"),
        ]
    inputs = library.layers.Input(INPUT_SHAPES[kind])
    return library.Sequential([inputs, *hidden, dense(NUM_CLASSES)])


def data(kind: str, num_rows: int):
    """Random images and labels; times do not depend on what is in them."""
    random = np.random.default_rng(0)
    x = random.random((num_rows, *INPUT_SHAPES[kind]), dtype="float32")
    return x, random.integers(0, NUM_CLASSES, num_rows)


def plain(kind: str, jit_compile: bool):
    """The network in plain Keras, without uncertainty."""
    model = stack(kind, keras, keras.layers.Dense, keras.layers.Conv2D)
    model.compile(
        keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    return model


def bayesian(kind: str, hypernet, jit_compile: bool):
    """The Bayesian hypernetwork around the same network."""
    primary = stack(kind, keras, layers.WeightNormDense, layers.WeightNormConv2D)
    model = bhn_tf.BayesianHypernet(primary, hypernet, num_examples=NUM_EXAMPLES)
    model.compile(keras.optimizers.Adam(1e-3), jit_compile=jit_compile)
    return model


def flipout(kind: str, jit_compile: bool):
    """The network of TensorFlow Probability's Bayesian layers, in the Keras they need.

    Wen et al., "Flipout: Efficient Pseudo-Independent Weight Perturbations on
    Mini-Batches" (2018).
    """
    import tensorflow_probability as tfp
    import tf_keras

    def divergence(posterior, prior, _):
        return tfp.distributions.kl_divergence(posterior, prior) / NUM_EXAMPLES

    def with_divergence(layer):
        return lambda *args, **kwargs: layer(
            *args, kernel_divergence_fn=divergence, **kwargs
        )

    model = stack(
        kind,
        tf_keras,
        with_divergence(tfp.layers.DenseFlipout),
        with_divergence(tfp.layers.Convolution2DFlipout),
    )
    model.compile(
        tf_keras.optimizers.Adam(1e-3),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    return model
