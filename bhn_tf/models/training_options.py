"""Checks of the arguments of `compile` and `fit`, before any work."""

import inspect
import math
import numbers
from collections.abc import Mapping

import keras

from bhn_tf import keras_adapter
from bhn_tf.arguments import check_given_counts
from bhn_tf.likelihoods import Bernoulli, Distributional, Ordinal, Standardized
from bhn_tf.user_warnings import warn_user

_COUNTS_OF_FIT = (
    "batch_size",
    "steps_per_epoch",
    "validation_batch_size",
    "validation_steps",
)


def refuse_loss(loss, model_name: str) -> None:
    """Raises `ValueError` where a loss is given: the likelihood is the loss."""
    if loss is not None:
        raise ValueError(
            f"`compile` got the loss {loss!r}, and the loss of this model is its "
            "likelihood, a density: leave out `loss` and choose with "
            f"`{model_name}(..., likelihood=...)`; see `bhn_tf.likelihoods`. Metrics "
            "are given by keyword: `metrics=[...]`."
        )


def refuse_metrics_of_censored(metrics, likelihood) -> None:
    """Raises `ValueError` for metrics that would get labels `[time, event]`.

    They would compare a predicted time with both numbers.

    Args:
        metrics: As given to `compile`: for one output a list, for several a list or a
            dictionary by name.
        likelihood: The model's.
    """
    if _are_of_censored(metrics, likelihood):
        raise ValueError(
            "Labels of censored times are [time, event], of which Keras's metrics know "
            f"nothing, and {metrics!r} would compare a predicted time with both. Leave "
            "them out: `predictive_nll` judges censored times, and `predict` gives "
            "times to compare with those that were seen."
        )


def leave_out_metrics_of_censored(config: dict, likelihood) -> None:
    """Removes, with a warning, what `refuse_metrics_of_censored` refuses.

    Older files may have such metrics, and loading must not fail because of that.

    Args:
        config: Arguments of `compile` by name, as a file has them.
        likelihood: The model's.
    """
    for name in ("metrics", "weighted_metrics"):
        if _are_of_censored(config.get(name), likelihood):
            warn_user(
                f"The file has `{name}={config.pop(name)!r}` of labels [time, "
                "event], which are left out: they compared a time with both.",
            )


def leave_out_of_weight_decay(optimizer, places: list[int], weights: list) -> None:
    """Excludes weights from weight decay, as the optimizer of a configuration did.

    Args:
        optimizer: The optimizer, not built.
        places: Places of the weights; none for an optimizer without exclusions.
        weights: The weights of the model, which may be another one, or not built.
    """
    if not places:
        return
    if max(places) < len(weights):
        excluded = [weights[place] for place in places]
        keras_adapter.exclude_from_weight_decay(optimizer, excluded)
    else:
        warn_user(
            "The configuration excludes weights from weight decay that this model does "
            "not have, or not yet: all of them decay. Build the model first, or call "
            "`exclude_from_weight_decay` of a new optimizer."
        )


def _are_of_censored(metrics, likelihood) -> bool:
    """Whether any of the metrics would get labels `[time, event]`."""
    parts, names = likelihood.parts_of_outputs(), likelihood.output_names
    if not metrics or not any(part.is_censored for part in parts):
        return False
    if isinstance(metrics, Mapping) and names:
        given = [metrics.get(name) for name in names]
    else:
        is_listed = len(parts) > 1 and len(metrics) == len(parts)
        given = metrics if is_listed else [metrics] * len(parts)
    pairs = zip(parts, given, strict=True)
    return any(part.is_censored and bool(of_part) for part, of_part in pairs)


def refuse_what_strategies_lack(strategy, optimizer, options: dict) -> None:
    """Raises `ValueError` for what fails in TensorFlow or Keras under a strategy.

    Args:
        strategy: The strategy in whose scope the model was made.
        optimizer: As given to `compile`.
        options: Further arguments of `compile`, by name.
    """
    if strategy.num_replicas_in_sync > 1:
        _refuse_what_replicas_lack(optimizer, options.get("jit_compile"))
    if keras_adapter.spans_processes(strategy):
        _refuse_what_workers_lack(options.get("steps_per_execution"))


def _refuse_what_replicas_lack(optimizer, jit_compile):
    if jit_compile is True:
        raise ValueError(
            "`jit_compile=True` fails on several replicas in TensorFlow (XLA "
            "cannot compile their collective operations). Leave it at 'auto'."
        )
    if getattr(optimizer, "gradient_accumulation_steps", None):
        raise ValueError(
            "`gradient_accumulation_steps` fails on several replicas in Keras "
            "(it updates conditionally in replica context). Use larger batches."
        )
    if getattr(optimizer, "ema_overwrite_frequency", None):
        raise ValueError(
            "`ema_overwrite_frequency` fails on several replicas in Keras (it "
            "overwrites conditionally in replica context). Leave it out: with "
            "`use_ema=True` the weights become their average at the end of `fit`, or "
            "for each evaluation with `keras.callbacks.SwapEMAWeights`."
        )


