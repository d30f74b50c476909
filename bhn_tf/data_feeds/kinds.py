"""Kinds of data: arrays, `tf.data`, `PyDataset`, generators and loaders."""

import itertools
import math
import warnings

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bhn_tf import keras_adapter
from bhn_tf.data_feeds.feed import (
    HOW_TO_GIVE_N,
    NO_BATCH,
    Feed,
    is_text,
    num_rows,
    unpacked,
)
from bhn_tf.data_feeds.loaders import dataset_of_loader, is_loader


def feed_of(x, y=None, sample_weight=None) -> Feed:
    """Returns the feed for data, whatever they are.

    Args:
        x: Arrays of any library (NumPy, TensorFlow, pandas, SciPy, JAX, PyTorch), one
            or a structure of them; or what yields batches: a `tf.data.Dataset`, a
            `keras.utils.PyDataset`, a Python generator, a PyTorch or Grain loader.
        y: Labels of arrays.
        sample_weight: Weights of arrays.

    Raises:
        ValueError: If the data are of no kind that Keras takes, with what to give.
    """
    if isinstance(x, tf.data.Dataset | tf.distribute.DistributedDataset):
        return DatasetFeed(x, y, sample_weight)
    if isinstance(x, keras.utils.PyDataset):
        return PyDatasetFeed(x, y, sample_weight)
    if hasattr(x, "__next__"):
        return GeneratorFeed(x, y, sample_weight)
    if is_loader(x):
        return DatasetFeed(dataset_of_loader(x), y, sample_weight)
    for name, values in (("x", x), ("y", y), ("sample_weight", sample_weight)):
        _refuse_no_arrays(name, values)
    return ArrayFeed(keras.tree.map_structure(_text_as_tensor, x), y, sample_weight)


def _text_as_tensor(leaf):
    """Text as a tensor, for Keras takes no other kind with several axes."""
    if leaf is None or tf.is_tensor(leaf) or not is_text(leaf):
        return leaf
    try:
        return tf.constant(np.asarray(leaf, dtype=object), tf.string)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`x` holds a {type(leaf).__name__} of objects that are not all text "
            "(numbers, None or NaN among them). Give numbers as `x.astype('float32')`, "
            "and columns of several kinds as a dictionary of inputs by name."
        ) from error


def _refuse_no_arrays(name, values) -> None:
    leaves = [leaf for leaf in keras.tree.flatten(values) if leaf is not None]
    for leaf in leaves:
        if hasattr(leaf, "shape") and tuple(leaf.shape) == ():
            raise ValueError(
                f"`{name}` holds a single number, and data have an axis of rows. Give "
                "an array [rows, ...]."
            )
        if not hasattr(leaf, "shape") or type(leaf).__module__.startswith("polars"):
            advice = f"`np.asarray({name})`"
            if type(leaf).__module__.startswith("polars"):
                advice = f"`{name}.to_numpy()`, which may copy"
            raise ValueError(
                f"`{name}` holds a {type(leaf).__name__}, which Keras does not take "
                f"as data. Give {advice}."
            )
    if name == "x" and not leaves:
        raise ValueError("The data `x` hold no array. Give inputs with rows first.")


class ArrayFeed(Feed):
    """Arrays, rows first."""

    @property
    def num_rows(self) -> int:
        return num_rows(self.x)

    @property
    def can_be_shuffled(self):
        return True

    def first_batch(self):
        return self.x, self.y, self.sample_weight

    def refuse_empty(self):
        if self.num_rows == 0:
            raise ValueError("The data `x` are empty: no rows. Give at least one.")

    def count(self, validation_split=0.0):
        # The same rounding as Keras's own split.
        return math.floor(self.num_rows * (1.0 - validation_split))

    def labels_and_weights(self):
        yield self.y, self.sample_weight

    def checked(self, checks):
        checks.check(self.x, self.y, self.sample_weight)
        return self

    def as_tensors(self):
        return ArrayFeed(
            *keras.tree.map_structure(
                keras_adapter.as_tensor, (self.x, self.y, self.sample_weight)
            )
        )


