"""Groups of rows, each with its own threshold."""

import numpy as np
import tensorflow as tf


def group_values(by, num_rows: int) -> np.ndarray:
    """Returns the group of each row, as integers or texts.

    Args:
        by: [n], integers, booleans or texts.
        num_rows: n.

    Raises:
        ValueError: If there is not one for each row, or they have another type.

    Example:
        >>> group_values([True, False], 2).tolist()
        [1, 0]
    """
    by = np.asarray(by)
    if by.shape != (num_rows,):
        raise ValueError(
            f"Expected `by` to hold the group of each of the {num_rows} rows, got an "
            f"array of shape {by.shape}."
        )
    if by.dtype.kind in "biu":
        return by.astype("int64")
    # Texts of TensorFlow and of files are bytes.
    if all(isinstance(value, str | bytes) for value in by):
        return np.array([tf.compat.as_str(value) for value in by], str)
    raise ValueError(
        f"Groups are integers or texts, and `by` has the dtype {by.dtype}: give "
        "each row's group a number or a name."
    )


def index_of(by: np.ndarray, groups: list) -> np.ndarray:
    """Returns the index of each row's group among the calibrated ones, [n], int64.

    Raises:
        ValueError: If a group was not calibrated.

    Example:
        >>> index_of(np.array(["b", "a"]), ["a", "b"]).tolist()
        [1, 0]
    """
    place = {group: index for index, group in enumerate(groups)}
    unknown = sorted(set(by.tolist()) - set(place))
    if unknown:
        raise ValueError(
            f"`by` has the groups {unknown[:10]}, of which there were no calibration "
            f"rows; the calibrated groups are {groups[:10]}. Nothing can be promised "
            "for the others."
        )
    return np.array([place[value] for value in by.tolist()], "int64")


def index_in_graph(by: tf.Tensor, groups: list) -> tf.Tensor:
    """`index_of` for the groups that a request brings, [B]."""
    known = tf.equal(by[:, tf.newaxis], tf.constant(groups, by.dtype)[tf.newaxis])
    check = tf.debugging.Assert(
        tf.reduce_all(tf.reduce_any(known, axis=1)),
        ["`by` has a group that was not calibrated. Given:", by],
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.argmax(tf.cast(known, tf.int32), axis=1)
