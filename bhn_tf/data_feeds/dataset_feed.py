"""`tf.data` as data."""

import tensorflow as tf
from absl import logging

from bhn_tf import tensorflow_adapter
from bhn_tf.data_feeds.feed import (
    HOW_TO_GIVE_N,
    HOW_TO_GIVE_UNITS,
    NO_BATCH,
    NO_BATCH_LEFT,
    Feed,
    inputs_of,
    targets_not_read,
    unpacked,
)
from bhn_tf.user_warnings import warn_user

# After so many batches read before training, a user wants to know what takes so long.
_MANY_BATCHES = 10_000


class DatasetFeed(Feed):
    """A `tf.data.Dataset` of batches."""

    def first_batch(self):
        return unpacked(self.x.element_spec)

    def refuse_empty(self):
        # Nothing is read ahead: it would be lost if it can be read only once.
        if self.x.cardinality() == 0:
            raise ValueError(NO_BATCH)

    def count(self, validation_split=0.0):
        if tensorflow_adapter.is_endless(self.x):
            raise ValueError(
                f"The data set is endless, so N is not known. {HOW_TO_GIVE_N}"
            )
        batch_size = tf.nest.flatten(self.x.element_spec)[0].shape[0]
        if tensorflow_adapter.repeats(self.x):
            warn_user(
                "The data set repeats itself, and N counts every repetition of a row: "
                f"the KL will weigh too little. {HOW_TO_GIVE_N}",
            )
        cardinality = int(self.x.cardinality())
        if cardinality >= 0 and batch_size is not None:
            return self._announced(cardinality * batch_size)
        logging.info("Counting the training examples in one pass over the data set.")
        # One batch more shows whether the data set goes on.
        counted = self.x if self._most is None else self.x.take(self._most + 1)
        num_batches = total = 0
        for rows in counted.map(_rows_of).batch(_MANY_BATCHES):
            num_batches += len(rows)
            total += int(tf.reduce_sum(rows))
            if num_batches == _MANY_BATCHES:
                _warn_of_many_batches("Counting the training examples", HOW_TO_GIVE_N)
        if self._most is not None and num_batches > self._most:
            raise ValueError(
                f"The data set goes on beyond the {self._most} batches of all steps of "
                f"all epochs, and may be endless, so N is not known. {HOW_TO_GIVE_N}"
            )
        if total == 0:
            raise ValueError(NO_BATCH_LEFT)
        return self._announced(total)

    @property
    def _most(self) -> int | None:
        """The most batches to read before training, if the data may be endless.

        Nothing distinguishes a generator that ends from one that does not.
        """
        is_known = self.x.cardinality() != tf.data.UNKNOWN_CARDINALITY
        if is_known or not tensorflow_adapter.reads_generator(self.x):
            return None
        return self.num_trained_batches

    def _announced(self, count):
        logging.info(
            "N = %d examples: the rows that one pass over the data set yields.",
            count,
        )
        return count

    def labels_and_weights(self, padding=None):
        if tensorflow_adapter.is_endless(self.x):
            raise targets_not_read()
        batches = self.x
        if padding is None:
            batches = batches.map(_without_inputs)
        most = self._most
        for index, batch in enumerate(batches):
            if index == most:
                raise targets_not_read()
            if index == _MANY_BATCHES:
                _warn_of_many_batches("Reading the targets", HOW_TO_GIVE_UNITS)
            _, y, sample_weight = unpacked(batch)
            yield y, sample_weight, padding and padding(inputs_of(batch))

    def checked(self, checks):
        self.refuse_empty()
        # AutoGraph would put its stack frames before an error's sentence.
        check = tf.autograph.experimental.do_not_convert(checks.checked_element)
        checked = self.x.map(check, num_parallel_calls=tf.data.AUTOTUNE)
        return DatasetFeed(
            checked.prefetch(tf.data.AUTOTUNE), self.y, self.sample_weight
        )


class DistributedFeed(Feed):
    """A data set that a strategy has shared out among its replicas.

    It can be neither read ahead of training nor mapped, so nothing is checked.
    """

    def first_batch(self):
        return unpacked(tensorflow_adapter.element_spec_of_replica(self.x))

    def count(self, validation_split=0.0):
        raise ValueError(f"A distributed data set cannot be counted. {HOW_TO_GIVE_N}")

    def checked(self, checks):
        return self


# AutoGraph has nothing to convert in these, and in Python 3.13 warns of itself.
@tf.autograph.experimental.do_not_convert
def _without_inputs(*batch):
    return None, *unpacked(batch)[1:]


@tf.autograph.experimental.do_not_convert
def _rows_of(*batch):
    return tf.shape(tf.nest.flatten(batch)[0], out_type=tf.int64)[0]


def _warn_of_many_batches(what, advice):
    warn_user(
        f"{what} has read {_MANY_BATCHES} batches and goes on: training begins when "
        f"the data set ends. To begin at once: {advice} If it has no end, give `fit` "
        "its `steps_per_epoch`, too.",
    )
