"""Batches of consecutive epochs, in an order that depends on a seed alone."""

import keras
import tensorflow as tf

from bhn_tf.data_feeds.feed import num_rows


def batches_of_epochs(
    rows, batch_size: int, seed: int | None, first_epoch: int, last_epoch: int
) -> tf.data.Dataset:
    """Returns the batches of consecutive epochs, each epoch in its own order.

    The order depends on seed and epoch alone: a resumed run sees the same epochs as an
    uninterrupted one, and so does every process. The order of `Dataset.shuffle` also
    depends on the process's seed.

    Args:
        rows: Tensors, rows first, in any structure.
        batch_size: Rows of a batch; the last one of an epoch may have fewer.
        seed: An integer; `None` for the rows' own order.
        first_epoch, last_epoch: The first epoch, and the one after the last.

    Example:
    ```python
    batches_of_epochs((tf.constant(x), tf.constant(y)), 32, seed=0, first_epoch=0,
                      last_epoch=2)
    ```
    """

    def batches_of(epoch):
        order = tf.range(num_rows(rows))
        if seed is not None:
            order = tf.random.experimental.stateless_shuffle(
                order, tf.stack([tf.constant(seed, tf.int64), epoch])
            )
        return tf.data.Dataset.from_tensor_slices(order).batch(batch_size)

    return (
        tf.data.Dataset.range(first_epoch, last_epoch)
        .flat_map(batches_of)
        .map(
            lambda order: keras.tree.map_structure(lambda t: tf.gather(t, order), rows)
        )
    )
