"""Normalisations of each row by itself, with generated scale and shift."""

from typing import ClassVar

import keras

from bhn_tf.layers.generated import over_axes
from bhn_tf.layers.random_affine import RandomAffine
from bhn_tf.layers.random_layer import RandomLayer


@keras.saving.register_keras_serializable("bhn_tf")
class LayerNormalization(RandomAffine, keras.layers.LayerNormalization):
    """Layer normalisation whose γ, and optionally β, come from the hypernet.

    It cancels a factor common to all units, but not that of a single unit: the scales
    of the layer before it stay random, as γ is.

    Args:
        random: "scale" (γ, the default), "scale_and_bias" (γ and β) or "none".
        **kwargs: The arguments of `keras.layers.LayerNormalization`.

    Raises:
        ValueError: If what is to be generated is left out by `scale=False` or
            `center=False`, or with the deprecated `rms_scaling`.

    Example:
    ```python
    layer = bhn_tf.layers.LayerNormalization(epsilon=1e-6)
    ```
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.rms_scaling:
            raise ValueError(
                "`rms_scaling=True` is deprecated in Keras, which divides by the "
                "standard deviation there. Use `bhn_tf.layers.RMSNormalization`."
            )

    def build(self, input_shape):
        # Keras turns `axis` into a list here.
        super().build(input_shape)
        self._add_affine(tuple(input_shape[axis] for axis in self.axis))

    def call(self, inputs):
        # Keras's `call` would apply the variables' own γ and β.
        outputs = keras.ops.layer_normalization(
            inputs, axis=self.axis, epsilon=self.epsilon
        )
        outputs = keras.ops.cast(outputs, self.compute_dtype)
        return self._scaled_and_shifted(outputs)


@keras.saving.register_keras_serializable("bhn_tf")
class GroupNormalization(RandomAffine, keras.layers.GroupNormalization):
    """Group normalisation whose γ, and optionally β, come from the hypernet.

    With a group for each channel it cancels the scales of the layer before it and, like
    batch normalisation, replaces them; with several channels in a group it does not.

    Args:
        random: "scale" (γ, the default), "scale_and_bias" (γ and β) or "none".
        **kwargs: The arguments of `keras.layers.GroupNormalization`.

    Raises:
        ValueError: If what is to be generated is left out by `scale=False` or
            `center=False`.

    Example:
    ```python
    layer = bhn_tf.layers.GroupNormalization(groups=8)
    ```
    """

    def build(self, input_shape):
        super().build(input_shape)
        self._add_affine((input_shape[self.axis],))

    def call(self, inputs):
        return self._scaled_and_shifted(super().call(inputs))


@keras.saving.register_keras_serializable("bhn_tf")
class RMSNormalization(RandomLayer, keras.layers.RMSNormalization):
    """Root-mean-square normalisation with a scale from the hypernet.

    Args:
        random: "scale" (the default) or "none"; there is no shift.
        **kwargs: The arguments of `keras.layers.RMSNormalization`.

    Example:
    ```python
    layer = bhn_tf.layers.RMSNormalization()
    ```
    """

    GENERATED: ClassVar = {"none": (), "scale": ("scale",)}

    def call(self, x):
        outputs = keras.ops.rms_normalization(x, axis=self.axis, epsilon=self.epsilon)
        return outputs * over_axes(self.scale, self.axis, outputs)
