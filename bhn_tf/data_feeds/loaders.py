"""PyTorch's and Grain's loaders as data sets, which can be checked and counted."""

import contextlib
import itertools

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.data_feeds.feed import NO_BATCH

# Batches read to learn the shapes, as many as Keras's own adapters read.
_BATCHES_FOR_SHAPES = 2


def is_loader(x) -> bool:
    """Whether data are a loader, or of a class derived from one."""
    # By name, so that neither library is imported.
    names = {kind.__name__ for kind in type(x).__mro__}
    return hasattr(x, "__iter__") and bool(names & {"DataLoader", "IterDataset"})


def dataset_of_loader(loader) -> tf.data.Dataset:
    """Returns a PyTorch or Grain loader as a data set.

    Args:
        loader: An iterable that yields all batches every time.

    Raises:
        ValueError: If it yields none.
    """

    def batches():
        for batch in loader:
            yield _as_arrays(batch)

    first = list(itertools.islice(batches(), _BATCHES_FOR_SHAPES))
    if not first:
        raise ValueError(NO_BATCH)
    signature = keras.tree.map_structure(_spec_of_all, *first)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    # The `__len__` of PyTorch's loader raises if the length is not known.
    with contextlib.suppress(TypeError):
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(loader)))
    return dataset


def _as_arrays(batch):
    """A batch as a tuple of NumPy arrays; loaders often give a list."""
    return keras.tree.map_structure(np.asarray, keras.tree.lists_to_tuples(batch))


def _spec_of_all(first, *others) -> tf.TensorSpec:
    """The spec of an array over some batches; axes that differ are `None`."""
    shape = tf.TensorShape([None, *first.shape[1:]])
    for other in others:
        shape = shape.most_specific_compatible_shape(other.shape)
    return tf.TensorSpec(shape, first.dtype)
