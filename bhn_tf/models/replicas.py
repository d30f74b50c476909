"""Sums over the replicas of a strategy, inside a step."""

import tensorflow as tf


def sum_over_replicas(count: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a number over all replicas."""
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return count
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, count)


def zero_without_rows(gradients, num_rows: tf.Tensor):
    """Lets a replica without rows teach nothing.

    Means over its rows, as in batch normalisation, are 0 / 0, and one gradient that is
    NaN would turn the weights of all replicas into NaN.
    """
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return gradients
    return tf.nest.map_structure(
        lambda g: None if g is None else tf.where(num_rows > 0, g, tf.zeros_like(g)),
        gradients,
        expand_composites=True,
    )
