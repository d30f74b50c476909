"""Conditioners: the weight-normalised networks inside a flow layer.

The paper uses weight normalisation inside the hypernetwork too and starts it from
small weights (section "Efficient Parametrization and Training"). With zero biases,
every conditioner returns exactly zero at zero and almost zero elsewhere, so that a
fresh flow is close to the identity. Both can be changed, to see what they are good for.
"""

import itertools
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.norms import sum_of_squares

_NORM_SMOOTHING = 1e-6
# More blocks store fewer of a mask's zeros, but need more and smaller products.
_NUM_BLOCKS = 4
_FEWEST_COLUMNS = 8


def soft_bound(values, bound: float) -> tf.Tensor:
    """Bounds `values` smoothly to (-bound, bound): `bound * tanh(values / bound)`.

    The scales of a flow's layers multiply. Without bounds, a draw slightly out in the
    tails of the noise is thrown hundreds of standard deviations away: one draw in a
    thousand then dominates the mean of the KL, and the product can overflow float32.
    """
    return bound * tf.tanh(values / bound)


class WeightNormConditionerDense(keras.layers.Layer):
    """A dense layer `x · (r v/‖v‖) + b`, float32, with an optional mask on `v`.

    Without weight normalisation it is `x · v + b`. Keras finds its weights in files by
    the name of the class, which therefore stays.

    Half of a MADE's matrix is masked, so v is kept in blocks of columns, each with only
    the rows that its columns see: masked entries are neither stored nor trained, except
    for the staircase within a block.

    Args:
        units: Number of outputs.
        scale: Initial value of every r, or the norm that each column of v has at first
            on average.
        mask: Optional array [inputs, units] of zeros and ones; connections with a
            zero do not exist. Each unit must see the first n inputs, with n never
            falling from one unit to the next. A unit without any connection outputs
            its bias.
        weight_norm: Whether v is normalised.
    """

    def __init__(
        self, units: int, scale: float, mask=None, weight_norm: bool = True, **kwargs
    ):
        # Whatever the dtype policy, densities need float32.
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.units = units
        self.scale_value = scale
        self.weight_norm = weight_norm
        # These counts describe the mask, which itself is as large as the weights.
        self.num_visible = None if mask is None else np.sum(mask, axis=0, dtype="int32")

    def build(self, input_shape):
        self._blocks = column_blocks(input_shape[-1], self.units, self.num_visible)
        self.directions = [
            self.add_weight(
                name="direction" if index == 0 else f"direction_{index}",
                shape=(block.num_rows, block.stop - block.start),
                initializer=keras.initializers.RandomNormal(
                    stddev=0.05
                    if self.weight_norm
                    else self.scale_value / block.num_rows**0.5
                ),
            )
            for index, block in enumerate(self._blocks)
        ]
        if self.weight_norm:
            self.scale = self.add_weight(
                name="scale",
                shape=(self.units,),
                initializer=keras.initializers.Constant(self.scale_value),
            )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer="zeros"
        )

    def call(self, inputs):
        products, squares = [], []
        for block, direction in zip(self._blocks, self.directions, strict=True):
            direction = tf.convert_to_tensor(direction)
            if block.num_visible is not None:
                rows = np.arange(block.num_rows, dtype="int32")[:, np.newaxis]
                is_visible = tf.less(rows, block.num_visible)
                direction = tf.where(is_visible, direction, 0.0)
            squares.append(sum_of_squares(direction, [0]))
            is_whole = block.num_rows == inputs.shape[-1]
            seen = inputs if is_whole else inputs[..., : block.num_rows]
            products.append(tf.tensordot(seen, direction, axes=1))
        outputs = tf.concat(products, axis=-1)
        if self.weight_norm:
            outputs = self._normalized(outputs, tf.concat(squares, axis=0))
        return outputs + self.bias

    def _normalized(self, outputs, squares):
        """Outputs `x · v` as those of `r v/‖v‖`, from the squares of the norms."""
        # A unit with a single input has no direction to learn, so its exact gradient
        # is zero: the smoothing keeps it trainable, and the norm above zero.
        norm = tf.sqrt(squares + _NORM_SMOOTHING)
        # A division, since XLA keeps the quotient for the gradient, but would recompute
        # a product with the reciprocal for every weight.
        return outputs / norm * self.scale


class ColumnBlock(NamedTuple):
    """Columns `start` to `stop` of a masked matrix, and what they see.

    The block has the first `num_rows` rows, of which each column sees its first
    `num_visible`.
    """

    start: int
    stop: int
    num_rows: int
    num_visible: np.ndarray | None


