"""Which of the sorted calibration scores is the threshold of a level.

Split conformal prediction (Vovk, Gammerman and Shafer, "Algorithmic Learning in a
Random World", 2005): if a new row is exchangeable with n calibration rows, its score is
at most their ⌈(n + 1) · level⌉-th smallest with a probability of at least the level
and, if scores do not tie, below level + 1 / (n + 1).
"""

import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_probability

# Levels are read to six decimals, so that ranks are exact integers: in floating point,
# (n + 1) · level may be just above or below the integer that is meant, and a served
# model gets its level as a float32.
_PARTS = 10**6


def parts_of(level) -> int:
    """Returns a level in millionths.

    Args:
        level: A probability.

    Raises:
        ValueError: If it is not between 0 and 1, to six decimals.

    Example:
        >>> parts_of(0.9), parts_of(np.float32(0.9))
        (900000, 900000)
    """
    parts = round(check_probability("level", level) * _PARTS)
    check_probability("level", parts / _PARTS)
    return parts


def rank(num_rows, parts):
    """Returns ⌈(n + 1) · level⌉, counted from 1, in integers throughout.

    Args:
        num_rows: n, integers or an integer tensor.
        parts: The level in millionths; see `parts_of`.

    Example:
        >>> rank(9, parts_of(0.9)), rank(10, parts_of(0.9))
        (9, 10)
    """
    return ((num_rows + 1) * parts + _PARTS - 1) // _PARTS


def rows_needed(level) -> int:
    """Returns the fewest calibration rows with which a level can be promised.

    Args:
        level: A probability.

    Example:
        >>> rows_needed(0.9), rows_needed(0.99)
        (9, 99)
    """
    parts = parts_of(level)
    return -(-parts // (_PARTS - parts))


def thresholds(sorted_scores, counts, level, groups=None) -> np.ndarray:
    """Returns the threshold of each group of calibration rows.

    Args:
        sorted_scores: Scores [n, ...], group after group, each sorted on axis 0.
        counts: Number of rows of each group, [G].
        level: A probability.
        groups: Names of the groups, for the error.

    Returns:
        Thresholds [G, ...].

    Raises:
        ValueError: If a group has too few rows for the level.

    Example:
        >>> thresholds(np.arange(10.0), [10], 0.8)
        array([8.])
    """
    parts = parts_of(level)
    counts = np.asarray(counts)
    ranks = rank(counts, parts)
    if (ranks > counts).any():
        short = np.flatnonzero(ranks > counts)
        needed = rows_needed(level)
        if groups is None:
            who = f"there are {counts[0]}"
        else:
            found = {groups[index]: int(counts[index]) for index in short}
            who = f"the groups {list(found)} have {list(found.values())}"
        raise ValueError(
            f"A level of {level} needs at least {needed} calibration rows, and {who}: "
            "calibrate with more rows, or ask for a lower level."
        )
    starts = np.cumsum(counts) - counts
    return np.asarray(sorted_scores)[starts + ranks - 1]


def thresholds_in_graph(sorted_scores, counts, level) -> tf.Tensor:
    """`thresholds` for the level of a request, a scalar tensor."""
    parts = tf.cast(tf.round(tf.cast(level, tf.float64) * _PARTS), tf.int64)
    counts = tf.constant(counts, tf.int64)
    ranks = rank(counts, parts)
    message = (
        "`level` has to be a probability above 0 for which there are enough "
        "calibration rows. Given:"
    )
    checks = [
        tf.debugging.Assert(parts > 0, [message, level]),
        tf.debugging.Assert(tf.reduce_all(ranks <= counts), [message, level]),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        starts = tf.cumsum(counts) - counts
        return tf.gather(sorted_scores, starts + ranks - 1)
