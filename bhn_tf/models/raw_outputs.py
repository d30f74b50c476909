"""What the networks of a model return: structure, names, masks and precision."""

import keras
import tensorflow as tf

from bhn_tf import keras_adapter


class RawOutputs:
    """The raw outputs of a network, [B, ...], one or a structure of them.

    Args:
        spec: Symbolic outputs in their structure.
        compute_dtype: Dtype in which the network computes.
    """

    def __init__(self, spec, compute_dtype: str):
        self.spec = spec
        #: Results are float32 or better, even if the network computes in less.
        self.dtype = tf.float64 if compute_dtype == "float64" else tf.float32
        #: Whether the networks add their own losses; known once they have run.
        self.has_losses = False
        self._has_mask = [
            keras_adapter.mask_of(leaf) is not None for leaf in keras.tree.flatten(spec)
        ]

    @property
    def shapes(self):
        """The shape of the raw outputs, rows first, or a list of them."""
        shapes = [tuple(leaf.shape) for leaf in keras.tree.flatten(self.spec)]
        return shapes if keras.tree.is_nested(self.spec) else shapes[0]

    @property
    def num_masked(self) -> int:
        """How many outputs have a mask of padding."""
        return sum(self._has_mask)

    def as_result(self, values) -> tf.Tensor:
        """Casts to the dtype of results."""
        return tf.cast(values, self.dtype)

    def masks_of(self, raw) -> list:
        """Returns the mask of each output of a network, or `None`."""
        return [
            keras_adapter.mask_of(leaf) if has_mask else None
            for leaf, has_mask in zip(
                keras.tree.flatten(raw), self._has_mask, strict=True
            )
        ]

    def unpacked_masks(self, masks: list) -> list:
        """A mask or `None` for each output, from the masks that exist."""
        given = iter(masks)
        return [next(given) if has_mask else None for has_mask in self._has_mask]

    def for_likelihood(self, masks: list):
        """Masks as a likelihood takes them: a list only for several outputs."""
        if not self.num_masked:
            return None
        return masks if keras.tree.is_nested(self.spec) else masks[0]

    def largest_row(self) -> int:
        """The most numbers that one row has in an output."""
        return max(
            tf.TensorShape([size or 1 for size in leaf.shape[1:]]).num_elements()
            for leaf in keras.tree.flatten(self.spec)
        )

    def zeros_for(self, num_rows: int):
        """Raw outputs of zeros, to show shapes and structure."""
        return keras.tree.map_structure(
            lambda leaf: tf.zeros([num_rows, *(size or 1 for size in leaf.shape[1:])]),
            self.spec,
        )


def in_structure_of(outputs, values: list):
    """Returns a value for each output in the structure of the outputs.

    Args:
        outputs: One output, or a list or dictionary of them.
        values: In the order of `keras.tree.flatten`; `None` for no value, which a
            dictionary leaves out.

    Example:
        >>> in_structure_of({"b": 0, "a": 0}, [1, None]), in_structure_of(0, [2])
        ({'a': 1}, 2)
        >>> from collections import OrderedDict
        >>> in_structure_of(OrderedDict(b=0, a=0), [1, 2])
        {'b': 1, 'a': 2}
    """
    if not keras.tree.is_nested(outputs):
        return values[0]
    if isinstance(outputs, dict):
        names = keras_adapter.names_as_flattened(outputs)
        named = zip(names, values, strict=True)
        return {name: value for name, value in named if value is not None}
    return list(values)
