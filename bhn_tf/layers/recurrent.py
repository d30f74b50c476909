"""Recurrent layers: LSTM, GRU and the simple one."""

import keras

from bhn_tf.layers import recurrent_cells
from bhn_tf.layers.recurrent_weight_norm import RecurrentWeightNorm


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormLSTM(RecurrentWeightNorm, keras.layers.LSTM):
    """An LSTM with weight-normalised kernels, one draw for a whole sequence.

    The kernel of the inputs and that of the state have `4 · units` scales each, one for
    each unit of each gate.

    Args:
        units: Number of outputs.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.LSTM`.

    Inputs [B, steps, inputs], outputs [B, units] or [B, steps, units].

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormLSTM(16, return_sequences=True)
    both_ways = keras.layers.Bidirectional(layer)
    ```
    """

    CELL = recurrent_cells.LSTMCell


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormGRU(RecurrentWeightNorm, keras.layers.GRU):
    """A GRU with weight-normalised kernels, one draw for a whole sequence.

    The kernel of the inputs and that of the state have `3 · units` scales each, one for
    each unit of each gate.

    Args:
        units: Number of outputs.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.GRU`.

    Inputs [B, steps, inputs], outputs [B, units] or [B, steps, units].

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormGRU(16, reset_after=False)
    ```
    """

    CELL = recurrent_cells.GRUCell


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormSimpleRNN(RecurrentWeightNorm, keras.layers.SimpleRNN):
    """A fully connected recurrence with weight-normalised kernels.

    One draw holds for a whole sequence. The kernel of the inputs and that of the state
    have `units` scales each.

    Args:
        units: Number of outputs.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.SimpleRNN`.

    Inputs [B, steps, inputs], outputs [B, units] or [B, steps, units].

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormSimpleRNN(16, stateful=True)
    ```
    """

    CELL = recurrent_cells.SimpleRNNCell
