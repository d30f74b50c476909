"""The base of weight-normalised recurrent layers.

A recurrent layer has two kernels, one for its inputs and one for its state, and each
output of either (`4 · units` in an LSTM) has a scale: `x · (g v/‖v‖) + h · (r w/‖w‖) +
b`. One draw of g and r holds for a whole sequence (like the masks of Gal and
Ghahramani, "A Theoretically Grounded Application of Dropout in Recurrent Neural
Networks", 2016): changing weights within a sequence would not be one network of the
posterior.
"""

from typing import ClassVar

import keras
import tensorflow as tf

from bhn_tf.layers.generated import (
    current_value,
    generated_value,
    generated_values,
    is_of_rows,
)
from bhn_tf.layers.random_layer import RandomLayer, generates_kernel
from bhn_tf.layers.recurrent_cells import CellWeights, ScalesOfRows
from bhn_tf.norms import inverse_norm


class RecurrentWeightNorm(RandomLayer):
    """Mixin before a recurrent Keras layer: weight normalisation, random scales.

    The Keras layer keeps its constructor, its loop and its step; the kernels in its
    cell become directions.

    Args:
        random: What a hypernet generates for the layer: "scale" (of the kernel and of
            the recurrent kernel), "scale_and_bias", "rank_one" (also a scale for each
            input feature or channel and for each unit of the state, initially 1),
            "kernel", "kernel_and_bias" (both kernels whole) or "none".
        scale_initializer: Initial scales of both kernels. `None`: the norms of the
            drawn kernels, so that a fresh layer equals its Keras twin.
    """

    GENERATED: ClassVar = {
        "none": (),
        "scale": ("scale", "recurrent_scale"),
        "scale_and_bias": ("scale", "recurrent_scale", "bias"),
        "rank_one": (
            *("scale", "recurrent_scale"),
            *("input_scale", "recurrent_input_scale"),
        ),
        "kernel": ("direction", "recurrent_direction"),
        "kernel_and_bias": ("direction", "recurrent_direction", "bias"),
    }

    #: The class of the layer's cell.
    CELL: ClassVar[type]

    # Provided by the Keras layer.
    cell: keras.Layer
    stateful: bool

    def __init__(self, *args, random="scale", scale_initializer=None, **kwargs):
        super().__init__(*args, random=random, **kwargs)
        # Keras's layers create their cells themselves and accept no other.
        self.cell.__class__ = self.CELL
        self.scale_initializer = keras.initializers.get(scale_initializer)

    @property
    def direction(self):
        """The variable v of the kernel of inputs."""
        return self.cell.direction

    @property
    def recurrent_direction(self):
        """The variable w of the kernel of states."""
        return self.cell.recurrent_direction

    @property
    def bias(self):
        """The variable of the biases, or `None`."""
        return self.cell.own_bias

    def build(self, sequences_shape, initial_state_shape=None):
        super().build(sequences_shape, initial_state_shape)
        self.scale = self.recurrent_scale = None
        if not generates_kernel(self.random):
            self.scale = self._add_scale("scale", self.direction)
            self.recurrent_scale = self._add_scale(
                "recurrent_scale", self.recurrent_direction
            )
        self.input_scale = self.recurrent_input_scale = None
        if self.random == "rank_one":
            self.input_scale = self._add_input_scale("input_scale", self.direction)
            self.recurrent_input_scale = self._add_input_scale(
                "recurrent_input_scale", self.recurrent_direction
            )

    def _add_scale(self, name, direction):
        initializer = self.scale_initializer or (
            lambda shape, dtype=None: _norm(direction, dtype)
        )
        return self.add_weight(
            name=name,
            shape=direction.shape[-1:],
            initializer=initializer,
            autocast=False,
        )

    def _add_input_scale(self, name, direction):
        return self.add_weight(
            name=name, shape=direction.shape[-2:-1], initializer="ones", autocast=False
        )

    def take_weights_of(self, layer) -> None:
        """Takes the weights of a layer of equal sizes, Keras's or of this kind.

        Args:
            layer: A built layer; this one then computes the same.
        """
        for prefix in ("", "recurrent_"):
            kernel = getattr(layer.cell, f"{prefix}kernel")
            given = getattr(layer, f"{prefix}scale", None)
            given_inputs = getattr(layer, f"{prefix}input_scale", None)
            input_scale = getattr(self, f"{prefix}input_scale")
            if input_scale is None and given_inputs is not None:
                kernel, given = layer.folded_kernel(prefix), None
            elif input_scale is not None and given_inputs is not None:
                input_scale.assign(given_inputs)
            direction = getattr(self, f"{prefix}direction")
            direction.assign(kernel)
            scale = getattr(self, f"{prefix}scale")
            if scale is not None:
                scale.assign(_norm(direction, scale.dtype) if given is None else given)
        if self.bias is not None:
            self.bias.assign(layer.cell.bias)

    def folded_kernel(self, prefix) -> tf.Tensor:
        """A kernel with the scales of the current scope folded in.

        Args:
            prefix: "" for the kernel of inputs, "recurrent_" for that of states.
        """
        names = ("direction", "scale", "input_scale")
        return self._full_kernel(*(getattr(self, prefix + name) for name in names))

    def fold_into(self, layer):
        cell = layer.cell
        cell.kernel.assign(self.folded_kernel(""))
        cell.recurrent_kernel.assign(self.folded_kernel("recurrent_"))
        if self.bias is not None:
            cell.bias.assign(current_value(self.bias))

    # -- the layer ------------------------------------------------------------------

    def call(self, sequences, initial_state=None, mask=None, training=False):
        sequences = self.as_floats(sequences)
        weights = self._weights_of_cell()
        if weights.of_rows is not None and self.input_scale is not None:
            sequences = self._scaled_by_rows(sequences)
        # The weights are computed here, outside the loop over steps that reads them.
        with generated_values({id(self.cell): weights}):
            return super().call(
                sequences, initial_state=initial_state, mask=mask, training=training
            )

    def inner_loop(self, sequences, initial_state, mask, training=False):
        if generated_value(self.cell).of_rows is None:
            return super().inner_loop(sequences, initial_state, mask, training)
        # Not with cuDNN, which takes one kernel for all rows.
        mask = mask[0] if keras.tree.is_nested(mask) else mask
        return keras.layers.RNN.inner_loop(
            self, sequences, initial_state, mask, training
        )

    def _weights_of_cell(self) -> CellWeights:
        """The cell's weights in this call."""
        if self._has_draw_for_each_row():
            return CellWeights(
                self._kernel(self.direction, None, None),
                self._kernel(self.recurrent_direction, None, None),
                self._of_rows(self.bias),
                ScalesOfRows(
                    self._of_rows(self.scale),
                    self._of_rows(self.recurrent_scale),
                    self._of_rows(self.recurrent_input_scale),
                ),
            )
        return CellWeights(
            self._kernel(self.direction, self.scale, self.input_scale),
            self._kernel(
                self.recurrent_direction,
                self.recurrent_scale,
                self.recurrent_input_scale,
            ),
            None if self.bias is None else self._cast(current_value(self.bias)),
            None,
        )

    def _kernel(self, direction, scale, input_scale):
        """As `_full_kernel`, in the dtype of the step."""
        return self._cast(self._full_kernel(direction, scale, input_scale))

    def _full_kernel(self, direction, scale, input_scale):
        """A kernel with its scales folded in; without scales, of norm 1."""
        kernel = current_value(direction)
        if self.scale is not None:
            factor = _inverse_norm(kernel)
            if scale is not None:
                factor *= tf.cast(current_value(scale), factor.dtype)
            kernel = tf.cast(kernel, factor.dtype) * factor
        if input_scale is not None:
            kernel *= tf.cast(current_value(input_scale), kernel.dtype)[:, None]
        return kernel

    def _has_draw_for_each_row(self) -> bool:
        return any(
            is_of_rows(current_value(variable), variable)
            for variable in self.generated_weights
        )

    def _of_rows(self, variable):
        """The current value of a variable with a leading axis of rows, or `None`."""
        if variable is None:
            return None
        value = current_value(variable)
        return self._cast(value if is_of_rows(value, variable) else value[None])

    def _cast(self, value):
        return tf.cast(value, self.cell.compute_dtype)

    def _scaled_by_rows(self, sequences):
        """Multiplies every feature, or channel, of sequences by its scale."""
        is_first = getattr(self, "data_format", None) == "channels_first"
        shape = [1] * len(sequences.shape)
        shape[2 if is_first else -1] = self.input_scale.shape[0]
        shape[0] = -1
        scale = tf.reshape(self._of_rows(self.input_scale), shape)
        return sequences * tf.cast(scale, sequences.dtype)

    def get_config(self):
        config = {
            **super().get_config(),
            "scale_initializer": keras.initializers.serialize(self.scale_initializer),
        }
        # Arguments missing from Keras's `get_config`.
        if hasattr(self, "use_cudnn"):
            config["use_cudnn"] = self.use_cudnn
            config["implementation"] = self.cell.implementation
        return config


def _inverse_norm(kernel):
    """1 / the norm of each column; see `norms.inverse_norm`."""
    return inverse_norm(kernel, list(range(len(kernel.shape) - 1)))


def _norm(kernel, dtype):
    """The norm of each column; 1 for a column of zeros, so that it can learn."""
    return tf.cast(1.0 / _inverse_norm(kernel), dtype)
