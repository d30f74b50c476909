"""Dropout whose masks can be given from outside, for Monte Carlo dropout."""

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.layers.generated import generated_value


class _GivenMask:
    """Mixin before a Keras dropout layer.

    Inside a scope with a seed for the layer, one mask is drawn from the seed and
    shared by all rows, so that a seed stands for one thinned network, whatever the
    rows and batch size. Outside, the layer is Keras's dropout.
    """

    def call(self, inputs, training=False):
        seed = generated_value(self)
        if seed is None or self.rate == 0:
            return super().call(inputs, training=training)
        shape = tf.concat([[1], self._mask_shape(inputs)[1:]], axis=0)
        # From integers, which are the same with XLA; its random floats differ.
        bits = tf.random.stateless_uniform(
            shape,
            tf.maximum(seed, 0),
            minval=None,
            maxval=None,
            dtype=tf.uint32,
            alg="philox",
        )
        uniform = tf.cast(tf.bitwise.right_shift(bits, 8), tf.float32) * 2.0**-24
        # A negative seed means no noise.
        is_kept = (uniform >= self.rate) | (seed[0] < 0)
        # At a rate of 1 nothing is kept, and there is nothing to scale.
        scale = tf.where(seed[0] < 0, 1.0, 1.0 / (1.0 - self.rate or 1.0))
        return inputs * tf.cast(tf.cast(is_kept, tf.float32) * scale, inputs.dtype)

    def _mask_shape(self, inputs):
        shape = tf.shape(inputs)
        if self.noise_shape is None:
            return shape
        return tf.stack(
            [
                shape[axis] if size is None else size
                for axis, size in enumerate(self.noise_shape)
            ]
        )


class _GivenSpatialMask(_GivenMask):
    def _mask_shape(self, inputs):
        return tf.stack(keras_adapter.noise_shape_of(self, inputs))


@keras.saving.register_keras_serializable("bhn_tf")
class MonteCarloDropout(_GivenMask, keras.layers.Dropout):
    """`keras.layers.Dropout` that `bhn_tf.baselines.MCDropout` can draw.

    Args:
        As `keras.layers.Dropout`.

    Example:
    ```python
    layer = bhn_tf.layers.MonteCarloDropout(0.5)
    layer(np.ones((2, 4)), training=True)  # [2, 4], about half of them zero
    ```
    """


@keras.saving.register_keras_serializable("bhn_tf")
class MonteCarloSpatialDropout1D(_GivenSpatialMask, keras.layers.SpatialDropout1D):
    """`keras.layers.SpatialDropout1D` that `bhn_tf.baselines.MCDropout` can draw."""


@keras.saving.register_keras_serializable("bhn_tf")
class MonteCarloSpatialDropout2D(_GivenSpatialMask, keras.layers.SpatialDropout2D):
    """`keras.layers.SpatialDropout2D` that `bhn_tf.baselines.MCDropout` can draw."""


@keras.saving.register_keras_serializable("bhn_tf")
class MonteCarloSpatialDropout3D(_GivenSpatialMask, keras.layers.SpatialDropout3D):
    """`keras.layers.SpatialDropout3D` that `bhn_tf.baselines.MCDropout` can draw."""


#: Keras's dropout layers, and the drawable ones that replace them.
DRAWABLE = {
    keras.layers.Dropout: MonteCarloDropout,
    keras.layers.SpatialDropout1D: MonteCarloSpatialDropout1D,
    keras.layers.SpatialDropout2D: MonteCarloSpatialDropout2D,
    keras.layers.SpatialDropout3D: MonteCarloSpatialDropout3D,
}
