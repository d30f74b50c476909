"""Batch normalisation with generated scale and shift."""

import keras

from bhn_tf.layers.random_affine import RandomAffine


@keras.saving.register_keras_serializable("bhn_tf")
class BatchNormalization(RandomAffine, keras.layers.BatchNormalization):
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

    def build(self, input_shape):
        self._add_affine((input_shape[self.axis],))
        super().build(input_shape)

    def call(self, inputs, training=None, mask=None):
        outputs = super().call(inputs, training=training, mask=mask)
        return self._scaled_and_shifted(outputs)
