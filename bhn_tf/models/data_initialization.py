"""Scales and biases from data, before training."""

import keras
import tensorflow as tf

from bhn_tf.layers.generated import generated_values
from bhn_tf.layers.weight_norm import WeightNorm


class DataInitialization:
    """Mixin of `BayesianHypernet`: pre-activations of mean 0 and variance 1.

    Salimans and Kingma, "Weight Normalization" (2016), section 3; the paper's
    authors start their networks so.
    """

    def initialize_from_data(self, x) -> bool:
        """Sets scales and biases so that pre-activations are standardised over `x`.

        Layer after layer, in the order of the network: with scale 1 and bias 0 the
        pre-activations of an output have a mean m and a standard deviation s over the
        rows of `x`; scale becomes 1/s and bias -m/s. Scales that a hypernet generates
        are set in the mean of its last affine map. An output that does not vary over
        `x` (constant data, a single row) keeps its scale and bias.

        It happens once: a model that has been initialised, also before it was saved,
        is left alone.

        Args:
            x: A batch of inputs, some hundred rows.

        Returns:
            Whether anything was done.

        Raises:
            ValueError: If `x` is empty or not finite.

        Example:
        ```python
        model.initialize_from_data(x[:500])
        model.fit(x, y)
        ```
        """
        self._checked(x, None, None)
        self._build_from_data(x)
        if int(keras.ops.convert_to_numpy(self._is_initialized)):
            return False
        for layer in self._layers_in_call_order(x):
            self._standardize(layer, x)
        self._is_initialized.assign(1)
        return True

    def _layers_in_call_order(self, x) -> list[WeightNorm]:
        """The layers with scales, in the order in which the network calls them."""
        order = []
        candidates = [
            layer
            for layer in self.primary._flatten_layers()
            if isinstance(layer, WeightNorm) and layer.scale is not None
        ]
        with _recording(candidates, lambda layer, _: order.append(layer)):
            self._network(x, self.hypernet.center() if self.num_random else None, False)
        return list(dict.fromkeys(order))

    def _standardize(self, layer, x):
        found = []
        neutral = {id(layer.scale): tf.ones(layer.scale.shape)}
        if layer.bias is not None:
            neutral[id(layer.bias)] = tf.zeros(layer.bias.shape)
        center = self.hypernet.center() if self.num_random else tf.zeros([0])
        with _recording([layer], lambda _, outputs: found.append(outputs)):
            with generated_values({**self._slices(center), **neutral}):
                self.primary(x)
        # A layer that is used several times is standardised over all its uses.
        mean, variance = layer.moments_of_outputs(found)
        varies = variance > 1e-10
        inverse = tf.where(varies, tf.math.rsqrt(tf.where(varies, variance, 1.0)), 1.0)
        self._set_value(layer.scale, inverse, varies)
        # An einsum may share a bias among outputs of different scales.
        if layer.bias is not None and tf.size(layer.bias) == tf.size(layer.scale):
            self._set_value(layer.bias, -mean * inverse, varies)

    def _set_value(self, variable, value, is_set):
        """Sets a weight, or the mean of the posterior where the hypernet makes it."""
        shape = variable.shape
        value, is_set = tf.reshape(value, shape), tf.reshape(is_set, shape)
        owner = next((i for i, v in enumerate(self._generated) if v is variable), None)
        if owner is None:
            variable.assign(tf.where(is_set, value, tf.convert_to_tensor(variable)))
            return
        start, stop = self._offsets[owner], self._offsets[owner + 1]
        mean = tf.convert_to_tensor(self.hypernet.affine.mean)
        current = tf.reshape(mean[start:stop], shape)
        new = tf.reshape(tf.where(is_set, value, current), [-1])
        self.hypernet.affine.mean.assign(
            tf.concat([mean[:start], new, mean[stop:]], axis=0)
        )


class _recording:
    """Calls a function with every layer's outputs before its activation."""

    def __init__(self, layers, record):
        self._layers, self._record = layers, record

    def __enter__(self):
        self._activations = [layer.activation for layer in self._layers]
        for layer, activation in zip(self._layers, self._activations, strict=True):
            layer.activation = self._wrapped(layer, activation)

    def _wrapped(self, layer, activation):
        def record_and_activate(outputs):
            self._record(layer, outputs)
            return outputs if activation is None else activation(outputs)

        return record_and_activate

    def __exit__(self, *exception):
        for layer, activation in zip(self._layers, self._activations, strict=True):
            layer.activation = activation
