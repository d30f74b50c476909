"""Scales and biases that give pre-activations mean 0 and variance 1 over data.

Salimans and Kingma, "Weight Normalization" (2016), section 3. The authors of the paper
on Bayesian hypernetworks initialise their networks in this way.
"""

import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.layers.generated import generated_values
from bhn_tf.layers.weight_norm import WeightNorm


def standardize_layers(posterior, x) -> None:
    """Sets scales and biases of a network, layer after layer.

    Args:
        posterior: A `HypernetPosterior`.
        x: A batch of inputs.
    """
    center = posterior.draw(0, None).values[0]
    for layer in _layers_in_call_order(posterior, center, x):
        # Drawn again, since earlier layers, now changed, determine this one's inputs.
        _standardize(layer, posterior, posterior.draw(0, None).values[0], x)


def _layers_in_call_order(posterior, center, x) -> list[WeightNorm]:
    """The layers with scales, in the order in which the network calls them."""
    order = []
    candidates = [
        layer
        for layer in keras_adapter.layers_of(posterior.network)
        if isinstance(layer, WeightNorm) and layer.scale is not None
    ]
    with _Recording(candidates, lambda layer, *_: order.append(layer)):
        posterior.outputs(x, center, training=False)
    return list(dict.fromkeys(order))


def _standardize(layer, posterior, center, x):
    found = []
    neutral = {id(layer.scale): tf.ones_like(layer.scale)}
    if layer.bias is not None:
        neutral[id(layer.bias)] = tf.zeros_like(layer.bias)
    inputs = keras_adapter.inputs_by_name(posterior.network, x)
    with (
        _Recording([layer], lambda _, *outputs: found.append(outputs)),
        generated_values({**posterior.values_of(center), **neutral}),
    ):
        posterior.network(inputs)
    # A layer that is used several times is standardised over all uses.
    outputs, activated = zip(*found, strict=True)
    # Keras attaches masks to what the layer returns.
    masks = list(map(keras_adapter.mask_of, activated))
    mean, variance = layer.moments_of_outputs(outputs, masks)
    varies = variance > 1e-10
    inverse = tf.where(varies, tf.math.rsqrt(tf.where(varies, variance, 1.0)), 1.0)
    _set_value(posterior, layer.scale, inverse, varies)
    # In an einsum, outputs of different scales may share a bias.
    if layer.bias is not None and tf.size(layer.bias) == tf.size(layer.scale):
        _set_value(posterior, layer.bias, -mean * inverse, varies)


def _set_value(posterior, variable, value, is_set):
    """Sets a weight, or the mean of its posterior if the hypernet generates it."""
    shape = variable.shape
    value, is_set = tf.reshape(value, shape), tf.reshape(is_set, shape)
    place = posterior.slice_of(variable)
    if place is None:
        value = tf.cast(value, variable.dtype)
        variable.assign(tf.where(is_set, value, tf.convert_to_tensor(variable)))
        return
    affine_mean = posterior.hypernet.affine.mean
    mean = tf.convert_to_tensor(affine_mean)
    value = tf.cast(value, mean.dtype)
    new = tf.where(is_set, value, tf.reshape(mean[place], shape))
    affine_mean.assign(
        tf.concat([mean[: place.start], tf.reshape(new, [-1]), mean[place.stop :]], 0)
    )


class _Recording:
    """Calls a function with each layer's outputs before and after the activation."""

    def __init__(self, layers, record):
        self._layers, self._record = layers, record

    def __enter__(self):
        self._activations = [layer.activation for layer in self._layers]
        for layer, activation in zip(self._layers, self._activations, strict=True):
            layer.activation = self._wrapped(layer, activation)

    def _wrapped(self, layer, activation):
        def record_and_activate(outputs):
            activated = outputs if activation is None else activation(outputs)
            self._record(layer, outputs, activated)
            return activated

        return record_and_activate

    def __exit__(self, *exception):
        for layer, activation in zip(self._layers, self._activations, strict=True):
            layer.activation = activation
