"""The networks of the experiments, of Keras's layers or their Bayesian twins."""

from collections.abc import Sequence

import keras

from bhn_tf import layers

#: What a hypernet can generate for a layer.
GENERATED = (
    "scale",
    "scale_and_bias",
    "rank_one",
    "kernel",
    "kernel_and_bias",
    "none",
)


class Layers:
    """Makes the layers of one network, in their order, and names them by it.

    Args:
        generated: What the hypernet generates for each layer with a kernel, in order;
            the last entry stands for all layers that follow. If empty, the layers are
            Keras's own.
        **options: Further arguments of every layer.
    """

    def __init__(self, generated: Sequence[str] = (), **options):
        self._generated = list(generated)
        self._options = options
        self._number = 0

    def dense(self, units: int, activation=None) -> keras.layers.Layer:
        """A dense layer."""
        return self._made(
            keras.layers.Dense, layers.WeightNormDense, units, activation=activation
        )

    def conv2d(self, filters: int, size: int, activation=None) -> keras.layers.Layer:
        """A convolution of images, without padding."""
        return self._made(
            keras.layers.Conv2D,
            layers.WeightNormConv2D,
            filters,
            size,
            activation=activation,
        )

    def _made(self, plain, weight_norm, *args, **kwargs):
        self._number += 1
        # Keras would count on from network to network of the process.
        name = f"{plain.__name__.lower()}_{self._number}"
        kwargs |= {**self._options, "name": name}
        if not self._generated:
            return plain(*args, **kwargs)
        random = self._generated[0]
        if len(self._generated) > 1:
            del self._generated[0]
        return weight_norm(*args, random=random, **kwargs)


def perceptron(
    shape,
    units,
    num_outputs: int,
    make: Layers,
    dropout_rate: float = 0.0,
    input_dropout: float = 0.0,
    activation="relu",
) -> keras.Sequential:
    """A multi-layer perceptron that ends with raw outputs.

    Args:
        shape: Shape of one row of the inputs.
        units: Sizes of the hidden layers.
        num_outputs: C.
        make: Makes the dense layers.
        dropout_rate: Rate of the dropout after each hidden layer; 0 for none.
        input_dropout: Rate of the dropout of the inputs; 0 for none.
        activation: Activation of the hidden layers.
    """
    network = keras.Sequential([keras.layers.Input(shape), keras.layers.Flatten()])
    _drop(network, input_dropout)
    return _with_dense(network, units, num_outputs, make, dropout_rate, activation)


def convolutional(
    shape,
    filters,
    units,
    num_outputs: int,
    make: Layers,
    dropout_rate: float = 0.0,
    input_dropout: float = 0.0,
) -> keras.Sequential:
    """The paper's network for CIFAR-10: 3×3 convolutions, pooled after every second.

    Args:
        shape: Shape [h, w, c] of one image.
        filters: Filters of the convolutions; in the paper 64, 64, 128 and 128.
        units: Sizes of the dense layers; in the paper 512.
        num_outputs: C.
        make: Makes the layers.
        dropout_rate: Rate of the dropout after each pooling (half of it) and each
            dense layer; 0 for none.
        input_dropout: Rate of the dropout of the inputs; 0 for none.
    """
    network = keras.Sequential([keras.layers.Input(shape)])
    _drop(network, input_dropout)
    for index, size in enumerate(filters):
        network.add(make.conv2d(size, 3, activation="relu"))
        if index % 2:
            network.add(keras.layers.MaxPooling2D(2))
            _drop(network, dropout_rate / 2)
    network.add(keras.layers.Flatten())
    return _with_dense(network, units, num_outputs, make, dropout_rate)


def gal_convolutional(
    shape, filters: int, units, num_outputs: int, make: Layers, has_dropout: bool
) -> keras.Sequential:
    """Gal's network for active learning: two convolutions, pooling, dense layers.

    Args:
        shape: Shape [h, w, c] of one image.
        filters: Filters of each convolution.
        units: Sizes of the dense layers.
        num_outputs: C.
        make: Makes the layers.
        has_dropout: Whether there is dropout, at rates of 0.25 and 0.5.
    """
    network = keras.Sequential([keras.layers.Input(shape)])
    for _ in range(2):
        network.add(make.conv2d(filters, 3, activation="relu"))
    network.add(keras.layers.MaxPooling2D(5))
    _drop(network, 0.25 if has_dropout else 0.0)
    network.add(keras.layers.Flatten())
    return _with_dense(network, units, num_outputs, make, 0.5 if has_dropout else 0.0)


def _with_dense(network, units, num_outputs, make, dropout_rate, activation="relu"):
    """Adds the dense layers at the end of a network; returns it."""
    for size in units:
        network.add(make.dense(size, activation=activation))
        _drop(network, dropout_rate)
    network.add(make.dense(num_outputs))
    return network


def _drop(network: keras.Sequential, rate: float) -> None:
    if rate:
        network.add(keras.layers.Dropout(rate))
