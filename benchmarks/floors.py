"""Floors: what bytes and FLOPs alone would cost.

A step is a chain of products and passes over weights, so its floor is the sum of
FLOPs / (FLOPs a second) and bytes / (bytes a second); see `machine.rates`.
"""

import keras

_BYTES = 4
# Adam reads weight, gradient and two moments and writes all but the gradient, which
# the backward pass has written: 8 passes over the weights.
_PASSES_OF_ADAM = 8
# A hypernet's matrix meets one row a step: it is read forward and backward.
_PASSES_OF_HYPERNET = _PASSES_OF_ADAM + 2


def products(network: keras.Model) -> tuple[float, float]:
    """FLOPs for each row of the network, forward: of all layers, and of the first."""
    flops = []
    for layer in network.layers:
        kernel = getattr(layer, "kernel", None)
        if kernel is not None:
            positions = 1
            for size in layer.output.shape[1:-1]:
                positions *= size
            entries = 1
            for size in kernel.shape:
                entries *= size
            flops.append(2.0 * positions * entries)
    return sum(flops), flops[0]


def training_step(network, hypernet_weights: int, batch_size: int, rates) -> float:
    """Seconds of one step of Adam on a network, and on a hypernet if there is one."""
    forward, first = products(network)
    # Backward: a product for the weights and one for the inputs, which the first layer
    # does not need.
    flops = batch_size * (3 * forward - first)
    passes = network.count_params() * _PASSES_OF_ADAM
    passes += hypernet_weights * _PASSES_OF_HYPERNET
    return flops / rates["flops"] + passes * _BYTES / rates["bytes"]


def prediction(network, num_samples: int) -> float:
    """The share of `num_samples` forward passes that draws cannot avoid.

    They save only the first layer's product, which is the same for all.
    """
    forward, first = products(network)
    return (first + num_samples * (forward - first)) / (num_samples * forward)