def column_blocks(num_inputs: int, units: int, num_visible) -> list[ColumnBlock]:
    """Cuts a masked matrix into blocks of columns that share their visible rows.

    Args:
        num_inputs: Rows of the matrix.
        units: Columns.
        num_visible: How many of the first rows each column sees, in ascending order,
            or `None` for a full matrix, which is one block.

    Returns:
        The blocks, in the order of the columns.
    """
    if num_visible is None:
        return [ColumnBlock(0, units, num_inputs, None)]
    # Units that see nothing join the first that see something: a block of them alone
    # would have weights without an effect.
    num_blind = int((num_visible == 0).sum())
    num_blocks = min(_NUM_BLOCKS, max((units - num_blind) // _FEWEST_COLUMNS, 1))
    edges = np.linspace(num_blind, units, num_blocks + 1).astype(int)
    edges[0] = 0
    blocks = []
    for start, stop in itertools.pairwise(edges):
        seen = num_visible[start:stop]
        blocks.append(ColumnBlock(start, stop, max(int(seen.max()), 1), seen))
    return blocks


class Conditioner(keras.layers.Layer):
    """Maps [..., inputs] to a bounded shift and log-scale, [..., outputs] each.

    Optional `gates` [..., units] multiply the units of the last hidden layer, so that
    one network can have several maps.

    Args:
        hidden_units: Sizes of the hidden layers; the paper has one of 200.
        max_log_scale: Bound of the log-scale.
        max_shift: Bound of the shift, or `None`.
        weight_norm: Whether its weights are normalised.
        initial_scale: r of the last layer at first. If it is small, noise has little
            effect at the beginning.
    """

    def __init__(
        self,
        hidden_units=(200,),
        max_log_scale=0.5,
        max_shift=2.0,
        weight_norm=True,
        initial_scale=0.01,
        **kwargs,
    ):
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.hidden_units = tuple(hidden_units)
        self.max_log_scale = max_log_scale
        self.max_shift = max_shift
        self.weight_norm = weight_norm
        self.initial_scale = initial_scale

    def _build_network(self, num_inputs, num_outputs, masks):
        """Creates one dense layer for each mask.

        The last outputs shift and log-scale of each entry side by side, so that both
        come from one product.
        """
        sizes = [*self.hidden_units, 2 * num_outputs]
        scales = [1.0] * len(self.hidden_units) + [self.initial_scale]
        self.dense_layers = [
            WeightNormConditionerDense(
                units, scale, mask, self.weight_norm, name=f"dense_{index}"
            )
            for index, (units, scale, mask) in enumerate(
                zip(sizes, scales, masks, strict=True)
            )
        ]
        for layer, size in zip(
            self.dense_layers, [num_inputs, *self.hidden_units], strict=True
        ):
            layer.build((None, size))

    def call(self, inputs, gates=None):
        hidden = inputs
        for layer in self.dense_layers[:-1]:
            hidden = tf.nn.relu(layer(hidden))
        if gates is not None:
            hidden *= gates
        outputs = self.dense_layers[-1](hidden)
        pairs = tf.reshape(outputs, [*_leading(outputs), outputs.shape[-1] // 2, 2])
        shift, log_scale = tf.unstack(pairs, axis=-1)
        if self.max_shift is not None:
            shift = soft_bound(shift, self.max_shift)
        return shift, soft_bound(log_scale, self.max_log_scale)


def _leading(outputs):
    """Sizes of all axes but the last."""
    shape = tf.shape(outputs)
    return [
        shape[axis] if size is None else size
        for axis, size in enumerate(outputs.shape[:-1])
    ]


def conditioner_options(owner) -> dict:
    """Returns the arguments of a `Conditioner` that its owner has as attributes.

    Args:
        owner: A layer or hypernet that was given them.
    """
    return {
        "hidden_units": owner.hidden_units,
        "max_log_scale": owner.max_log_scale,
        "max_shift": owner.max_shift,
        "weight_norm": owner.weight_norm,
        "initial_scale": owner.initial_scale,
    }


class CouplingConditioner(Conditioner):
    """The network of a coupling layer: ReLU, fully connected, weight-normalised.

    Args:
        num_outputs: Number of entries to be transformed.
        *args: See `Conditioner`.
        **kwargs: See `Conditioner`.
    """

    def __init__(self, num_outputs, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.num_outputs = num_outputs

    def build(self, input_shape):
        masks = [None] * (len(self.hidden_units) + 1)
        self._build_network(input_shape[-1], self.num_outputs, masks)


class MADE(Conditioner):
    """The masked network of an autoregressive flow: output i sees inputs before i.

    Germain et al., "MADE: Masked Autoencoder for Distribution Estimation" (2015).
    Inputs are taken in their natural order; permutations between layers vary it.

    Args:
        *args: See `Conditioner`.
        num_given: Leading inputs that every output sees; they have no outputs.
        **kwargs: See `Conditioner`.
    """

    def __init__(self, *args, num_given=0, **kwargs):
        super().__init__(*args, **kwargs)
        self.num_given = num_given

    def build(self, input_shape):
        event_size = input_shape[-1] - self.num_given
        masks = made_masks(event_size, self.hidden_units, self.num_given)
        # Shift and log-scale of an entry have the same rank.
        masks[-1] = np.repeat(masks[-1], 2, axis=1)
        self._build_network(input_shape[-1], event_size, masks)


def made_masks(event_size: int, hidden_units, num_given: int = 0) -> list[np.ndarray]:
    """Returns the masks of a MADE, [inputs, outputs] each, in layer order.

    Hidden degrees are spread evenly over 1 ... D - 1, in ascending order, so that
    every mask is block-triangular. If inputs are given, a quarter of the units see only
    those (degree 0): without such units the first output would see nothing.

    Args:
        event_size: D, at least 2, or 1 where inputs are given.
        hidden_units: Sizes of the hidden layers.
        num_given: Inputs in front of the D others, seen by every output.

    Returns:
        One array of zeros and ones for each layer, the output layer included.

    Example:
    ```python
    made_masks(2, [1])  # [array([[1.], [0.]]), array([[0., 1.]])]
    ```
    """
    outputs = np.arange(1, event_size + 1)
    inputs = np.concatenate([np.zeros(num_given, int), outputs])
    # The range includes both ends, or a layer with fewer units than inputs would not
    # see the last inputs.
    start = -event_size / 3 if num_given else 1
    end = np.nextafter(event_size, 0)
    degrees = [inputs] + [
        np.floor(np.linspace(start, end, units)).clip(min=0).astype(int)
        for units in hidden_units
    ]
    masks = [
        before[:, None] <= after[None, :]
        for before, after in itertools.pairwise(degrees)
    ]
    # An output never sees its own input, so degrees must be strictly smaller.
    masks.append(degrees[-1][:, None] < outputs[None, :])
    return [mask.astype("float32") for mask in masks]
