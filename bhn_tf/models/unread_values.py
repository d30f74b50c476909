"""Warns of values set in a network although a hypernet generates them."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.user_warnings import warn_user


class UnreadValues:
    """Watches variables that nothing reads, since a hypernet generates their values.

    Loading a whole model changes them and the hypernet. Loading weights into the
    network alone changes only them, which has no effect.

    Args:
        posterior: A `HypernetPosterior` that has taken over its layers.
    """

    def __init__(self, posterior):
        self._posterior = posterior
        self.note()

    def note(self) -> None:
        """Remembers the present values of the variables and the hypernet."""
        self._values, self._mean = self._held()

    def warn(self) -> None:
        """Warns if the network's values have changed but the hypernet has not."""
        values, mean = self._held()
        if np.array_equal(mean, self._mean):
            changed = [
                f"{layer.name}/{variable.name}"
                for layer in self._posterior.layers
                for variable in layer.generated_weights
                if not np.array_equal(values[id(variable)], self._values[id(variable)])
            ]
            if changed:
                warn_user(
                    f"The weights {changed} were set after the network had become "
                    "part of the model, and have no effect: its hypernet generates "
                    "them, around what the network had before. Load weights into a "
                    "network first and wrap it then; those of the whole model load "
                    "by `model.load_weights`.",
                )
        self._values, self._mean = values, mean

    def _held(self):
        to_numpy = keras.ops.convert_to_numpy
        # Outside the graph: a user's function may trace the prediction.
        with tf.init_scope():
            values = {id(v): to_numpy(v) for v in self._posterior.variables}
            return values, to_numpy(self._posterior.hypernet.affine.mean)
