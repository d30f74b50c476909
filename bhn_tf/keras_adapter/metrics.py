"""The metrics that were given to `compile`."""

import functools
from collections.abc import Iterator

import keras
from keras.src.backend.tensorflow import trainer as _tensorflow_trainer
from keras.src.utils import python_utils


def compiled_metrics(compiled, *structures) -> Iterator[tuple]:
    """Yields the metrics of each output, in Keras's order of the outputs.

    Args:
        compiled: Keras's object that holds all metrics of `compile`, built.
        structures: Values in the structure of the outputs.

    Yields:
        `(metrics, weighted_metrics, *values)` of an output.
    """
    columns = map(compiled._flatten_y, structures)
    both = compiled._flat_metrics, compiled._flat_weighted_metrics
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
