"""Convolutions."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.layers.weight_norm import WeightNorm


class _WeightNormConv(WeightNorm):
    SCALES_KERNEL = True

    def _product(self, inputs, kernel):
        if max(self.kernel_size) > 1:
            return self.convolution_op(inputs, kernel)
        # A strided 1 x 1 convolution sees only every n-th position. These are picked
        # first, because oneDNN's gradient of a strided one writes beyond its memory if
        # there are few channels (oneDNN issue 6035).
        steps = tuple(slice(None, None, stride) for stride in self.strides)
        is_first = self.data_format == "channels_first"
        inputs = inputs[(slice(None), *[slice(None)] * is_first, *steps)]
        return keras.ops.conv(
            inputs, kernel, padding="valid", data_format=self.data_format
        )


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConv1D(_WeightNormConv, keras.layers.Conv1D):
    """A one-dimensional convolution with weight-normalised filters.

    Args:
        filters: Number of outputs.
        kernel_size: Length of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.Conv1D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConv1D(16, 5, padding="causal")
    ```
    """

    def _product(self, inputs, kernel):
        if self.padding != "causal" or self.kernel_size == (1,):
            return super()._product(inputs, kernel)
        # As in Keras, since `convolution_op` does not support causal padding.
        return keras.ops.conv(
            keras.ops.pad(inputs, keras_adapter.causal_padding_of(self)),
            kernel,
            strides=list(self.strides),
            padding="valid",
            dilation_rate=self.dilation_rate,
            data_format=self.data_format,
        )


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConv2D(_WeightNormConv, keras.layers.Conv2D):
    """A two-dimensional convolution with weight-normalised filters.

    Args:
        filters: Number of outputs.
        kernel_size: Height and width of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.Conv2D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConv2D(64, 3, activation="relu")
    ```
    """


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConv3D(_WeightNormConv, keras.layers.Conv3D):
    """A three-dimensional convolution with weight-normalised filters.

    Args:
        filters: Number of outputs.
        kernel_size: Depth, height and width of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.Conv3D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConv3D(8, 3, strides=2)
    ```
    """
