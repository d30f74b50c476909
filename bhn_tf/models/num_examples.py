"""N, the number of training examples, over which the KL is spread."""

import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.user_warnings import warn_user


class NumExamples:
    """N: given by the user, or else learned by each `fit` from its data.

    Args:
        given: N; `None` to learn it.

    Attributes:
        is_given: Whether it was given, and so holds whatever the data.
        counted: How many examples the last `fit` counted; `None` if it did not.
    """

    def __init__(self, given: int | None):
        # A variable, so that it is not compiled in as a constant.
        self._variable = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.is_given = False
        self.counted: int | None = None
        if given is not None:
            self.give(given)

    @property
    def value(self) -> int | None:
        """N, or `None` while it is not known."""
        return int(self._variable.numpy()) or None

    @property
    def tensor(self) -> tf.Tensor:
        """N at the time a step runs, a float32 scalar; 0 while it is not known."""
        return tf.cast(self._variable, tf.float32)

    def give(self, value: int) -> None:
        """Sets N for good.

        Raises:
            ValueError: If it is not a number of examples.
        """
        self._set(value)
        self.is_given = True

    def _set(self, value: int):
        check_count("num_examples", value, minimum=1)
        self._variable.assign(value)

    def learn(self, feed, validation_split: float) -> None:
        """Counts the examples of a `fit`, and takes their number unless N is given.

        Args:
            feed: The training data.
            validation_split: Share of arrays that `fit` sets aside.

        Raises:
            ValueError: If N is not given and the data cannot be counted.
        """
        self.counted = None
        if self.is_given and feed.num_rows is None:
            # The count is not needed, and for batches may cost a pass over the data.
            return
        self.counted = feed.count(validation_split)
        if not self.is_given:
            self._set(self.counted)
        elif self.counted != self.value:
            warn_user(
                f"`num_examples` is {self.value}, but `fit` trains on {self.counted} "
                "examples: the KL is weighted by the given number.",
            )

    def save_to(self, store) -> None:
        """Saves N and the count in a file of variables."""
        store["num_examples"] = np.int64(self.value or 0)
        store["counted_examples"] = np.int64(self.counted or 0)

    def load_from(self, store) -> None:
        """Loads the count, and N unless it is given, from a file of variables.

        Args:
            store: The file's variables by name; files of earlier versions lack the
                count, and version 0.1 saved N under a number.
        """
        names = set(store.keys())
        key = "num_examples" if "num_examples" in names else "0"
        value = int(np.asarray(store[key]))
        if value and not self.is_given:
            self._set(value)
        if "counted_examples" in names:
            self.counted = int(np.asarray(store["counted_examples"])) or None
