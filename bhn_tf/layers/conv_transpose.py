"""Transposed convolutions."""

import keras

from bhn_tf.layers.weight_norm import WeightNorm


class _WeightNormConvTranspose(WeightNorm):
    SCALES_KERNEL = True

    def norm_axes(self):
        # The kernel is [..., outputs, inputs].
        rank = len(self.direction.shape)
        return [axis for axis in range(rank) if axis != rank - 2]

    def _inputs_over_kernel(self, values):
        return values

    def _product(self, inputs, kernel):
        if max(self.kernel_size) == 1 < max(self.strides):
            return self._spread(inputs, kernel)
        return keras.ops.conv_transpose(
            inputs,
            kernel,
            strides=list(self.strides),
            padding=self.padding,
            output_padding=self.output_padding,
            dilation_rate=self.dilation_rate,
            data_format=self.data_format,
        )

    def _spread(self, inputs, kernel):
        """The product with a 1 x 1 kernel: outputs with zeros between them.

        The kernel is padded with zeros to the size of the strides, since oneDNN's
        gradient of a strided 1 x 1 convolution writes beyond its memory (oneDNN issue
        6035).
        """
        zeros = [(0, stride - 1) for stride in self.strides]
        outputs = keras.ops.conv_transpose(
            inputs,
            keras.ops.pad(kernel, [*zeros, (0, 0), (0, 0)]),
            strides=list(self.strides),
            padding="valid",
            data_format=self.data_format,
        )
        if self.output_padding is None:
            return outputs
        # Of the trailing zeros, keep as many as `output_padding` asks for.
        kept = tuple(
            slice(None, padding + 1 - stride or None)
            for padding, stride in zip(self.output_padding, self.strides, strict=True)
        )
        is_first = self.data_format == "channels_first"
        return outputs[(slice(None), *[slice(None)] * is_first, *kept)]

    def get_config(self):
        # Keras has had it there since 3.15.
        return {**super().get_config(), "output_padding": self.output_padding}


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConv1DTranspose(_WeightNormConvTranspose, keras.layers.Conv1DTranspose):
    """A one-dimensional transposed convolution with weight-normalised filters.

    Args:
        filters: Number of outputs.
        kernel_size: Size of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.Conv1DTranspose`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConv1DTranspose(16, 5, strides=2)
    ```
    """


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConv2DTranspose(_WeightNormConvTranspose, keras.layers.Conv2DTranspose):
    """A two-dimensional transposed convolution with weight-normalised filters.

    Args:
        filters: Number of outputs.
        kernel_size: Size of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.Conv2DTranspose`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConv2DTranspose(64, 3, strides=2, padding="same")
    ```
    """


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConv3DTranspose(_WeightNormConvTranspose, keras.layers.Conv3DTranspose):
    """A three-dimensional transposed convolution with weight-normalised filters.

    Args:
        filters: Number of outputs.
        kernel_size: Size of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernel.
        **kwargs: Every other argument of `keras.layers.Conv3DTranspose`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConv3DTranspose(8, 3, strides=2)
    ```
    """
