"""Checks of an active learner's arguments."""

import inspect
import json
from collections.abc import Mapping

import keras
import numpy as np

from bhn_tf.active.acquisition import check_acquisition
from bhn_tf.arguments import check_count
from bhn_tf.random import stateless_seed

#: Arguments of `fit` that the learner sets itself, and what to use instead.
_OWN_FIT_ARGUMENTS = {
    "x": "the rows are those of `pool_x`",
    "y": "labels come from `label_fn`",
    "sample_weight": "the number of rows grows from round to round",
    "validation_data": "give it to `run`",
    "validation_split": "labels are too dear to be set aside; give `run` other data",
}


def checked_settings(
    acquisition, query_size, num_samples, candidate_size, warm_start, seed
) -> dict:
    """Returns settings by name as JSON can hold them.

    Args:
        acquisition, query_size, num_samples, candidate_size, warm_start, seed: As
            `ActiveLearner`.

    Raises:
        ValueError: If one makes no sense.
    """
    check_acquisition(acquisition)
    query_size = check_count("query_size", query_size, minimum=1)
    num_samples = check_count("num_samples", num_samples, minimum=0)
    if candidate_size is not None:
        candidate_size = check_count("candidate_size", candidate_size, minimum=1)
        if candidate_size < query_size:
            raise ValueError(
                f"`candidate_size` is {candidate_size}, but each round asks for "
                f"`query_size` = {query_size} of the candidates. Give more candidates, "
                "or None for the whole pool."
            )
    if not isinstance(warm_start, bool) and warm_start != "first_weights":
        raise ValueError(
            f"Expected `warm_start` to be True (go on), False (a new model a round) or "
            f"'first_weights' (the first round's initial weights), got {warm_start!r}."
        )
    if seed is not None:
        stateless_seed(seed)
        seed = int(seed)
    return {
        "acquisition": as_json(acquisition),
        "query_size": query_size,
        "num_samples": num_samples,
        "candidate_size": candidate_size,
        "warm_start": warm_start,
        "seed": seed,
    }


def checked_ids(ids, pool_size: int) -> np.ndarray:
    """Returns initial ids as int64 [n], if they name different rows of the pool."""
    ids = np.asarray(list(ids) if isinstance(ids, range) else ids)
    if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
        raise ValueError(
            f"Expected `initial_ids` to be at least one integer index into the pool, "
            f"got an array of shape {list(ids.shape)} and dtype {ids.dtype}. Without "
            "any label no model says what to ask for; some at random will do, "
            f"`np.random.default_rng(0).choice({pool_size}, 20, replace=False)`."
        )
    outside = ids[(ids < 0) | (ids >= pool_size)]
    if len(outside):
        raise ValueError(
            f"`initial_ids` has {len(outside)} ids outside the pool of {pool_size} "
            f"rows, the first of them {outside[0]}. Expected 0 to {pool_size - 1}."
        )
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"`initial_ids` has the id {values[counts > 1][0]} more than once. Each "
            "row is labelled once: give every id one time."
        )
    return ids.astype(np.int64)


def checked_fit_kwargs(fit_kwargs: Mapping | None) -> dict:
    """Returns arguments of `fit`, if the learner does not set any of them itself."""
    fit_kwargs = dict(fit_kwargs or {})
    for name, reason in _OWN_FIT_ARGUMENTS.items():
        if name in fit_kwargs:
            raise ValueError(f"Leave `{name}` out of `fit_kwargs`: {reason}.")
    return fit_kwargs


def checked_model(model) -> keras.Model:
    """Returns the model, if it can be trained and asked how uncertain it is."""
    if not isinstance(model, keras.Model) or not hasattr(model, "predict_uncertainty"):
        raise ValueError(
            f"`make_model` returned {type(model).__name__}. Expected a model that says "
            "how uncertain it is: a `BayesianHypernet`, or a Keras model inside one of "
            "`bhn_tf.baselines`, such as `Deterministic(model)`."
        )
    if not model.compiled:
        raise ValueError(
            "`make_model` returned a model that is not compiled. Call `compile` in it, "
            "as in `model.compile('adam', metrics=['accuracy'])`."
        )
    return model


def refuse_several_outputs(model: keras.Model) -> None:
    """Raises `ValueError` if a built model has several outputs."""
    names = getattr(getattr(model, "likelihood", None), "output_names", ())
    if len(names) > 1:
        raise ValueError(
            f"The model of `make_model` has the outputs {list(names)}, and `label_fn` "
            "gives one label for each id. Make a model of the one output whose labels "
            "you ask for."
        )


def refuse_unknown_fit_kwargs(fit_kwargs: Mapping, model: keras.Model) -> None:
    """Raises `ValueError` if `fit` of the model has no arguments of these names."""
    parameters = inspect.signature(model.fit).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    unknown = sorted(set(fit_kwargs) - set(parameters))
    if unknown:
        known = sorted(set(parameters) - set(_OWN_FIT_ARGUMENTS))
        raise ValueError(
            f"`fit_kwargs` has {unknown}, which `fit` of {type(model).__name__} does "
            f"not take. Expected some of {known}."
        )


def checked_labels(labels, count: int, earlier: np.ndarray | None) -> np.ndarray:
    """Returns new labels [count, ...] that fit the earlier ones.

    Raises:
        ValueError: If there is not one number (or row of numbers) for each id.
    """
    try:
        labels = np.asarray(keras.ops.convert_to_numpy(labels))
    except ValueError:
        # Rows of different lengths; as objects, the error below reports them.
        labels = np.asarray(labels, dtype=object)
    if labels.ndim == 0 or len(labels) != count or labels.dtype.kind not in "biuf":
        raise ValueError(
            f"`label_fn` was asked for {count} labels and returned shape "
            f"{list(labels.shape)} of dtype {labels.dtype}. Expected one label for "
            "each id, in their order: class numbers [n], or rows of numbers "
            "[n, ...]. Nothing was recorded; the same ids will be asked for again."
        )
    if earlier is not None and labels.shape[1:] != earlier.shape[1:]:
        raise ValueError(
            f"`label_fn` returned labels of shape {list(labels.shape)}, but those "
            f"before had shape {['n', *earlier.shape[1:]]}. All labels need one shape. "
            "Nothing was recorded; the same ids will be asked for again."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(
            "`label_fn` returned labels that are NaN or infinite. Nothing was "
            "recorded; the same ids will be asked for again."
        )
    return labels


def as_json(value):
    """A JSON value that identifies a setting; a name for what JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(name): as_json(v) for name, v in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [as_json(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"
