"""What a step needs with several replicas: sums over them, weights on each."""

import tensorflow as tf


def refuse_weights_of_elsewhere(weights, strategy: tf.distribute.Strategy) -> None:
    """Refuses trainable weights that do not exist on all replicas.

    Frozen weights are only read, and may come from anywhere.

    Args:
        weights: Keras's variables, all to be trained.
        strategy: The strategy under which the model was made.

    Raises:
        ValueError: If one was made outside of the strategy's scope.
    """
    for weight in weights:
        if not strategy.extended.variable_created_in_scope(weight.value):
            raise ValueError(
                f"The weight {weight.path!r} was made outside of the strategy's scope, "
                "so it exists once, and the model inside of it cannot train it. Make "
                "its layer, which may be the likelihood or the hypernet, inside the "
                "same `with strategy.scope():`, or freeze it."
            )


def sum_over_replicas(count: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a number over all replicas."""
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return count
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, count)


def zero_without_rows(gradients, num_rows: tf.Tensor):
    """Returns gradients of zero on a replica without rows.

    Means over no rows, as in batch normalisation, are 0 / 0, and a single NaN gradient
    would turn the weights of all replicas into NaN.
    """
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return gradients
    return tf.nest.map_structure(
        lambda g: None if g is None else tf.where(num_rows > 0, g, tf.zeros_like(g)),
        gradients,
        expand_composites=True,
    )
