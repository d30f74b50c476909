"""Cells of recurrent layers: one step, with weights for all rows or for each.

Keras's cells read their weights in every step of a loop. Here the weights of a step are
computed once, before the loop, and the cell finds them in the scope of generated
values. If all rows share a draw, the scales are in the kernels and Keras's own step
runs; if each row has its own scales, they multiply the results of the products.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.layers.generated import generated_value


class ScalesOfRows(NamedTuple):
    """Scales of a step where rows have their own, [B, ...], or [1, ...] for all.

    Attributes:
        scale: Scales of the inputs' products, for each column of the kernel.
        recurrent_scale: Scales of the state's products.
        recurrent_input_scale: Scales of the state itself; `None` for none.
    """

    scale: tf.Tensor
    recurrent_scale: tf.Tensor
    recurrent_input_scale: tf.Tensor | None


class CellWeights(NamedTuple):
    """The weights of a cell during one call of its layer.

    Attributes:
        kernel: The kernel of the inputs.
        recurrent_kernel: The kernel of the state.
        bias: `None` for none; with a leading axis of rows if `of_rows` is given.
        of_rows: Scales that are not in the kernels; `None` if all rows share them.
    """

    kernel: tf.Tensor
    recurrent_kernel: tf.Tensor
    bias: tf.Tensor | None
    of_rows: ScalesOfRows | None


class WeightNormCell:
    """Mixin before a Keras cell, whose weights its layer provides for each call.

    Attributes:
        direction, recurrent_direction, own_bias: The variables that Keras's `build`
            makes as `kernel`, `recurrent_kernel` and `bias`.
    """

    # Provided by the Keras cell.
    dropout: float
    recurrent_dropout: float

    def add_weight(self, *args, **kwargs):
        # Full precision until the kernel is normalised, as in `WeightNorm`.
        return super().add_weight(*args, **{**kwargs, "autocast": False})

    @property
    def kernel(self):
        weights = generated_value(self)
        return self.direction if weights is None else weights.kernel

    @kernel.setter
    def kernel(self, variable):
        self.direction = variable

    @property
    def recurrent_kernel(self):
        weights = generated_value(self)
        return self.recurrent_direction if weights is None else weights.recurrent_kernel

    @recurrent_kernel.setter
    def recurrent_kernel(self, variable):
        self.recurrent_direction = variable

    @property
    def bias(self):
        weights = generated_value(self)
        return self.own_bias if weights is None else weights.bias

    @bias.setter
    def bias(self, variable):
        self.own_bias = variable

    def call(self, inputs, states, training=False):
        weights = generated_value(self)
        if weights is None or weights.of_rows is None:
            return super().call(inputs, states, training=training)
        states = keras.tree.flatten(states)
        masks = recurrent_masks = None
        if training and 0.0 < self.dropout < 1.0:
            masks = self.get_dropout_mask(inputs)
        if training and 0.0 < self.recurrent_dropout < 1.0:
            recurrent_masks = self.get_recurrent_dropout_mask(states[0])
        from_inputs = self._scaled_product(
            self._product, inputs, weights.kernel, masks, weights.of_rows.scale
        )
        return self._step(from_inputs, states, weights, recurrent_masks)

    def _step(self, from_inputs, states, weights, masks):
        """One step of the cell.

        Args:
            from_inputs: The inputs' products, without bias, for all gates.
            states: A list of the states.
            weights: `CellWeights` with `of_rows`.
            masks: Dropout of the state, one mask or one for each gate, or `None`.

        Returns:
            The output and the new states, as a Keras cell does.
        """
        raise NotImplementedError

    def _product(self, values, kernel):
        return keras.ops.matmul(values, kernel)

    def _recurrent_product(self, values, kernel):
        return keras.ops.matmul(values, kernel)

    def _channel_axis(self) -> int:
        return -1

    def _over(self, values, of_rows):
        """Reshapes numbers per row and channel so that they broadcast over values."""
        shape = [-1] + [1] * (len(values.shape) - 1)
        shape[self._channel_axis()] = of_rows.shape[-1]
        return tf.reshape(of_rows, shape)

    def _scaled_product(self, product, values, kernel, masks, scale):
        """A product with some columns of a kernel, scaled for each row.

        Args:
            product: A function of values and a kernel.
            values: Inputs of the step, or its state.
            kernel: Directions of norm 1.
            masks: Masks of dropout; a list has one for each gate among the columns.
            scale: Scales of the columns, rows first.
        """
        if isinstance(masks, list):
            kernels = keras.ops.split(kernel, len(masks), axis=-1)
            parts = [
                product(values * mask, part)
                for mask, part in zip(masks, kernels, strict=True)
            ]
            outputs = keras.ops.concatenate(parts, axis=self._channel_axis())
        else:
            outputs = product(values if masks is None else values * masks, kernel)
        return outputs * self._over(outputs, scale)

    def _from_state(self, state, weights, masks, columns=slice(None)):
        """The scaled product of the state with some columns of the recurrent kernel."""
        scales = weights.of_rows
        if scales.recurrent_input_scale is not None:
            state = state * self._over(state, scales.recurrent_input_scale)
        kernel = weights.recurrent_kernel[..., columns]
        scale = scales.recurrent_scale[:, columns]
        return self._scaled_product(
            self._recurrent_product, state, kernel, masks, scale
        )


class SimpleRNNCell(WeightNormCell, keras.layers.SimpleRNNCell):
    """A fully connected step."""

    def _step(self, from_inputs, states, weights, masks):
        outputs = from_inputs + self._from_state(states[0], weights, masks)
        if weights.bias is not None:
            outputs += weights.bias
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs, [outputs]


class _GatesOfLSTM(WeightNormCell):
    """The four gates of an LSTM, dense or convolutional."""

    def _step(self, from_inputs, states, weights, masks):
        state, carry = states
        gates = from_inputs + self._from_state(state, weights, masks)
        if weights.bias is not None:
            gates += self._over(gates, weights.bias)
        axis = self._channel_axis()
        enter, forget, change, leave = keras.ops.split(gates, 4, axis=axis)
        carry = self.recurrent_activation(forget) * carry
        carry += self.recurrent_activation(enter) * self.activation(change)
        state = self.recurrent_activation(leave) * self.activation(carry)
        return state, [state, carry]


class LSTMCell(_GatesOfLSTM, keras.layers.LSTMCell):
    """A step of an LSTM."""


class ConvLSTMCell(_GatesOfLSTM, keras_adapter.ConvLSTMCell):
    """A step of a convolutional LSTM."""

    def _product(self, values, kernel):
        return self.input_conv(values, kernel, padding=self.padding)

    def _recurrent_product(self, values, kernel):
        return self.recurrent_conv(values, kernel)

    def _channel_axis(self):
        return 1 if self.data_format == "channels_first" else -1


class GRUCell(WeightNormCell, keras.layers.GRUCell):
    """A step of a GRU, with the reset gate before or after the product."""

    def _step(self, from_inputs, states, weights, masks):
        state, units = states[0], self.units
        bias, recurrent_bias = weights.bias, None
        if bias is not None and self.reset_after:
            bias, recurrent_bias = bias[:, 0], bias[:, 1]
        if bias is not None:
            from_inputs += bias
        update, reset, change = keras.ops.split(from_inputs, 3, axis=-1)
        if self.reset_after:
            from_state = self._from_state(state, weights, masks)
            if recurrent_bias is not None:
                from_state += recurrent_bias
            of_change = from_state[:, 2 * units :]
        else:
            of_gates = masks[:2] if isinstance(masks, list) else masks
            columns = slice(2 * units)
            from_state = self._from_state(state, weights, of_gates, columns)
        update = self.recurrent_activation(update + from_state[:, :units])
        reset = self.recurrent_activation(reset + from_state[:, units : 2 * units])
        if self.reset_after:
            of_change = reset * of_change
        else:
            of_last = masks[2:] if isinstance(masks, list) else masks
            columns = slice(2 * units, None)
            of_change = self._from_state(reset * state, weights, of_last, columns)
        new = self.activation(change + of_change)
        state = update * state + (1 - update) * new
        return state, [state]
