"""N, the number of training examples: one count of the KL goes to each example."""

import math

import keras
import tensorflow as tf

#: What is said of a data set without a single batch.
NO_BATCH = "The data set yields no batch: it is empty, or a filter removed all of it."

_ADVICE = (
    "Say how many training examples there are: `BayesianHypernet(..., "
    "num_examples=N)` or `model.num_examples = N`."
)


def num_rows(x) -> int | None:
    """Returns the number of rows of arrays, or `None` where `x` is no array."""
    leaves = [leaf for leaf in keras.tree.flatten(x) if leaf is not None]
    if leaves and all(hasattr(leaf, "shape") for leaf in leaves):
        return int(leaves[0].shape[0])
    return None


def count_examples(x, validation_split: float = 0.0, announce=print) -> int:
    """Returns the number of training examples in `x`.

    Args:
        x: Arrays, a `tf.data.Dataset` or a `PyDataset`, as given to `fit`.
        validation_split: Share of arrays that `fit` sets aside.
        announce: Called with a sentence before a pass over the data.

    Raises:
        ValueError: If the data are endless, can be read only once, or are empty.
    """
    rows = num_rows(x)
    if rows is not None:
        # The same rounding as Keras's own split.
        return math.floor(rows * (1.0 - validation_split))
    if isinstance(x, tf.data.Dataset):
        return _count_dataset(x, announce)
    if isinstance(x, keras.utils.PyDataset):
        return _count_py_dataset(x, announce)
    raise ValueError(
        f"Data of type {type(x).__name__} cannot be counted without using them up. "
        + _ADVICE
    )


def _count_dataset(dataset, announce):
    cardinality = int(dataset.cardinality())
    if cardinality == tf.data.INFINITE_CARDINALITY:
        raise ValueError("The data set is endless, so N is not known. " + _ADVICE)
    batch_size = tf.nest.flatten(dataset.element_spec)[0].shape[0]
    if cardinality >= 0 and batch_size is not None:
        return cardinality * batch_size
    announce("Counting the training examples in one pass over the data set.")

    def add_rows(total, *batch):
        return total + tf.shape(tf.nest.flatten(batch)[0], out_type=tf.int64)[0]

    total = int(dataset.reduce(tf.constant(0, tf.int64), add_rows))
    if total == 0:
        raise ValueError(NO_BATCH)
    return total


def _count_py_dataset(dataset, announce):
    if dataset.num_batches is None:
        raise ValueError("The PyDataset is endless, so N is not known. " + _ADVICE)
    announce("Counting the training examples in one pass over the data set.")
    return sum(
        num_rows(keras.utils.unpack_x_y_sample_weight(dataset[index])[0])
        for index in range(dataset.num_batches)
    )
