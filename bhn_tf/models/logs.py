"""What the logs hold: results of metrics, each under a name of its own."""

from bhn_tf.networks.unused_names import unused_name


def results_by_name(metrics, terms, compiled) -> dict:
    """Returns the results of metrics by their names in the logs.

    Networks may hold metrics of any name. Theirs is left out where a term of the loss
    has it, as is usual for `keras.metrics.Mean(name="loss")`, or a compiled metric. If
    several of theirs have one name, they become `name`, `name_1`, ..., as compiled
    ones do in Keras. A metric that is listed twice counts once.

    Args:
        metrics: All metrics, in the order of the logs.
        terms: Trackers of the terms, also of those that are not logged at the moment.
        compiled: Keras's object that holds all metrics of `compile`, or `None`.

    Raises:
        ValueError: If a compiled metric has the name of a term.
    """
    of_terms = {term.name for term in terms}
    of_compiled = _results(compiled)
    hidden = sorted(of_terms & set(of_compiled))
    if hidden:
        raise ValueError(
            f"`compile` got metrics whose names in the logs are {hidden}, which are "
            "those of the loss and its terms. Give them other names, such as "
            "`keras.metrics.MeanMetricWrapper(function, name='my_metric')`."
        )
    logs = {}
    for metric in {id(metric): metric for metric in metrics}.values():
        is_term = any(metric is term for term in terms)
        for name, result in _results(metric).items():
            if is_term or metric is compiled:
                logs[name] = result
            elif name not in of_terms and name not in of_compiled:
                logs[unused_name(name, logs)] = result
    return logs


def _results(metric) -> dict:
    """The results of a metric, which may have several, by name."""
    # Before its first batch, Keras does not know what is compiled.
    if metric is None or not getattr(metric, "built", True):
        return {}
    return _flat({metric.name: metric.result()})


def _flat(results: dict) -> dict:
    """Results of metrics with several each under its own name, as Keras logs them."""
    flat = {}
    for name, result in results.items():
        flat.update(_flat(result) if isinstance(result, dict) else {name: result})
    return flat
