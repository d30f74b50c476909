"""A model's answers to the rows it is diagnosed on."""

import contextlib
import math
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.data_feeds import feed_of
from bhn_tf.likelihoods import Bernoulli, Categorical, Ordinal, Standardized
from bhn_tf.likelihoods.distributional import Distributional
from bhn_tf.models.answer_loop import answer_batches
from bhn_tf.models.baseline_posteriors import MemberPosterior
from bhn_tf.models.compiled_answers import CompiledAnswers
from bhn_tf.two_classes import as_two_classes


class MeasuredRows(NamedTuple):
    """Answers to n rows under S draws, and under R references.

    The reference is the model's own centre, R = 1. An ensemble has none; its members
    are the references.

    Attributes:
        log_probs: log p(y|x, g) of each row and draw, [n, S].
        means: The mean of y under each draw, [n, S, C], if a row has one answer.
        std: Predictive standard deviation of a regression, [n, C].
        bounds: Bounds of the central interval of a regression, [n, C] each, if its
            distribution has a CDF.
        targets: Class numbers [n], or targets [n, C] in the shape of the answers.
        reference_log_probs: [n, R].
        reference_means: [n, R, C].
        num_elements: Number of elements (outputs, pixels) over which a row's
            log-probability is summed.
    """

    log_probs: np.ndarray
    means: np.ndarray | None
    std: np.ndarray | None
    bounds: tuple[np.ndarray, np.ndarray] | None
    targets: np.ndarray | None
    reference_log_probs: np.ndarray
    reference_means: np.ndarray | None
    num_elements: int = 1

    def where(self, are_kept) -> "MeasuredRows":
        """Returns some of the rows, chosen by booleans [n]."""
        return keras.tree.map_structure(
            lambda leaf: leaf[are_kept] if isinstance(leaf, np.ndarray) else leaf, self
        )


def chosen_rows(x, y, max_rows: int | None, seed: int):
    """Returns tensors of at most `max_rows` rows, chosen at random."""
    feed = feed_of(x, y).as_tensors()
    # Tuples, since `from_tensor_slices` takes a list for one tensor.
    rows = keras.tree.lists_to_tuples((feed.x, feed.y))
    num_rows = len(tf.nest.flatten(rows)[0])
    if max_rows is None or num_rows <= max_rows:
        return rows
    chosen = np.random.default_rng(seed).choice(num_rows, max_rows, replace=False)
    return keras.tree.map_structure(
        lambda leaf: None if leaf is None else tf.gather(leaf, np.sort(chosen)), rows
    )


def in_batches(model, rows, num_draws: int) -> tf.data.Dataset:
    """The rows in batches whose answers fit into memory."""
    size = model.answers.rows_at_a_time(100, num_draws)
    return tf.data.Dataset.from_tensor_slices(rows).batch(size)


def is_classifier(model) -> bool:
    """Whether a row is answered by probabilities of classes, one of which is right."""
    likelihood, outputs = model.likelihood, model.raw_outputs
    if likelihood.output_names or outputs.num_masked or len(outputs.shapes) != 2:
        return False
    if isinstance(likelihood, Bernoulli | Ordinal):
        return outputs.shapes[-1] == 1
    return isinstance(likelihood, Categorical) and likelihood.ignore_class is None


def is_regression(model) -> bool:
    """Whether rows have targets in the shape of the answers."""
    likelihood, outputs = model.likelihood, model.raw_outputs
    if likelihood.output_names or outputs.num_masked or len(outputs.shapes) != 2:
        return False
    if not isinstance(likelihood, Distributional | Standardized):
        return False
    # Labels of censored times are two numbers, so their shape differs.
    label = (None, *likelihood.element_shape(outputs.shapes)[1:])
    try:
        coded = likelihood.coded_labels(tf.zeros([1, *label[1:]]), outputs.shapes)
    except ValueError:
        return False
    return tuple(coded.shape[1:]) == label[1:]


def measure(model, rows, values, level: float) -> MeasuredRows:
    """Measures a model's answers, with the same draws for all rows.

    Args:
        model: The model.
        rows: `(x, y)` of tensors.
        values: `Draws.values`.
        level: Level of the intervals.
    """
    classifies, regresses = is_classifier(model), is_regression(model)

    def answer(batch, values):
        found = {"log_probs": model.answers.log_probs(batch, values)}
        if not (classifies or regresses):
            return found
        raws, masks = model.answers.raws(batch[0], values)
        means = model.likelihood.mean(raws)
        if classifies:
            means = as_two_classes(means)
        found["means"] = tf.experimental.numpy.moveaxis(means, 0, 1)
        if regresses:
            found["std"] = model.likelihood.summarize(raws, masks)["std"]
            # Distributions without a CDF have no intervals, and all the rest.
            with contextlib.suppress(NotImplementedError):
                found["bounds"] = model.likelihood.interval(raws, level)
        return found

    function = CompiledAnswers(model.distribute_strategy, False, False).function(
        "measured", answer
    )

    def ask(values):
        num_draws = max(int(values.shape[0]), len(model.posterior.networks))
        batches = in_batches(model, rows, num_draws)
        return answer_batches(model, lambda batch: function(batch, values), batches)

    found = ask(values)
    reference = found
    if not isinstance(model.posterior, MemberPosterior):
        reference = ask(model.posterior.draw(0, None).values)
    _refuse_nan(found, reference)
    return MeasuredRows(
        found["log_probs"].astype("float64"),
        found.get("means"),
        found.get("std"),
        found.get("bounds"),
        _targets(model, rows[1], classifies, regresses),
        reference["log_probs"].astype("float64"),
        reference.get("means"),
        num_elements(model, rows[1]),
    )


def _refuse_nan(*answers):
    """Refuses answers of a network whose weights are NaN, or overflow."""
    for found in answers:
        are_nan = np.isnan(found["log_probs"]).any(axis=1)
        if are_nan.any():
            raise ValueError(
                f"The model's answers to {are_nan.sum():,} of {len(are_nan):,} rows "
                "are NaN, of which nothing can be said: its training has diverged, or "
                "its draws overflow. `callbacks.DivergenceGuard` ends a training at "
                "its first broken step."
            )


def num_elements(model, y) -> int:
    """Returns the number of elements that a row's log-probability sums over."""
    likelihood, shapes = model.likelihood, model.raw_outputs.shapes
    labels = likelihood.flatten(y) if likelihood.output_names else [y]
    shapes = shapes if likelihood.output_names else [shapes]
    total = 0
    for part, label, shape in zip(
        likelihood.parts_of_outputs(), labels, shapes, strict=True
    ):
        shape = (None, *shape[1:])
        coded = part.coded_labels(label, shape)
        elements = coded.shape[1 : len(part.element_shape(shape))]
        total += math.prod(elements) if part.reduction == "sum" else 1
    return total


def _targets(model, y, classifies, regresses):
    if not (classifies or regresses):
        return None
    shapes = model.raw_outputs.shapes
    coded = np.asarray(model.likelihood.coded_labels(y, (None, *shapes[1:])))
    if regresses:
        return coded.astype("float64")
    if coded.ndim == 2 and coded.shape[1] > 1:
        return coded.argmax(axis=1)
    return np.round(coded.reshape(len(coded))).astype("int64")
