"""The base of the weight-normalised layers.

`w_j = g_j v_j / ||v_j||` for each output j (paper, section "Efficient Parametrization
and Training"). g multiplies a whole output, so a layer computes `x · v` once and
scales the result: a draw for each row costs no more than one draw for all. With
"rank_one", inputs have scales too, which multiply them before the product,
`w_ij = g_j s_i v_ij / ||v_j||`: the form of Dusenberry et al., "Efficient and Scalable
Bayesian Neural Nets with Rank-1 Factors" (2020), here from one hypernet.
"""

from typing import ClassVar, NamedTuple

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.layers.generated import (
    current_value,
    generated_value,
    is_of_rows,
    over_axes,
)
from bhn_tf.layers.random_layer import RandomLayer, generates_kernel
from bhn_tf.norms import inverse_norm


class SharedByDraws(NamedTuple):
    """What does not depend on the draw of a layer's scales.

    Attributes:
        inverse_norm: 1 / ‖v‖ of each output; `None` where kernels are generated.
        product: The product of inputs and direction, if all draws share the inputs.
    """

    inverse_norm: tf.Tensor | None
    product: tf.Tensor | None


class NotQuantised(ValueError, NotImplementedError):
    """A layer stays as it is: Keras's `Model.quantize` warns so, and goes on.

    Args:
        layer: The layer.
    """

    def __init__(self, layer):
        super().__init__(
            f"{layer.name!r} stays as it is: {type(layer).__name__} does not support "
            "quantisation, since its kernel is a direction. `draw()` of a model that "
            "`bhn_tf.from_keras` made gives an ordinary network to quantise."
        )


