"""What a step needs with several replicas: sums over them, weights on each."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf


def refuse_weights_of_elsewhere(
    weights, strategy: tf.distribute.Strategy | None
) -> None:
    """Refuses trainable weights that do not exist on all replicas.

    Frozen weights are only read, and may come from anywhere.

    Args:
        weights: Keras's variables, all to be trained.
        strategy: The strategy under which the model was made; `None` for none.

    Raises:
        ValueError: If one was made outside of the strategy's scope.
    """
    if strategy is None:
        return
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
    if not _are_several():
        return count
    replica = tf.distribute.get_replica_context()
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, count)


def zero_without_rows(gradients, num_rows: tf.Tensor):
    """Returns gradients of zero on a replica without rows.

    Means over no rows, as in batch normalisation, are 0 / 0, and a single NaN gradient
    would turn the weights of all replicas into NaN.
    """
    if not _are_several():
        return gradients
    return tf.nest.map_structure(
        lambda g: None if g is None else tf.where(num_rows > 0, g, tf.zeros_like(g)),
        gradients,
        expand_composites=True,
    )


@contextlib.contextmanager
def kept_without_rows(variables, num_rows: tf.Tensor) -> Iterator[None]:
    """Leaves variables as they are on a replica without rows, whatever is assigned.

    Moving averages would take in the means over no rows, 0 / 0.

    Args:
        variables: Keras's variables, of which each replica has its own values.
        num_rows: How many rows this replica has.
    """
    if not _are_several():
        yield
        return
    before = [tf.identity(variable) for variable in variables]
    yield
    for variable, value in zip(variables, before, strict=True):
        variable.assign(tf.where(num_rows > 0, variable, value))


def _are_several() -> bool:
    """Whether this is one of several replicas."""
    replica = tf.distribute.get_replica_context()
    return replica is not None and replica.num_replicas_in_sync > 1