class DatasetFeed(Feed):
    """A `tf.data.Dataset` of batches."""

    def first_batch(self):
        return unpacked(keras_adapter.element_spec_of_replica(self.x))

    def refuse_empty(self):
        if not isinstance(self.x, tf.data.Dataset):
            return
        if self.x.cardinality() == tf.data.UNKNOWN_CARDINALITY:
            is_empty = next(iter(self.x.take(1)), None) is None
        else:
            is_empty = self.x.cardinality() == 0
        if is_empty:
            raise ValueError(NO_BATCH)

    def count(self, validation_split=0.0):
        if not isinstance(self.x, tf.data.Dataset):
            raise ValueError(
                f"A distributed data set cannot be counted. {HOW_TO_GIVE_N}"
            )
        if keras_adapter.is_endless(self.x):
            raise ValueError(
                f"The data set is endless, so N is not known. {HOW_TO_GIVE_N}"
            )
        batch_size = tf.nest.flatten(self.x.element_spec)[0].shape[0]
        if keras_adapter.repeats(self.x):
            warnings.warn(
                "The data set repeats itself, and N counts every repetition of a row: "
                f"the KL will weigh too little. {HOW_TO_GIVE_N}",
                stacklevel=5,
            )
        cardinality = int(self.x.cardinality())
        if cardinality >= 0 and batch_size is not None:
            return self._announced(cardinality * batch_size)
        logging.info("Counting the training examples in one pass over the data set.")
        # One batch more tells that there are more.
        counted = self.x if self._most is None else self.x.take(self._most + 1)
        num_batches, total = counted.reduce(tf.zeros([2], tf.int64), _add_batch).numpy()
        if self._most is not None and num_batches > self._most:
            raise ValueError(
                f"The data set goes on beyond the {self._most} batches of all steps of "
                f"all epochs, and may be endless, so N is not known. {HOW_TO_GIVE_N}"
            )
        if total == 0:
            raise ValueError(NO_BATCH)
        return self._announced(int(total))

    @property
    def _most(self) -> int | None:
        """How many batches are read before training, where there may be no end.

        Nothing tells a generator that ends from one that does not.
        """
        is_known = self.x.cardinality() != tf.data.UNKNOWN_CARDINALITY
        if is_known or not keras_adapter.reads_generator(self.x):
            return None
        return self.num_trained_batches

    def _announced(self, count):
        logging.info(
            "N = %d examples: the rows that one pass over the data set yields.",
            count,
        )
        return count

    def labels_and_weights(self):
        is_distributed = not isinstance(self.x, tf.data.Dataset)
        if is_distributed or keras_adapter.is_endless(self.x):
            super().labels_and_weights()
        without_inputs = self.x.map(lambda *batch: unpacked(batch)[1:])
        most = self._most
        for index, batch in enumerate(without_inputs):
            if index == most:
                super().labels_and_weights()
            yield batch

    def checked(self, checks):
        self.refuse_empty()
        if not isinstance(self.x, tf.data.Dataset):
            return self
        checked = self.x.map(
            checks.checked_element, num_parallel_calls=tf.data.AUTOTUNE
        )
        return DatasetFeed(
            checked.prefetch(tf.data.AUTOTUNE), self.y, self.sample_weight
        )


def _add_batch(total, *batch):
    rows = tf.shape(tf.nest.flatten(batch)[0], out_type=tf.int64)[0]
    return total + tf.stack([1, rows])


class PyDatasetFeed(Feed):
    """A `keras.utils.PyDataset`.

    Args:
        x, y, sample_weight: As of every feed.
        first: Batch 0 where it has been read already.
    """

    def __init__(self, x, y=None, sample_weight=None, first=None):
        super().__init__(x, y, sample_weight)
        self._first = first

    @property
    def can_be_shuffled(self):
        return self.x.num_batches is not None

    def first_batch(self):
        # Read once: making a batch may take long.
        if self._first is None:
            self.refuse_empty()
            self._first = self.x[0]
        return unpacked(self._first)

    def refuse_empty(self):
        if self.x.num_batches == 0:
            raise ValueError(NO_BATCH)

    def count(self, validation_split=0.0):
        if self.x.num_batches is None:
            raise ValueError(
                f"The PyDataset is endless, so N is not known. {HOW_TO_GIVE_N}"
            )
        logging.info("Counting the training examples in one pass over the data set.")
        return sum(
            num_rows(unpacked(self.x[index])[0]) for index in range(self.x.num_batches)
        )

    def labels_and_weights(self):
        if self.x.num_batches is None:
            super().labels_and_weights()
        for index in range(self.x.num_batches):
            yield unpacked(self.x[index])[1:]

    def checked(self, checks):
        self.refuse_empty()
        already_read = {} if self._first is None else {0: self._first}
        dataset = _CheckedPyDataset(self.x, checks, already_read)
        return PyDatasetFeed(dataset, self.y, first=self._first)


class _CheckedPyDataset(keras.utils.PyDataset):
    """A `PyDataset` whose batches are checked as they are read.

    Batches that were read to see what they are like are handed out once: data that
    make every batch anew are asked for no more of them than by stock Keras.
    """

    def __init__(self, dataset, checks, already_read):
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self._dataset = dataset
        self._checks = checks
        self._already_read = already_read

    @property
    def num_batches(self):
        return self._dataset.num_batches

    def __getitem__(self, index):
        batch = self._already_read.pop(index, None)
        if batch is None:
            batch = self._dataset[index]
        self._checks.check(*unpacked(batch))
        return batch

    def on_epoch_begin(self):
        self._dataset.on_epoch_begin()

    def on_epoch_end(self):
        self._dataset.on_epoch_end()


class GeneratorFeed(Feed):
    """A Python generator of batches, which can be read once."""

    def __init__(self, x, y=None, sample_weight=None):
        first = next(x, None)
        if first is None:
            raise ValueError(NO_BATCH)
        self._first = first
        super().__init__(_generator([first], x), y, sample_weight)

    def first_batch(self):
        return unpacked(self._first)

    def count(self, validation_split=0.0):
        raise ValueError(
            "A generator cannot be counted without using it up. " + HOW_TO_GIVE_N
        )

    def checked(self, checks):
        return _AlreadyRead(
            _checked_batches(self.x, checks), self.y, self.sample_weight, self._first
        )


class _AlreadyRead(GeneratorFeed):
    """A generator of which the first batch is known."""

    def __init__(self, x, y, sample_weight, first):
        self._first = first
        Feed.__init__(self, x, y, sample_weight)


def _generator(*parts):
    # Keras knows generators by their type, which a chain has not; and it takes a list
    # as a batch of every other kind of data, but not of a generator.
    for batch in itertools.chain(*parts):
        yield tuple(batch) if isinstance(batch, list) else batch


def _checked_batches(batches, checks):
    for batch in batches:
        checks.check(*unpacked(batch))
        yield batch