def _refuse_what_workers_lack(steps_per_execution):
    if steps_per_execution not in (None, 1):
        raise ValueError(
            f"`steps_per_execution={steps_per_execution!r}` fails on several workers "
            "in TensorFlow (it cannot fetch their batches in a loop of the graph). "
            "Leave it at 1."
        )


def require_optimizer(optimizer, method_name: str) -> None:
    """Raises `ValueError` where a method that trains has no optimizer."""
    if optimizer is None:
        raise ValueError(
            f"`{method_name}` needs an optimizer, and the model was compiled with "
            "`optimizer=None`, which is enough to evaluate. Compile it with one, "
            "such as `model.compile('adam')`."
        )


def arguments_of_fit(model, /, *args, **kwargs) -> dict:
    """Returns all arguments of Keras's `fit` by name, with its defaults."""
    bound = inspect.signature(keras.Model.fit).bind(model, *args, **kwargs)
    bound.apply_defaults()
    arguments = {**bound.arguments}
    del arguments["self"]
    return arguments


def check_counts_of_fit(arguments: dict) -> None:
    """Raises `ValueError` if a number of rows or batches makes no sense.

    Args:
        arguments: Those of `fit`, by name.
    """
    check_given_counts(**{name: arguments[name] for name in _COUNTS_OF_FIT})


def validation_split_of(validation_split, validation_data) -> float:
    """Returns the share of rows that Keras sets aside; 0 if `validation_data` is given.

    Raises:
        ValueError: If the split is not a share of the rows.
    """
    share = validation_split or 0.0
    if not (isinstance(share, numbers.Real) and 0.0 <= float(share) < 1.0):
        raise ValueError(
            "Expected `validation_split` to be a share of the rows, from 0 up to "
            f"but not 1, got {validation_split!r}."
        )
    return validation_split if validation_data is None and validation_split else 0.0


def check_class_weight(class_weight, likelihood, raw_outputs) -> None:
    """Raises `ValueError` unless each class has one weight of at least 0.

    Args:
        class_weight: As given to `fit`; `None` for none.
        likelihood: The model's, which knows the classes.
        raw_outputs: The model's `RawOutputs`; `None` while they are not known.
    """
    if class_weight is None:
        return
    specs = [] if raw_outputs is None else keras.tree.flatten(raw_outputs.spec)
    if not _has_one_class_a_row(likelihood, specs):
        raise ValueError(
            "`class_weight` gives each row the weight of its one class, and rows of "
            "this model have none, or several (outputs, pixels, tokens, labels at "
            "once). Give `sample_weight`, of several outputs one for each."
        )
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "Expected `class_weight` to be a dictionary of weights by class "
            f"number, got a {type(class_weight).__name__}. Give "
            "`dict(enumerate(class_weight))`."
        )
    for key, weight in class_weight.items():
        if not (isinstance(weight, numbers.Real) and 0 <= float(weight) < math.inf):
            raise ValueError(
                f"`class_weight` has {weight!r} for {key!r}. Give finite numbers of at "
                "least 0: a negative weight would drive the likelihood of its rows "
                "down without end."
            )
    num_classes = _num_classes(likelihood, specs)
    strange = [
        key for key in class_weight if not _is_class(key, likelihood, num_classes)
    ]
    if strange:
        raise ValueError(
            f"`class_weight` has weights for {strange}, which are no class numbers "
            "of this model: no row would get them. Classes are whole numbers"
            + ("." if num_classes is None else f" from 0 to {num_classes - 1}.")
        )


def _has_one_class_a_row(likelihood, output_specs) -> bool:
    if likelihood.output_names or any(len(spec.shape) > 2 for spec in output_specs):
        return False
    if isinstance(likelihood, Bernoulli):
        return all(spec.shape[-1] == 1 for spec in output_specs)
    is_of_numbers = isinstance(likelihood, Distributional | Standardized)
    return likelihood.is_discrete or not is_of_numbers


def _num_classes(likelihood, output_specs) -> int | None:
    """The number of classes; `None` if labels are not classes."""
    if len(output_specs) != 1:
        return None
    if isinstance(likelihood, Ordinal):
        return likelihood.num_classes
    if likelihood.is_of_classes:
        return max(output_specs[0].shape[-1], 2)
    return None


def _is_class(key, likelihood, num_classes) -> bool:
    if not (isinstance(key, numbers.Real) and key == key // 1):
        return False
    if num_classes is None or 0 <= float(key) < num_classes:
        return True
    return key == getattr(likelihood, "ignore_class", None)
