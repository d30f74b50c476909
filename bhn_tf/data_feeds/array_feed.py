"""Arrays as data."""

import math

import keras

from bhn_tf import keras_adapter
from bhn_tf.data_feeds.feed import NO_ROW, Feed, num_rows


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
            raise ValueError(NO_ROW)

    def count(self, validation_split=0.0):
        # The same rounding as Keras's own split.
        num_trained = math.floor(self.num_rows * (1.0 - validation_split))
        if not num_trained:
            raise ValueError(
                f"`validation_split={validation_split}` of {self.num_rows} rows leaves "
                "none to train on. Give a smaller share, or more rows."
            )
        return num_trained

    def labels_and_weights(self, padding=None):
        yield self.y, self.sample_weight, padding and padding(self.x)

    def first_rows(self, count: int) -> "ArrayFeed":
        """Returns the first rows, at most `count`."""
        return ArrayFeed(
            *keras.tree.map_structure(
                lambda leaf: None if leaf is None else leaf[:count],
                (self.x, self.y, self.sample_weight),
            )
        )

    def checked(self, checks):
        checks.check(self.x, self.y, self.sample_weight)
        weight = checks.weights_as_labels(self.sample_weight, self.y)
        return ArrayFeed(self.x, self.y, weight)

    def as_tensors(self):
        return ArrayFeed(
            *keras.tree.map_structure(
                keras_adapter.as_tensor, (self.x, self.y, self.sample_weight)
            )
        )
