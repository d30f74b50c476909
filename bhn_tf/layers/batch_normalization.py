"""Batch normalisation with generated scale and shift."""

from typing import ClassVar

import keras
import tensorflow as tf

from bhn_tf.layers.generated import current_value
from bhn_tf.layers.random_layer import RandomLayer


@keras.saving.register_keras_serializable("bhn_tf")
class BatchNormalization(RandomLayer, keras.layers.BatchNormalization):
    """Batch normalisation whose γ, and β, come from the hypernet.

    This is the paper's link to conditional batch normalisation (section
    "Hypernetworks"). Behind a layer it takes the place of that layer's scale, which
    normalisation would cancel.

    Args:
        random: "scale" (γ, the default), "scale_and_bias" (γ and β) or "none".
        **kwargs: The arguments of `keras.layers.BatchNormalization`.

    Example:
    ```python
    layer = bhn_tf.layers.BatchNormalization(random="scale_and_bias")
    ```
    """

    GENERATED: ClassVar = {
        "none": (),
        "scale": ("gamma",),
        "scale_and_bias": ("gamma", "beta"),
    }

    def __init__(self, *args, random="scale", scale=True, center=True, **kwargs):
        # Keras normalises; scale and shift are applied here, where they may differ
        # from row to row.
        super().__init__(*args, random=random, scale=False, center=False, **kwargs)
        self._has_scale = scale
        self._has_center = center
        if (random != "none" and not scale) or (
            random == "scale_and_bias" and not center
        ):
            raise ValueError(
                f"`random={random!r}` generates what `scale={scale}` and "
                f"`center={center}` leave out."
            )

    def build(self, input_shape):
        shape = (input_shape[self.axis],)
        self.gamma = self.beta = None
        if self._has_scale:
            self.gamma = self.add_weight(
                name="gamma",
                shape=shape,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
                autocast=False,
            )
        if self._has_center:
            self.beta = self.add_weight(
                name="beta",
                shape=shape,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
                autocast=False,
            )
        super().build(input_shape)

    def call(self, inputs, training=None, mask=None):
        outputs = super().call(inputs, training=training, mask=mask)
        if self.gamma is not None:
            outputs *= self._over_outputs(self.gamma, outputs)
        if self.beta is not None:
            outputs += self._over_outputs(self.beta, outputs)
        return outputs

    def _over_outputs(self, variable, outputs):
        values = current_value(variable)
        shape = [1] * len(outputs.shape)
        shape[self.axis] = variable.shape[0]
        if len(values.shape) > 1:
            shape[0] = -1
        return tf.cast(tf.reshape(values, shape), outputs.dtype)

    def get_config(self):
        config = super().get_config()
        return {**config, "scale": self._has_scale, "center": self._has_center}
