"""Probabilities of class 1 alone, read as those of two classes."""

import tensorflow as tf


def as_two_classes(p: tf.Tensor) -> tf.Tensor:
    """Returns `[1 - p, p]` where C = 1, and everything else as it is.

    Args:
        p: [..., C]; C = 1 is the probability of class 1 of two.

    Returns:
        [..., C] with C >= 2.

    Example:
        >>> as_two_classes(tf.constant([[0.25]])).numpy().tolist()
        [[0.75, 0.25]]
    """
    return tf.concat([1 - p, p], axis=-1) if p.shape[-1] == 1 else p
