"""`keras.utils.PyDataset` as data."""

import keras
from absl import logging

from bhn_tf.data_feeds.feed import (
    HOW_TO_GIVE_N,
    NO_BATCH,
    Feed,
    num_rows,
    targets_not_read,
    unpacked,
)
from bhn_tf.data_feeds.frames import batch_of_arrays


class PyDatasetFeed(Feed):
    """A `keras.utils.PyDataset`.

    Args:
        x, y, sample_weight: As in `Feed`.
        first: Batch 0, if it has been read already.
    """

    def __init__(self, x, y=None, sample_weight=None, first=None):
        if not isinstance(x, _PyDatasetOfArrays):
            x = _PyDatasetOfArrays(x)
        super().__init__(x, y, sample_weight)
        self._first = first

    @property
    def can_be_shuffled(self):
        return self.x.num_batches is not None

    def first_batch(self):
        # Read only once, since making a batch may take long.
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

    def labels_and_weights(self, padding=None):
        if self.x.num_batches is None:
            raise targets_not_read()
        for index in range(self.x.num_batches):
            x, y, sample_weight = unpacked(self.x[index])
            yield y, sample_weight, padding and padding(x)

    def checked(self, checks):
        self.refuse_empty()
        already_read = {} if self._first is None else {0: self._first}
        dataset = _CheckedPyDataset(self.x, checks, already_read)
        # Kept, so that Keras refuses labels and weights given beside a `PyDataset`.
        return PyDatasetFeed(dataset, self.y, self.sample_weight, self._first)


class _PyDatasetOfArrays(keras.utils.PyDataset):
    """A `PyDataset` whose batches may be of frames."""

    def __init__(self, dataset):
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self._dataset = dataset

    @property
    def num_batches(self):
        return self._dataset.num_batches

    def __getitem__(self, index):
        return batch_of_arrays(self._dataset[index])

    def on_epoch_begin(self):
        self._dataset.on_epoch_begin()

    def on_epoch_end(self):
        self._dataset.on_epoch_end()


class _CheckedPyDataset(_PyDatasetOfArrays):
    """A `_PyDatasetOfArrays` whose batches are checked as they are read.

    A batch that was read to learn the shapes is yielded once instead of being made
    again, so that no more batches are made than in stock Keras.
    """

    def __init__(self, dataset, checks, already_read):
        super().__init__(dataset)
        self._checks = checks
        self._already_read = already_read

    def __getitem__(self, index):
        batch = self._already_read.pop(index, None)
        if batch is None:
            batch = self._dataset[index]
        self._checks.check(*unpacked(batch))
        return batch
