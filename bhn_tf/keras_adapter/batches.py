"""Batches, as `fit` and `predict` of Keras make and join them."""

import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import (
    TFEpochIterator,
    _collective_all_reduce_multi_worker,
    convert_to_np_if_not_ragged,
    potentially_ragged_concat,
    reduce_per_replica,
)
from keras.src.trainers.data_adapters.data_adapter_utils import (
    is_scipy_sparse,
    scipy_sparse_to_tf_sparse,
)

#: Rows of a batch if no number is given.
DEFAULT_BATCH_SIZE = 32


def batches_for_prediction(x, batch_size, steps, strategy) -> TFEpochIterator:
    """Returns the iterator over data that Keras's own `predict` uses."""
    return TFEpochIterator(
        x=x,
        batch_size=batch_size,
        steps_per_epoch=steps,
        shuffle=False,
        distribute_strategy=strategy,
        steps_per_execution=1,
    )


def spans_processes(strategy) -> bool:
    """Whether a strategy spreads over several processes."""
    return _collective_all_reduce_multi_worker(strategy)


def joined_over_replicas(values, strategy):
    """Joins the results of a strategy's replicas on the axis of rows."""
    return reduce_per_replica(values, strategy, reduction="concat")


def joined_over_batches(values: list):
    """Joins batches on the axis of rows; ragged where their other axes differ."""
    return potentially_ragged_concat(values)


def as_tensor(values):
    """Returns a tensor of an array of any library, sparse if the array is sparse."""
    if values is None or tf.is_tensor(values):
        return values
    if is_scipy_sparse(values):
        return tf.sparse.reorder(scipy_sparse_to_tf_sparse(values))
    return tf.convert_to_tensor(np.asarray(values))


def as_array(values):
    """Returns a NumPy array of a tensor; sparse and ragged ones stay as they are."""
    return convert_to_np_if_not_ragged(values)
