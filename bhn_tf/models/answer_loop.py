"""The loop of `predict*` over batches, which joins their answers."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.data_feeds import NO_BATCH
from bhn_tf.models import workers


def answer_batches(
    model,
    function,
    x,
    batch_size=None,
    verbose=0,
    steps=None,
    callbacks=None,
    num_rows=None,
):
    """Goes through data like Keras's `predict`, but with a given function.

    Args:
        model: The model, for callbacks and its strategy.
        function: Maps a batch of inputs to a structure of tensors, rows first.
        x, batch_size, verbose, steps, callbacks: As in Keras.
        num_rows: Number of rows to return, if the batches may have more; `None` for
            all.

    Returns:
        Arrays of these rows, in the structure that `function` returns.

    Raises:
        ValueError: If the data yield no batch.
        WorkerLost: If another process of the strategy is gone.
    """
    batches = keras_adapter.batches_for_prediction(
        x, batch_size, steps, model.distribute_strategy
    )
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=1,
            steps=batches.num_batches,
            model=model,
        )
    model.stop_predicting = False
    callbacks.on_predict_begin()
    answers = []
    lost_named = workers.lost_workers_named(model.distribute_strategy)
    with lost_named, batches.catch_stop_iteration():
        for first, last, iterator in batches:
            callbacks.on_predict_batch_begin(first)
            outputs = function(next(iterator))
            answers.append(outputs)
            callbacks.on_predict_batch_end(last, {"outputs": outputs})
            if model.stop_predicting:
                break
    callbacks.on_predict_end()
    if not answers:
        raise ValueError(NO_BATCH)
    return keras.tree.map_structure(
        lambda *parts: keras_adapter.as_array(
            keras_adapter.joined_over_batches(list(parts))
        )[:num_rows],
        *answers,
    )
