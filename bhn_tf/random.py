"""Seeds of draws."""

import numpy as np
import tensorflow as tf


def stateless_seed(seed=None) -> tf.Tensor:
    """Turns what a user calls a seed into the int32 pair of stateless random ops.

    Args:
        seed: `None` for a seed that differs from call to call (and, traced into a
            graph, from run to run; `keras.utils.set_random_seed` makes the sequence
            reproducible), a non-negative integer for the same draws every time, or
            an integer tensor of shape [2], which is returned as it is.

    Returns:
        An int32 tensor of shape [2].

    Raises:
        ValueError: If `seed` is negative or no integer.

    Example:
    ```python
    tf.random.stateless_normal([3], stateless_seed(7))
    ```
    """
    if seed is None:
        return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    if tf.is_tensor(seed):
        return tf.cast(seed, tf.int32)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(
            f"Expected `seed` to be None or a non-negative integer, got {seed!r}."
        )
    # The hash keeps neighbouring seeds from giving related streams.
    state = np.random.SeedSequence(int(seed)).generate_state(2)
    return tf.constant(state.astype("int32"))
