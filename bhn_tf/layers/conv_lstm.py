"""Convolutional LSTMs."""

import keras

from bhn_tf.layers.recurrent_cells import ConvLSTMCell
from bhn_tf.layers.recurrent_weight_norm import RecurrentWeightNorm


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConvLSTM1D(RecurrentWeightNorm, keras.layers.ConvLSTM1D):
    """A one-dimensional convolutional LSTM with weight-normalised filters.

    The kernel of the inputs and that of the state have `4 · filters` scales each, one
    for each filter of each gate. One draw holds for a whole sequence.

    Args:
        filters: Number of outputs.
        kernel_size: Length of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.ConvLSTM1D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConvLSTM1D(8, 3, padding="same")
    ```
    """

    CELL = ConvLSTMCell


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConvLSTM2D(RecurrentWeightNorm, keras.layers.ConvLSTM2D):
    """A two-dimensional convolutional LSTM with weight-normalised filters.

    The kernel of the inputs and that of the state have `4 · filters` scales each, one
    for each filter of each gate. One draw holds for a whole sequence.

    Args:
        filters: Number of outputs.
        kernel_size: Height and width of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.ConvLSTM2D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConvLSTM2D(8, 3, padding="same")
    ```
    """

    CELL = ConvLSTMCell


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormConvLSTM3D(RecurrentWeightNorm, keras.layers.ConvLSTM3D):
    """A three-dimensional convolutional LSTM with weight-normalised filters.

    The kernel of the inputs and that of the state have `4 · filters` scales each, one
    for each filter of each gate. One draw holds for a whole sequence.

    Args:
        filters: Number of outputs.
        kernel_size: Depth, height and width of the filters.
        random: "scale" (default), "scale_and_bias", "rank_one", "kernel",
            "kernel_and_bias" or "none": what a hypernet generates for the layer.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.ConvLSTM3D`.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormConvLSTM3D(8, 3, return_sequences=True)
    ```
    """

    CELL = ConvLSTMCell
