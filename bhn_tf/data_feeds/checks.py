"""Refuses data that would silently spoil training: empty, NaN, meaningless labels.

Arrays are checked before any work. Data sets are checked batch by batch in their own
pipeline, since XLA drops assertions from a training step.
"""

import contextlib
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.data_feeds.feed import NO_ROW, leaves_of, unpacked

# Beginning of the message of a failed check in a data set.
_FAILED_CHECK = "A batch has"
# Rows checked at a time, so that arrays on disk are not read whole.
_ROWS_AT_ONCE = 65_536


class BatchChecks:
    """The checks that a model makes of its data.

    Args:
        likelihood: Knows which labels have a meaning.
        raw_shapes: Shape of the raw outputs, or a list of them, rows first; `None`
            if they are not known yet, and labels are then not checked.
        mask: Maps inputs to the mask of the raw outputs, or a list of them; `None`
            if the network makes no mask. Labels under a mask may be anything.
    """

    def __init__(self, likelihood, raw_shapes, mask: Callable | None = None):
        self._likelihood = likelihood
        self._raw_shapes = raw_shapes
        self._mask = mask

    # -- arrays ---------------------------------------------------------------------

    def check(self, x, y=None, sample_weight=None) -> None:
        """Checks arrays of inputs, labels and weights.

        Args:
            x: Array [rows, ...] or a structure of arrays.
            y: Labels, or `None`.
            sample_weight: Weights of rows or elements, or `None`.

        Raises:
            ValueError: If there are no rows, numbers of rows differ, inputs or weights
                are not finite, weights are negative, or labels have no meaning.
        """
        self.check_rows(x, y, sample_weight)
        for leaf in leaves_of(x):
            _refuse_not_finite("x", leaf)
        for leaf in leaves_of(sample_weight):
            _refuse_not_finite("sample_weight", leaf)
            if any((rows < 0).any() for rows in _slices(leaf)):
                raise ValueError(
                    "`sample_weight` has negative values: training would drive the "
                    "likelihood of those rows down without end. Give weights of at "
                    "least 0."
                )
        if y is not None and self._raw_shapes is not None:
            self._check_labels(x, y, sample_weight)

    def weights_as_labels(self, sample_weight, y):
        """Gives checked weights the structure of the labels, as Keras wants them."""
        if y is None or self._raw_shapes is None:
            return sample_weight
        return self._likelihood.weights_as_labels(sample_weight, y)

    def check_rows(self, x, y=None, sample_weight=None) -> None:
        """Checks that there are rows, and equally many in all arrays.

        Raises:
            ValueError: If not.
        """
        rows = {int(leaf.shape[0]) for leaf in leaves_of(x)}
        if rows == {0}:
            raise ValueError(NO_ROW)
        if len(rows) > 1:
            raise ValueError(
                f"The inputs `x` have different numbers of rows: {sorted(rows)}. Give "
                "each the same rows."
            )
        for name, values in (("y", y), ("sample_weight", sample_weight)):
            for leaf in leaves_of(values):
                if len(leaf.shape) == 0:
                    raise ValueError(
                        f"`{name}` is a single number. Give one for each row of `x`."
                    )
                if int(leaf.shape[0]) not in rows:
                    raise ValueError(
                        f"`x` has {sorted(rows)} rows, but `{name}` has "
                        f"{int(leaf.shape[0])}. Give one for each row."
                    )

    def _check_labels(self, x, y, sample_weight):
        y = keras.tree.map_structure(_as_numpy, y)
        weight = keras.tree.map_structure(_as_numpy, sample_weight)
        if self._mask is None:
            self._likelihood.check_labels(y, self._raw_shapes, weight)
            return
        try:
            self._likelihood.check_labels(y, self._raw_shapes, weight)
        except ValueError:
            # The wrong labels may be padding; finding out takes a pass.
            mask = self._mask(x)
            self._likelihood.check_labels(y, self._raw_shapes, weight, mask)

    # -- data sets -------------------------------------------------------------------

    def checked_element(self, *batch):
        """Returns an element of a data set that depends on assertions about it."""
        element = batch if len(batch) > 1 else batch[0]
        x, y, sample_weight = unpacked(element)
        same_rows = _same_rows(leaves_of((x, y, sample_weight)))
        checks = [same_rows]
        for name, values in (("x", x), ("sample_weight", sample_weight)):
            for leaf in map(_dense_values, leaves_of(values)):
                if leaf.dtype.is_floating:
                    # Cast as in the network, since float64 may hold larger numbers.
                    finite = tf.math.is_finite(tf.cast(leaf, tf.float32))
                    wrong = f"NaN or infinite values in `{name}`."
                    checks.append(_assertion(finite, wrong))
                if name == "sample_weight" and not leaf.dtype.is_bool:
                    wrong = f"negative values in `{name}`."
                    checks.append(_assertion(~(leaf < 0), wrong))
        if y is not None and self._raw_shapes is not None:
            advice = self._likelihood.label_advice(self._raw_shapes)
            if any(leaf.dtype == tf.string for leaf in leaves_of(y)):
                raise ValueError(f"Labels of dtype string are no numbers: {advice}")
            # Comparing labels with weights by element needs equally many rows.
            with tf.control_dependencies([same_rows]):
                valid = self._valid_labels(x, y, sample_weight)
            checks.append(_assertion(valid, f"labels without a meaning: {advice}"))
        with tf.control_dependencies(checks):
            return tf.nest.map_structure(tf.identity, element)

    def _valid_labels(self, x, y, sample_weight):
        def valid(mask=None):
            return self._likelihood.valid_labels(
                y, self._raw_shapes, sample_weight, mask
            )

        if self._mask is None:
            return valid()
        is_valid = valid()
        return tf.cond(is_valid, lambda: is_valid, lambda: valid(self._mask(x)))


