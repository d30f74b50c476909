"""Values that appear in the logs beside the compiled metrics."""

from collections.abc import Callable

import keras
import tensorflow as tf


class Derived(keras.metrics.Metric):
    """A logged value computed from others, such as the loss from its terms.

    The terms are means over the examples of an epoch; what is computed from them
    obeys their identity exactly, which a mean of its own would only approximate.

    Args:
        name: Key in the logs.
        value: Returns the scalar.
    """

    def __init__(self, name: str, value: Callable):
        super().__init__(name=name, dtype="float32")
        self._value = value

    def update_state(self, *args, **kwargs):
        """Does nothing: there is no state of its own."""

    def result(self):
        # A tensor also of a variable, which an eager step cannot return.
        return tf.convert_to_tensor(self._value(), "float32")


def mean_tracker(name: str) -> keras.metrics.Mean:
    """Returns a mean over examples: feed it one value for each row."""
    return keras.metrics.Mean(name=name, dtype="float32")
