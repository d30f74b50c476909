"""Refusing data that would train on silently: empty, NaN, labels without a meaning.

Arrays are looked at before any work. Data sets are checked batch by batch in their
own pipeline, since XLA drops assertions from a training step.
"""

import contextlib
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.data_feeds.feed import NO_ROW, leaves_of, unpacked

# How the message of a failed check in a data set begins.
_FAILED_CHECK = "A batch has"
# Rows that are looked at once: what lies on a disk is not read whole.
_ROWS_AT_ONCE = 65_536


class BatchChecks:
    """What a model asks of its data.

    Args:
        likelihood: Knows which labels have a meaning.
        raw_shapes: Shape of the raw outputs, or a list of them, rows first; `None`
            where they are not known yet, so that labels are not checked.
        mask: Maps inputs to the mask of the raw outputs, or a list of them; `None`
            where the network makes no mask. What is under a mask may be anything.
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
                are not finite, or labels have no meaning.
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

    def check_rows(self, x, y=None, sample_weight=None) -> None:
        """Checks that there are rows, and as many of everything.

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
            # Only here it matters what is padded, and finding out takes a pass.
            mask = self._mask(x)
            self._likelihood.check_labels(y, self._raw_shapes, weight, mask)

    # -- data sets -------------------------------------------------------------------

    def checked_element(self, *batch):
        """Returns an element of a data set behind assertions on it."""
        element = batch if len(batch) > 1 else batch[0]
        x, y, sample_weight = unpacked(element)
        same_rows = _same_rows(leaves_of((x, y, sample_weight)))
        checks = [same_rows]
        for name, values in (("x", x), ("sample_weight", sample_weight)):
            for leaf in map(_dense_values, leaves_of(values)):
                if leaf.dtype.is_floating:
                    # As the network takes it: float64 may hold more.
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
            # Whose elements are compared with those of the weights.
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
    """Asserts that all tensors of a batch have as many rows."""
    rows = tf.stack([tf.shape(leaf, out_type=tf.int64)[0] for leaf in leaves])
    return _assertion(
        rows == rows[0],
        "different numbers of rows in `x`, `y` and `sample_weight`.",
    )


def _assertion(valid, wrong: str) -> tf.Operation:
    """Asserts that all is valid; `readable_data_errors` tells what was wrong."""
    return tf.debugging.Assert(tf.reduce_all(valid), [f"{_FAILED_CHECK} {wrong}"])


def _as_numpy(leaf):
    if isinstance(leaf, tf.SparseTensor | tf.RaggedTensor):
        return keras.ops.convert_to_numpy(_dense_values(leaf))
    if hasattr(leaf, "tocsr"):
        return leaf.tocsr().data
    return leaf if leaf is None else np.asarray(leaf)


def _slices(leaf) -> Iterator[np.ndarray]:
    """Numbers of an array of any library, some rows at a time."""
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
        if rows.dtype.kind == "f" or rows.dtype.name == "bfloat16":
            finite = np.isfinite(rows.astype("float32", copy=False))
            if not finite.all():
                found = np.flatnonzero(~finite.reshape(len(rows), -1).all(axis=1))
                raise ValueError(
                    f"`{name}` has values that are NaN or infinite in {len(found)} "
                    f"rows, the first of them row {start + found[0]}. One such row "
                    "turns every weight into NaN: remove or mend these rows."
                )
        start += len(rows)


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
        # In brackets where a graph raised it, and in quotes where it was eager.
        sentence = message[start:].split("\n")[0].rstrip("]\"'")
        raise ValueError(sentence) from error