def _dense_values(leaf) -> tf.Tensor:
    """The numbers of a tensor, also of a sparse or ragged one."""
    if isinstance(leaf, tf.SparseTensor):
        return leaf.values
    return leaf.flat_values if isinstance(leaf, tf.RaggedTensor) else leaf


def _same_rows(leaves) -> tf.Operation:
    """Asserts that all tensors of a batch have equally many rows."""
    rows = tf.stack([tf.shape(leaf, out_type=tf.int64)[0] for leaf in leaves])
    return _assertion(
        rows == rows[0],
        "different numbers of rows in `x`, `y` and `sample_weight`.",
    )


def _assertion(valid, wrong: str) -> tf.Operation:
    """Asserts that all is valid; `readable_data_errors` reports what was wrong."""
    return tf.debugging.Assert(tf.reduce_all(valid), [f"{_FAILED_CHECK} {wrong}"])


def _as_numpy(leaf):
    if isinstance(leaf, tf.SparseTensor | tf.RaggedTensor):
        return keras.ops.convert_to_numpy(_dense_values(leaf))
    if hasattr(leaf, "tocsr"):
        return leaf.tocsr().data
    return leaf if leaf is None else np.asarray(leaf)


def _slices(leaf) -> Iterator[np.ndarray]:
    """The numbers of an array of any library, some rows at a time."""
    if hasattr(leaf, "iloc"):
        leaf = leaf.iloc
    elif (
        not hasattr(leaf, "__getitem__")
        or hasattr(leaf, "tocsr")
        or isinstance(leaf, tf.RaggedTensor | tf.SparseTensor)
    ):
        yield _as_numpy(leaf)
        return
    num_rows = len(leaf.obj) if hasattr(leaf, "obj") else int(leaf.shape[0])
    for start in range(0, num_rows, _ROWS_AT_ONCE):
        yield np.asarray(leaf[start : start + _ROWS_AT_ONCE])


def _refuse_not_finite(name, values) -> None:
    start = 0
    for rows in _slices(values):
        found = np.flatnonzero(~which_are_finite(rows))
        if found.size:
            raise ValueError(
                f"`{name}` has values that are NaN or infinite in {len(found)} "
                f"rows, the first of them row {start + found[0]}. One such row "
                "turns every weight into NaN: remove or mend these rows."
            )
        start += len(rows)


def which_are_finite(rows: np.ndarray) -> np.ndarray:
    """Tells which rows float32, in which networks work, holds without NaN or infinity.

    Args:
        rows: An array of any dtype, rows first.

    Returns:
        Booleans, [rows].

    Example:
        >>> which_are_finite(np.array([[0.0, np.nan], [1.0, 2.0]])).tolist()
        [False, True]
    """
    # NumPy does not know bfloat16 as a dtype of floats.
    if rows.dtype.kind != "f" and rows.dtype.name != "bfloat16":
        return np.ones(len(rows), bool)
    with np.errstate(over="ignore"):
        finite = np.isfinite(rows.astype("float32", copy=False))
    return finite.all(axis=tuple(range(1, finite.ndim)))


@contextlib.contextmanager
def readable_data_errors() -> Iterator[None]:
    """Turns the error of a failed check in a data set into a `ValueError`."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        message = error.message or str(error)
        start = message.find(_FAILED_CHECK)
        if start < 0:
            raise
        # A bracket follows if a graph raised it, a quote if it was eager.
        sentence = message[start:].split("\n")[0].rstrip("]\"'")
        raise ValueError(sentence) from error