class WeightNorm(RandomLayer):
    """Mixin before a Keras layer with a kernel: weight normalisation, random scales.

    The Keras layer keeps its constructor, its `build` and its product of inputs and
    kernel; the kernel that it holds is the direction v. A regulariser or constraint
    of the kernel acts on v; those of a kernel or bias that is generated itself have no
    effect.

    Args:
        random: What a hypernet generates for the layer: "scale", "scale_and_bias",
            "rank_one" (a scale for each output, and one for each input feature or
            channel, at first 1), "kernel", "kernel_and_bias" (the kernel whole, without
            normalisation) or "none".
        scale_initializer: Initial scales. `None`: the norms of the drawn kernel, so
            that a fresh layer equals its Keras twin.
    """

    GENERATED: ClassVar = {
        "none": (),
        "scale": ("scale",),
        "scale_and_bias": ("scale", "bias"),
        "rank_one": ("scale", "input_scale"),
        "kernel": ("direction",),
        "kernel_and_bias": ("direction", "bias"),
    }

    #: Whether g scales the kernel instead of the outputs if all rows share a draw. A
    #: convolution has far fewer weights than outputs.
    SCALES_KERNEL = False

    # Attributes of the Keras layer.
    compute_dtype: str
    dtype_policy: keras.DTypePolicy
    quantization_mode: str | None

    def __init__(self, *args, random="scale", scale_initializer=None, **kwargs):
        if kwargs.get("lora_rank") or kwargs.get("quantization_config"):
            raise ValueError(
                f"{type(self).__name__} supports neither `lora_rank` nor "
                "`quantization_config`: the kernel of a weight-normalised layer is "
                "a direction. Leave them out."
            )
        super().__init__(*args, random=random, **kwargs)
        self._refuse_quantized()
        self.scale_initializer = keras.initializers.get(scale_initializer)

    def _refuse_quantized(self):
        if self.quantization_mode is not None:
            raise ValueError(
                f"{type(self).__name__} cannot have the quantised dtype policy "
                f"{self.dtype_policy.name!r}: the kernel of a weight-normalised layer "
                "is a direction. `model.draw()` gives an ordinary network to quantise."
            )

    @property
    def direction(self):
        """The variable v, which Keras's layers call their kernel."""
        return keras_adapter.kernel_of(self)

    def build(self, input_shape):
        # Only now is it known which policy of a map is the layer's.
        self._refuse_quantized()
        super().build(input_shape)
        self.scale = None
        if not generates_kernel(self.random):
            initializer = self.scale_initializer or self.kernel_norm
            self.scale = self.add_weight(
                name="scale", shape=self._scale_shape(), initializer=initializer
            )
        self.input_scale = None
        if self.random == "rank_one":
            sizes = [input_shape[axis] for axis in self._axes_of_inputs(input_shape)]
            self.input_scale = self.add_weight(
                name="input_scale", shape=sizes, initializer="ones"
            )

    def add_weight(self, *args, **kwargs):
        # A direction may be too short for half precision: under mixed precision it is
        # cast only after it is normalised.
        return super().add_weight(*args, **{**kwargs, "autocast": False})

    # -- geometry: the axes of the kernel that belong to one output -----------------

    def norm_axes(self) -> list[int]:
        """Axes of the kernel over which the norm is taken: all but the outputs."""
        return list(range(len(self.direction.shape) - 1))

    def _channel_axis(self) -> int:
        """Axis of the outputs that the scales multiply."""
        channels_first = getattr(self, "data_format", None) == "channels_first"
        return 1 if channels_first else -1

    def _axes_of_inputs(self, input_shape) -> list[int]:
        """Axes of the inputs whose entries have scales of their own, in order."""
        return [self._channel_axis()]

    def _scale_shape(self) -> tuple[int, ...]:
        axes = self.norm_axes()
        shape = self.direction.shape
        return tuple(size for axis, size in enumerate(shape) if axis not in axes)

    def kernel_norm(self, shape=None, dtype="float32"):
        """‖v‖ of every output: the scales with which the layer equals its Keras twin.

        A kernel of zeros has scale 1, with which it is still zero and can learn. The
        arguments are an initialiser's.
        """
        return tf.cast(1.0 / inverse_norm(self.direction, self.norm_axes()), dtype)

    # -- the layer ------------------------------------------------------------------

    def _product(self, inputs, kernel):
        """The linear map of inputs and kernel, without bias and activation."""
        raise NotImplementedError

    def call(self, inputs):
        shared = generated_value(self) or self.shared_by_draws()
        if self.input_scale is not None:
            axes = self._axes_of_inputs(inputs.shape)
            inputs = self.as_floats(inputs)
            inputs *= over_axes(self.input_scale, axes, inputs)
        scale = None if self.scale is None else current_value(self.scale)
        outputs = shared.product
        if outputs is None and self._scales_kernel(scale):
            factor = tf.cast(scale, shared.inverse_norm.dtype) * shared.inverse_norm
            outputs, scale = self._checked_product(inputs, factor), None
        elif outputs is None:
            outputs = self._unscaled_product(inputs, shared.inverse_norm)
        if scale is not None:
            if self._normalizes_outputs:
                scale = tf.cast(scale, shared.inverse_norm.dtype) * shared.inverse_norm
            outputs *= self._over_outputs(scale, self.scale, outputs)
        if self.bias is not None:
            outputs += self._over_outputs(current_value(self.bias), self.bias, outputs)
        return outputs if self.activation is None else self.activation(outputs)

    def shared_by_draws(self, inputs=None) -> "SharedByDraws":
        """What the layer need not compute again for every draw of its scales.

        Args:
            inputs: Inputs that are the same for all draws; `None` if they differ.

        Returns:
            A value to give the layer in a scope of generated values.
        """
        if self.scale is None:
            return SharedByDraws(None, None)
        factor = inverse_norm(self.direction, self.norm_axes())
        if inputs is None or self.input_scale is not None:
            return SharedByDraws(factor, None)
        product = self._unscaled_product(inputs, factor)
        return SharedByDraws(factor, product)

    def _scales_kernel(self, scale) -> bool:
        is_shared = scale is not None and not is_of_rows(scale, self.scale)
        return self.SCALES_KERNEL and is_shared

    @property
    def _normalizes_outputs(self) -> bool:
        # Half precision holds v/‖v‖, but not every 1/‖v‖.
        return self.compute_dtype in ("float32", "float64")

    def _unscaled_product(self, inputs, factor):
        """The product to be scaled: with v, or with v/‖v‖ in half precision."""
        return self._checked_product(
            inputs, None if self._normalizes_outputs else factor
        )

    def _checked_product(self, inputs, factor):
        """The product with a kernel whose outputs are each multiplied by a factor."""
        inputs = self.as_floats(inputs)
        kernel = current_value(self.direction)
        if factor is not None:
            kernel = tf.cast(kernel, factor.dtype) * self._over_kernel(factor)
        return self._product(inputs, tf.cast(kernel, self.compute_dtype))

    def _over_kernel(self, values):
        """Shapes one value for each output so that it multiplies the kernel."""
        sizes, axes = self.direction.shape, self.norm_axes()
        return tf.reshape(
            values, [1 if axis in axes else size for axis, size in enumerate(sizes)]
        )

    def _over_outputs(self, values, variable, outputs):
        """Shapes the values of a variable, or a set for each row, like the outputs."""
        num_rows = -1 if is_of_rows(values, variable) else 1
        shape = [num_rows] + [1] * (len(outputs.shape) - 1)
        shape[self._channel_axis()] = outputs.shape[self._channel_axis()]
        return tf.cast(tf.reshape(values, shape), outputs.dtype)

    def _axes_of_scales(self, rank: int) -> list[int]:
        """Axes of outputs of a rank that correspond to the scales' axes, in order."""
        return [self._channel_axis() % rank]

    def moments_of_outputs(self, outputs, masks) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of pre-activations over all but the scales' axes.

        Args:
            outputs: A list of pre-activations [B, ...], one for each use of the layer.
            masks: For each of these, which are not padding (leading axes), or `None`.

        Returns:
            Two tensors of the scale's size, flat.
        """

        def flat(values):
            rank = len(values.shape)
            kept = self._axes_of_scales(rank)
            others = [axis for axis in range(rank) if axis not in kept]
            values = tf.transpose(tf.cast(values, tf.float32), others + kept)
            return tf.reshape(values, [-1, tf.size(self.scale)])

        values = tf.concat(list(map(flat, outputs)), axis=0)
        if all(mask is None for mask in masks):
            return tf.nn.moments(values, axes=[0])
        counts = [
            flat(tf.broadcast_to(_with_axes_of(mask, each), each.shape))
            for each, mask in zip(outputs, masks, strict=True)
        ]
        return tf.nn.weighted_moments(values, [0], tf.concat(counts, axis=0))

    def folded_kernel(self) -> tf.Tensor:
        """The kernel with its scales in it, those of the scope of this call."""
        kernel = current_value(self.direction)
        if self.scale is not None:
            factor = inverse_norm(self.direction, self.norm_axes())
            factor *= tf.cast(current_value(self.scale), factor.dtype)
            kernel = tf.cast(kernel, factor.dtype) * self._over_kernel(factor)
        if self.input_scale is not None:
            values = tf.cast(current_value(self.input_scale), kernel.dtype)
            kernel *= self._inputs_over_kernel(values)
        return kernel

    def _inputs_over_kernel(self, values):
        """Shapes the scales of inputs like the kernel, [..., inputs, outputs].

        With groups, an output has only the inputs of its group.
        """
        groups = getattr(self, "groups", 1)
        by_group = tf.transpose(tf.reshape(values, [groups, -1]))
        return tf.repeat(by_group, self.direction.shape[-1] // groups, axis=1)

    def kernel_of(self, layer):
        """The variable of a Keras layer that corresponds to this one's direction."""
        return layer.kernel

    def fold_into(self, layer):
        self.kernel_of(layer).assign(self.folded_kernel())
        if self.bias is not None:
            layer.bias.assign(current_value(self.bias))

    # -- saving ---------------------------------------------------------------------

    # Keras's own methods store the kernel and the bias by name; the scales are
    # weights as well.
    def save_own_variables(self, store):
        keras.layers.Layer.save_own_variables(self, store)

    def load_own_variables(self, store):
        keras.layers.Layer.load_own_variables(self, store)

    def enable_lora(self, *args, **kwargs):
        raise ValueError(
            f"{type(self).__name__} does not support LoRA: its kernel is a direction."
        )

    def quantize(self, *args, **kwargs):
        raise NotQuantised(self)

    def get_config(self):
        return {
            **super().get_config(),
            "scale_initializer": keras.initializers.serialize(self.scale_initializer),
        }


def _with_axes_of(mask, values):
    """A mask with axes of 1 added for those it lacks; `None` masks nothing."""
    if mask is None:
        return tf.ones([1] * len(values.shape), tf.bool)
    return mask[(..., *[None] * (len(values.shape) - len(mask.shape)))]
