"""The state of a model's noise: one seed, one counter."""

import numbers
import random

import keras
import tensorflow as tf


class NoiseState(keras.layers.Layer):
    """Gives a new seed at every step, the same sequence after saving and loading.

    Seed and counter are weights, so every file format keeps them and a graph moves on
    without being traced again.

    Args:
        seed: A non-negative integer; `None` takes one from Python's generator,
            which `keras.utils.set_random_seed` seeds.
    """

    def __init__(self, seed: int | None = None, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32", "trainable": False})
        if seed is None:
            seed = random.randrange(2**31)
        is_integer = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
        if not (is_integer and 0 <= seed < 2**31):
            raise ValueError(
                f"Expected `seed` to be an integer from 0 to 2**31 - 1, got {seed!r}."
            )
        self.seed = seed = int(seed)
        self.state = self.add_weight(
            name="seed_and_step",
            shape=(2,),
            dtype="int64",
            initializer=lambda shape, dtype=None: tf.constant([seed, 0], dtype),
            trainable=False,
            # All replicas advance the counter alike.
            aggregation="only_first_replica",
        )
        #: Whether the replicas of a strategy share one seed, that of a single device.
        self.is_shared = False
        self.built = True

    def next_seed(self) -> tf.Tensor:
        """Returns the seed of this step, an int32 pair, and advances the counter.

        Each replica of a strategy gets its own seed, unless `is_shared`.
        """
        current = tf.cast(self.state.value, tf.int32)
        self.state.assign_add(tf.constant([0, 1], tf.int64))
        replica = tf.distribute.get_replica_context()
        is_one = replica is None or replica.num_replicas_in_sync == 1
        if not (is_one or self.is_shared):
            current = tf.random.experimental.stateless_fold_in(
                current, replica.replica_id_in_sync_group
            )
        return current
