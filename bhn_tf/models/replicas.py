"""What a step needs with several replicas: sums over them, weights on each."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from bhn_tf import keras_adapter


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


def held_by_first(gradients: list, optimizer) -> list:
    """Returns the sum of gradients on the first replica, and zeros on the others.

    Keras sums gradients over replicas only after an optimizer has clipped them, so that
    each replica would clip its own share; and loss scaling looks for infinities on the
    first replica alone, so that those of others would reach the weights.

    Args:
        gradients: One for each weight, or `None`; not summed yet.
        optimizer: Keras's optimizer. One that does neither gets the gradients as they
            are, since it costs less to sum them once.
    """
    if not _are_several() or not _depends_on_size(optimizer):
        return gradients
    replica = tf.distribute.get_replica_context()
    given = [gradient for gradient in gradients if gradient is not None]
    is_first = replica.replica_id_in_sync_group == 0
    held = iter(
        # A product, since every replica has to see infinities: 0 times them is NaN.
        tf.math.scalar_mul(tf.cast(is_first, total.dtype), total)
        for total in replica.all_reduce(tf.distribute.ReduceOp.SUM, given)
    )
    return [None if gradient is None else next(held) for gradient in gradients]


def _depends_on_size(optimizer) -> bool:
    """Whether an optimizer clips gradients, or scales the loss."""
    is_scaling = hasattr(optimizer, "inner_optimizer")
    optimizers = keras_adapter.optimizers_inside(optimizer)
    limits = ("clipnorm", "global_clipnorm", "clipvalue")
    return is_scaling or any(
        getattr(each, limit, None) for each in optimizers for limit in limits
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
