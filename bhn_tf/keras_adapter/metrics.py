"""The metrics that were given to `compile`."""

import functools
from collections.abc import Iterator

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as _tensorflow_trainer
from keras.src.utils import python_utils

from bhn_tf.keras_adapter.calls import mask_of


def compiled_metrics(compiled, *structures) -> Iterator[tuple]:
    """Yields the metrics of each output, in Keras's order of the outputs.

    Args:
        compiled: Keras's object that holds all metrics of `compile`, built.
        structures: Values in the structure of the outputs.

    Yields:
        `(metrics, weighted_metrics, *values)` of an output.
    """
    # Keras 3.14.0 flattens all structures alike.
    flattened = getattr(compiled, "_flatten_y", keras.tree.flatten)
    columns = [flattened(structure) for structure in structures]
    both = [compiled._flat_metrics, compiled._flat_weighted_metrics]
    # Where several outputs have none, Keras before 3.14 leaves all of them out.
    both = [each or [None] * len(columns[0]) for each in both]
    for unweighted, weighted, *values in zip(*both, *columns, strict=True):
        yield (
            *([] if each is None else each.metrics for each in (unweighted, weighted)),
            *values,
        )


def averaged_function(metric):
    """Returns the function of labels and predictions that a metric averages.

    It is `None` for metrics of another kind.
    """
    if not isinstance(metric, keras.metrics.MeanMetricWrapper):
        return None
    return functools.partial(metric._fn, **metric._fn_kwargs)


def update_without_weights(metric, y, y_pred) -> None:
    """Updates a metric, of whose mean masked elements are no part.

    Keras applies masks to weights, before 3.12 to nothing else, and fails where values
    of rows or batches have no elements that a mask could fit.
    """
    mask, function = mask_of(y_pred), averaged_function(metric)
    if mask is None or function is None:
        metric.update_state(y, y_pred)
        return
    rank = tf.convert_to_tensor(function(y, y_pred)).shape.rank
    axes_of_elements = len(mask.shape) - (mask.shape[-1] == 1)
    if rank is None or rank >= axes_of_elements:
        metric.update_state(y, y_pred, sample_weight=tf.ones_like(mask, metric.dtype))
    else:
        metric.update_state(y, tf.identity(y_pred))


def metrics_result(results: dict) -> dict:
    """Returns results of metrics as Keras's `get_metrics_result` would.

    Early versions make Python's numbers of them there, later ones where logs are given
    to the user.
    """
    converts_later = hasattr(_tensorflow_trainer, "pythonify_logs")
    return results if converts_later else python_utils.pythonify_logs(results)


def set_lower_is_better(metric: keras.Metric) -> None:
    """Tells `EarlyStopping`, in `mode="auto"`, that a metric should fall."""
    metric._direction = "down"
