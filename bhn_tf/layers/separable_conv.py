"""Separable convolutions."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.layers.conv import WeightNormConv1D, WeightNormConv2D
from bhn_tf.layers.depthwise_conv import (
    WeightNormDepthwiseConv1D,
    WeightNormDepthwiseConv2D,
)
from bhn_tf.layers.generated import current_value
from bhn_tf.layers.random_parts import RandomParts


class _WeightNormSeparableConv(RandomParts):
    """A separable convolution, made of a depthwise and a pointwise one."""

    DEPTHWISE: type
    POINTWISE: type

    def build(self, input_shape):
        shared = {
            "data_format": self.data_format,
            "scale_initializer": self.scale_initializer,
            "dtype": self.dtype_policy,
        }
        self.depthwise = self.DEPTHWISE(
            self.kernel_size,
            depth_multiplier=self.depth_multiplier,
            strides=self.strides,
            padding=self.padding,
            dilation_rate=self.dilation_rate,
            use_bias=False,
            depthwise_initializer=self.depthwise_initializer,
            depthwise_regularizer=self.depthwise_regularizer,
            depthwise_constraint=self.depthwise_constraint,
            random=self.random.removesuffix("_and_bias"),
            name="depthwise",
            **shared,
        )
        # Scales of its inputs would repeat the scales of the depthwise outputs.
        is_rank_one = self.random == "rank_one"
        self.pointwise = self.POINTWISE(
            self.filters,
            1,
            activation=self.activation,
            use_bias=self.use_bias,
            kernel_initializer=self.pointwise_initializer,
            kernel_regularizer=self.pointwise_regularizer,
            kernel_constraint=self.pointwise_constraint,
            bias_initializer=self.bias_initializer,
            bias_regularizer=self.bias_regularizer,
            bias_constraint=self.bias_constraint,
            random="scale" if is_rank_one else self.random,
            name="pointwise",
            **shared,
        )
        self.depthwise.build(input_shape)
        self.pointwise.build(self.depthwise.compute_output_shape(input_shape))
        keras_adapter.freeze_parts_of_frozen(self)

    @property
    def depthwise_kernel(self):
        """The directions of the depthwise kernel."""
        return self.depthwise.direction

    @property
    def pointwise_kernel(self):
        """The directions of the pointwise kernel."""
        return self.pointwise.direction

    @property
    def bias(self):
        """The bias, or `None`."""
        return self.pointwise.bias

    def fold_into(self, layer):
        layer.depthwise_kernel.assign(self.depthwise.folded_kernel())
        layer.pointwise_kernel.assign(self.pointwise.folded_kernel())
        if self.bias is not None:
            layer.bias.assign(current_value(self.bias))

    def call(self, inputs):
        return self.pointwise(self.depthwise(inputs))


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormSeparableConv1D(_WeightNormSeparableConv, keras.layers.SeparableConv1D):
    """A one-dimensional separable convolution, both kernels weight-normalised.

    Args:
        filters: Number of outputs.
        kernel_size: Length of the depthwise filters.
        random: What a hypernet generates for both kernels: "scale" (default),
            "scale_and_bias", "rank_one", "kernel", "kernel_and_bias" or "none".
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.SeparableConv1D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormSeparableConv1D(16, 5, padding="same")
    ```
    """

    DEPTHWISE, POINTWISE = WeightNormDepthwiseConv1D, WeightNormConv1D


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormSeparableConv2D(_WeightNormSeparableConv, keras.layers.SeparableConv2D):
    """A two-dimensional separable convolution, both kernels weight-normalised.

    Args:
        filters: Number of outputs.
        kernel_size: Height and width of the depthwise filters.
        random: What a hypernet generates for both kernels: "scale" (default),
            "scale_and_bias", "rank_one", "kernel", "kernel_and_bias" or "none".
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.SeparableConv2D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormSeparableConv2D(64, 3, activation="relu")
    ```
    """

    DEPTHWISE, POINTWISE = WeightNormDepthwiseConv2D, WeightNormConv2D
