"""A random number for each row, made from its inputs."""

import keras
import tensorflow as tf


def uniform_of_rows(x, seed: int) -> tf.Tensor:
    """Returns a number between 0 and 1 for each row.

    It is a hash of the inputs: a row has the same number in every batch, process and
    served model, and labels play no part.

    Args:
        x: Inputs in their structure, rows first.
        seed: A non-negative integer; other seeds give other numbers.

    Returns:
        [B], float64.

    Example:
        >>> x = tf.constant([[1.0], [2.0], [1.0]])
        >>> first, second, third = uniform_of_rows(x, 0).numpy()
        >>> bool(first == third != second)
        True
    """
    leaves = [tf.convert_to_tensor(leaf) for leaf in keras.tree.flatten(x)]
    num_rows = tf.shape(leaves[0])[0]
    salt = tf.bitcast(tf.constant([seed % 2**31], tf.int32), tf.uint8)
    rows = [_bytes_of(leaf, num_rows) for leaf in leaves]
    rows.append(tf.tile(salt, [num_rows, 1]))
    hashed = tf.fingerprint(tf.concat(rows, axis=1))
    return tf.cast(tf.bitcast(hashed[:, :4], tf.uint32), tf.float64) / 2.0**32


def _bytes_of(leaf, num_rows):
    if leaf.dtype == tf.string:
        leaf = tf.strings.to_hash_bucket_fast(leaf, 2**24)
    values = tf.bitcast(tf.cast(leaf, tf.float32), tf.uint8)
    return tf.reshape(values, [num_rows, -1])
