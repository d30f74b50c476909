"""Refusing data that would train on silently: empty, NaN, labels without a meaning.

Arrays are looked at before any work. Data sets are checked batch by batch in their
own pipeline, since XLA drops assertions from a training step.
"""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.data_feeds.num_examples import NO_BATCH, num_rows

# How the message of a failed check in a data set begins.
_FAILED_CHECK = "A batch has"


def check_arrays(x, y, sample_weight, check_labels, allow_nan_inputs=False) -> None:
    """Checks arrays of inputs, labels and weights.

    Args:
        x: Array [rows, ...] or a structure of arrays.
        y: Labels, or `None`.
        sample_weight: Weights [rows], or `None`.
        check_labels: Called with the labels; raises where they have no meaning.
        allow_nan_inputs: Whether a row may hold NaN (prediction: it yields NaN).

    Raises:
        ValueError: If there are no rows, numbers of rows differ, inputs or weights
            are not finite, or labels have no meaning.
    """
    leaves = keras.tree.flatten(x)
    rows = {int(leaf.shape[0]) for leaf in leaves if leaf is not None}
    if rows == {0}:
        raise ValueError("The data `x` are empty: no rows. Give at least one.")
    if len(rows) > 1:
        raise ValueError(
            f"The inputs `x` have different numbers of rows: {sorted(rows)}. Give "
            "each the same rows."
        )
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        for leaf in keras.tree.flatten(values):
            if leaf is not None and hasattr(leaf, "shape"):
                if int(leaf.shape[0]) not in rows:
                    raise ValueError(
                        f"`x` has {sorted(rows)} rows, but `{name}` has "
                        f"{int(leaf.shape[0])}. Give one for each row."
                    )
    if not allow_nan_inputs:
        for leaf in leaves:
            _refuse_not_finite("x", leaf)
    for leaf in keras.tree.flatten(sample_weight):
        if leaf is not None:
            _refuse_not_finite("sample_weight", leaf)
            if (np.asarray(leaf) < 0).any():
                raise ValueError(
                    "`sample_weight` has negative values: training would drive the "
                    "likelihood of those rows down without end. Give weights of at "
                    "least 0."
                )
    if y is not None:
        check_labels(y)


def _refuse_not_finite(name, values) -> None:
    values = np.asarray(values)
    if values.dtype.kind != "f" and values.dtype.name != "bfloat16":
        return
    finite = np.isfinite(values.astype("float32", copy=False))
    if not finite.all():
        rows = np.flatnonzero(~finite.reshape(len(values), -1).all(axis=1))
        raise ValueError(
            f"`{name}` has values that are NaN or infinite in {len(rows)} rows, the "
            f"first of them row {rows[0]}. One such row turns every weight into NaN: "
            "remove or mend these rows."
        )


def checked_dataset(dataset, valid_labels, label_advice) -> tf.data.Dataset:
    """Returns the data set with every batch checked where it is read.

    Args:
        dataset: A `tf.data.Dataset` of `(x, y)` or `(x, y, sample_weight)` batches.
        valid_labels: Maps labels to a boolean scalar tensor.
        label_advice: What labels are expected, for the message.

    Returns:
        A data set of the same elements and cardinality.
    """

    def check(*batch):
        element = batch if len(batch) > 1 else batch[0]
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
        checks = []
        for name, values in (("x", x), ("sample_weight", sample_weight)):
            for leaf in keras.tree.flatten(values):
                if tf.is_tensor(leaf) and leaf.dtype.is_floating:
                    valid, wrong = tf.math.is_finite(leaf), "NaN or infinite"
                    if name == "sample_weight":
                        valid, wrong = valid & (leaf >= 0), f"{wrong} or negative"
                    checks.append(
                        tf.debugging.Assert(
                            tf.reduce_all(valid),
                            [f"{_FAILED_CHECK} {wrong} values in `{name}`."],
                            name="check_finite",
                        )
                    )
        if y is not None:
            checks.append(
                tf.debugging.Assert(
                    valid_labels(y),
                    [f"{_FAILED_CHECK} labels without a meaning: {label_advice}"],
                    name="check_labels",
                )
            )
        with tf.control_dependencies([op for op in checks if op is not None]):
            return tf.nest.map_structure(tf.identity, element)

    checked = dataset.map(check, num_parallel_calls=tf.data.AUTOTUNE)
    return checked.prefetch(tf.data.AUTOTUNE)


def refuse_empty(dataset) -> None:
    """Raises `ValueError` for a data set, of `tf.data` or Keras, without a batch."""
    if isinstance(dataset, keras.utils.PyDataset):
        is_empty = dataset.num_batches == 0
    elif dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY:
        is_empty = next(iter(dataset.take(1)), None) is None
    else:
        is_empty = dataset.cardinality() == 0
    if is_empty:
        raise ValueError(NO_BATCH)


def batch_spec(x, y=None, sample_weight=None):
    """Returns what says dtype and shape of a batch's `(x, y, sample_weight)`.

    The leaves are arrays or specs; `None` where the data do not say, as a generator.
    """
    if isinstance(x, tf.data.Dataset):
        return keras.utils.unpack_x_y_sample_weight(x.element_spec)
    if isinstance(x, keras.utils.PyDataset):
        refuse_empty(x)
        return keras.utils.unpack_x_y_sample_weight(x[0])
    return None if num_rows(x) is None else (x, y, sample_weight)


class CheckedPyDataset(keras.utils.PyDataset):
    """A `PyDataset` whose batches are checked as they are read.

    Args:
        dataset: The `PyDataset` of `(x, y)` or `(x, y, sample_weight)` batches.
        check_labels: Called with the labels of a batch; raises where they have no
            meaning.
    """

    def __init__(self, dataset, check_labels):
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self._dataset = dataset
        self._check_labels = check_labels

    @property
    def num_batches(self):
        return self._dataset.num_batches

    def __getitem__(self, index):
        batch = self._dataset[index]
        check_arrays(*keras.utils.unpack_x_y_sample_weight(batch), self._check_labels)
        return batch

    def on_epoch_begin(self):
        self._dataset.on_epoch_begin()

    def on_epoch_end(self):
        self._dataset.on_epoch_end()


def checked_generator(batches, check_labels):
    """Yields the batches of a Python generator, each checked."""
    for batch in batches:
        check_arrays(*keras.utils.unpack_x_y_sample_weight(batch), check_labels)
        yield batch


@contextlib.contextmanager
def readable_data_errors():
    """Turns the error of a failed check in a data set into a `ValueError`."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        message = error.message or str(error)
        start = message.find(_FAILED_CHECK)
        if start < 0:
            raise
        raise ValueError(message[start:].split("'")[0].split("\n")[0]) from error
