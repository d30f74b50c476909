"""Fully connected layers."""

import keras

from bhn_tf.layers.weight_norm import WeightNorm


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormDense(WeightNorm, keras.layers.Dense):
    """A dense layer with weight-normalised kernel, `x · (g v/‖v‖) + b`.

    Args:
        units: Number of outputs.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.Dense`.

    Inputs [B, ..., inputs], outputs [B, ..., units].

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormDense(10, activation="relu")
    ```
    """

    def _product(self, inputs, kernel):
        # Some versions of Keras pass inputs of higher rank to `tf.matmul`, which with
        # the oneDNN of TensorFlow 2.21 reads beyond the kernel (TensorFlow issue
        # 117700).
        if len(inputs.shape) > 2:
            return keras.ops.tensordot(inputs, kernel, axes=1)
        return keras.ops.matmul(inputs, kernel)
