"""Depthwise convolutions."""

import keras

from bhn_tf.layers.weight_norm import WeightNorm


class _WeightNormDepthwiseConv(WeightNorm):
    SCALES_KERNEL = True

    def norm_axes(self):
        # The kernel is [..., inputs, multiplier], with an output for each pair.
        return list(range(len(self.direction.shape) - 2))

    def _product(self, inputs, kernel):
        return keras.ops.depthwise_conv(
            inputs,
            kernel,
            strides=self.strides,
            padding=self.padding,
            dilation_rate=self.dilation_rate,
            data_format=self.data_format,
        )


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormDepthwiseConv1D(_WeightNormDepthwiseConv, keras.layers.DepthwiseConv1D):
    """A one-dimensional depthwise convolution with weight-normalised filters.

    Args:
        kernel_size: Size of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.DepthwiseConv1D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormDepthwiseConv1D(3, depth_multiplier=2)
    ```
    """


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormDepthwiseConv2D(_WeightNormDepthwiseConv, keras.layers.DepthwiseConv2D):
    """A two-dimensional depthwise convolution with weight-normalised filters.

    Args:
        kernel_size: Size of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.DepthwiseConv2D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormDepthwiseConv2D(3, depth_multiplier=2)
    ```
    """
