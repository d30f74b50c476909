"""Batch normalisation with generated scale and shift."""

import keras

from bhn_tf.layers.generated import current_value
from bhn_tf.layers.random_affine import RandomAffine


@keras.saving.register_keras_serializable("bhn_tf")
class BatchNormalization(RandomAffine, keras.layers.BatchNormalization):
    """Batch normalisation whose γ, and optionally β, come from the hypernet.

    This is the paper's link to conditional batch normalisation (section
    "Hypernetworks"). It replaces the scale of the layer before it, which the
    normalisation would cancel.

    Args:
        random: "scale" (γ, the default), "scale_and_bias" (γ and β) or "none".
        **kwargs: The arguments of `keras.layers.BatchNormalization`. Regularisers and
            constraints of what is generated have no effect.

    Example:
    ```python
    layer = bhn_tf.layers.BatchNormalization(random="scale_and_bias")
    ```
    """

    def build(self, input_shape):
        self._add_affine((input_shape[self.axis],))
        super().build(input_shape)

    def call(self, inputs, training=None, mask=None):
        affine = _CurrentAffine(self)
        if affine.is_of_rows:
            outputs = super().call(inputs, training=training, mask=mask)
            return self._scaled_and_shifted(outputs)
        # Keras multiplies γ into 1/σ, one number per channel. Applied afterwards, γ
        # would cost a pass over all outputs, and two over their gradients.
        return keras.layers.BatchNormalization.call(
            affine, inputs, training=training, mask=mask
        )


class _CurrentAffine:
    """Stands for the layer in Keras's `call`, but with the current γ and β.

    Replicas trace in turns, each in its own thread, so values cannot be put into the
    layer itself for the duration of a call.
    """

    def __init__(self, layer: BatchNormalization):
        self._layer = layer
        variables = layer.gamma, layer.beta
        values = [None if v is None else current_value(v) for v in variables]
        self.gamma, self.beta = values
        self.scale, self.center = (value is not None for value in values)
        self.is_of_rows = any(v is not None and len(v.shape) > 1 for v in values)

    def __getattr__(self, name):
        return getattr(self._layer, name)
