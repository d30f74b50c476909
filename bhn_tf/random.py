"""Seeds of draws."""

import numpy as np
import tensorflow as tf

# The constants of NumPy's `SeedSequence`, named as in its source.
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_MULT_L, _MIX_MULT_R = 0xCA01F9DD, 0x4973F715
_XSHIFT = 16
_MASK32 = 0xFFFFFFFF


def stateless_seed(seed=None) -> tf.Tensor:
    """Turns a user's seed into the int32 pair of stateless random operations.

    Args:
        seed: `None` for a seed that differs from call to call (and, in a graph, from
            run to run; `keras.utils.set_random_seed` makes the sequence reproducible);
            a non-negative integer, or a scalar tensor of one, for the same draws every
            time; or an integer tensor of shape [2], which is returned as it is.

    Returns:
        An int32 tensor of shape [2].

    Raises:
        ValueError: If `seed` is negative or not an integer.

    Example:
    ```python
    tf.random.stateless_normal([3], stateless_seed(7))
    ```
    """
    if seed is None:
        return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    if tf.is_tensor(seed):
        return _hashed(seed) if seed.shape.rank == 0 else tf.cast(seed, tf.int32)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(
            f"Expected `seed` to be None or a non-negative integer, got {seed!r}."
        )
    # A hash, so that neighbouring seeds give unrelated streams.
    state = np.random.SeedSequence(int(seed)).generate_state(2)
    return tf.constant(state.astype("int32"))


def _hashed(seed: tf.Tensor) -> tf.Tensor:
    """The hash of one number by `numpy.random.SeedSequence`, in a graph.

    A served model thus makes the same draws from a seed as Python does. Numbers have 32
    bits, kept in int64, whose products wrap around harmlessly.
    """

    def folded(value):
        value = tf.bitwise.bitwise_and(value, _MASK32)
        shifted = tf.bitwise.right_shift(value, _XSHIFT)
        return tf.bitwise.bitwise_xor(value, shifted)

    def hasher(constant, multiplier):
        def hashed(value):
            nonlocal constant
            value = tf.bitwise.bitwise_xor(value, constant)
            constant = constant * multiplier & _MASK32
            return folded(value * constant)

        return hashed

    hashed = hasher(_INIT_A, _MULT_A)
    zero = tf.zeros([], tf.int64)
    word = tf.bitwise.bitwise_and(tf.cast(seed, tf.int64), _MASK32)
    pool = [hashed(each) for each in (word, zero, zero, zero)]
    for source in range(len(pool)):
        for target in range(len(pool)):
            if source != target:
                mixed = _MIX_MULT_L * pool[target]
                mixed -= _MIX_MULT_R * hashed(pool[source])
                pool[target] = folded(mixed)
    hashed = hasher(_INIT_B, _MULT_B)
    state = tf.stack([hashed(pool[0]), hashed(pool[1])])
    return tf.bitcast(tf.cast(state, tf.uint32), tf.int32)
