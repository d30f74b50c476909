"""The direction in which a classifier's loss grows fastest, as a sign for each input.

The loss is -log of the mean prediction of several draws, summed over the labels that
count: not those of padding, and not missing ones. It is differentiated without the loss
of precision that would end an attack on a very confident model.
"""

import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bhn_tf import likelihoods, tensorflow_adapter
from bhn_tf.arguments import check_count
from bhn_tf.likelihoods.elements import both
from bhn_tf.likelihoods.likelihood import match_targets
from bhn_tf.metrics.labelled_items import labelled_items
from bhn_tf.models.compiled_answers import CompiledAnswers
from bhn_tf.random import stateless_seed
from bhn_tf.two_classes import as_two_classes
from bhn_tf.user_warnings import warn_user

_TINY = float(np.finfo("float32").tiny)


class LossDirection:
    """The sign of the gradient for one model and its labels.

    A model of this library keeps the compiled function, so that attacks in a loop of
    batches, as in adversarial training, trace it once.

    Args:
        model, y, num_samples, batch_size: As `fgsm`.
        x: Inputs before the attack; they say where padding is.
    """

    def __init__(self, model, x, y, num_samples, batch_size):
        check_count("num_samples", num_samples, minimum=0)
        check_count("batch_size", batch_size, minimum=1)
        _refuse_other_models(model)
        tensorflow_adapter.require_threads()
        self._items = functools.partial(_items, getattr(model, "likelihood", None))
        self._labels = np.asarray(keras.ops.convert_to_numpy(y))
        self._batch_size = batch_size
        self._weights = self._checked_weights(model, x)
        self._compiled = _compiled_once(model)(
            f"loss direction of {num_samples} draws",
            _sign_of_gradient(model, self._items, num_samples),
        )

    def _checked_weights(self, model, x) -> np.ndarray:
        """Checks all labels and returns their weights; see `_weights`."""
        if self._labels.ndim == 0 or len(self._labels) != len(x):
            raise ValueError(
                f"`x` has {len(x)} rows, and `y` has the shape {self._labels.shape}. "
                "Give one label for each row."
            )
        # One row shows the shape of predictions, and builds an unbuilt model.
        p = tf.convert_to_tensor(model.predictive(tf.constant(x[:1]), 0, 0))
        weights = []
        for rows in self._batches(len(x)):
            labels = self._labels[rows]
            weights.append(_weights(model, x[rows], labels))
            repeated = tf.repeat(p, len(labels), axis=0)
            target, _, _ = self._items(labels, repeated, weights[-1])
            if not np.isin(target, (0, 1)).all():
                raise ValueError(
                    "Expected one class for each row, got soft labels. Give class "
                    "numbers, or one-hot labels of 0 and 1."
                )
        return np.concatenate(weights)

    def _batches(self, num_rows):
        starts = range(0, num_rows, self._batch_size)
        return [slice(start, start + self._batch_size) for start in starts]

    def of(self, x: np.ndarray, seed: int | tf.Tensor) -> np.ndarray:
        """Returns the direction at `x`, for the draws of `seed`, or of its hash."""
        sign, num_stuck = np.empty_like(x), 0
        seed = stateless_seed(seed)
        for rows in self._batches(len(x)):
            found, is_stuck = self._compiled(
                tf.constant(x[rows]),
                tf.constant(self._labels[rows]),
                tf.constant(self._weights[rows]),
                seed,
            )
            sign[rows] = found.numpy()
            num_stuck += int(tf.reduce_sum(tf.cast(is_stuck, tf.int32)))
        if np.isnan(sign).any():
            raise ValueError(
                "The gradient is NaN: look at what the model predicts for these inputs."
            )
        if num_stuck:
            warn_user(
                f"{num_stuck} of {len(x)} rows are predicted with a probability of "
                "exactly 1, as far as float32 can tell, and have no gradient: they "
                "stay as they are. That is no sign of robustness.",
            )
        return sign


def _compiled_once(model) -> Callable:
    """What compiles functions by their names: the model itself, if it can keep them."""
    if hasattr(model, "compiled_once"):
        return model.compiled_once
    return CompiledAnswers().function


def _sign_of_gradient(model, items, num_samples) -> Callable:
    """The function `(rows, labels, weights, seed)` that is to be compiled."""

    def sign_of_gradient(rows, labels, weights, seed):
        seed = tf.ensure_shape(seed, [2])
        with tf.GradientTape() as tape:
            tape.watch(rows)
            p = model.predictive(rows, num_samples, seed)
            target, p, counts = items(labels, p, weights)
            loss = _negative_log(target, p)
            # The logarithm keeps the signs, and its gradient does not vanish.
            objective = tf.math.log(tf.maximum(loss, _TINY))
        gradient = tape.gradient(objective, rows)
        if gradient is None:
            raise ValueError(
                "The prediction does not depend on `x` in a differentiable way, so "
                "there is no direction to go."
            )
        is_stuck = (loss < _TINY) & tf.reduce_any(counts, axis=-1)
        return tf.sign(gradient), is_stuck

    return sign_of_gradient


def _refuse_other_models(model) -> None:
    if not hasattr(model, "predictive"):
        raise ValueError(
            f"Expected a model with `predictive(x, num_samples, seed)`, got "
            f"{type(model).__name__}. Wrap a Keras model: "
            "`bhn_tf.baselines.Deterministic(model)`."
        )
    likelihood = getattr(model, "likelihood", None)
    refused = likelihoods.Distributional | likelihoods.Standardized | likelihoods.Joint
    if isinstance(likelihood, refused):
        raise ValueError(
            "The attacks need one output of class probabilities, and this model has "
            f"the likelihood {type(likelihood).__name__}. For several outputs, make a "
            "model of the one to attack."
        )


def _weights(model, x, labels) -> np.ndarray:
    """1 for labels that count, otherwise 0: of rows, or of leading axes of the items.

    Raises:
        ValueError: If a label that counts has no meaning for the likelihood.
    """
    outputs = getattr(model, "raw_outputs", None)
    if outputs is None:
        return np.ones(len(labels), "float32")
    likelihood, shape, mask = model.likelihood, (None, *outputs.shapes[1:]), None
    if outputs.num_masked:
        center = model.posterior.draw(0, None).values
        _, mask = model.answers.raws(tf.constant(x), center)
    likelihood.check_labels(labels, shape, mask=mask)
    counted = both(
        likelihood.counted_elements(shape, mask=mask),
        likelihood.has_label(likelihood.coded_labels(labels, shape), shape),
    )
    counted = np.ones(len(labels)) if counted is None else counted.numpy()
    return counted.astype("float32")


def _items(likelihood, labels, p, weights):
    """Targets and probabilities, [rows, items, C] each; C = 1 means class 1 alone.

    The third result, [rows, items], says which items count. The others become certain
    and right, so that they have neither loss nor gradient.
    """
    p = tf.convert_to_tensor(p)
    if isinstance(likelihood, likelihoods.Bernoulli):
        # Every output is a separate binary question.
        labels = match_targets(tf.convert_to_tensor(labels), p.shape, p.dtype)
        labels, p = labels[..., None], p[..., None]
    items = labelled_items(labels, p, weights)
    counts = tf.reshape(items.weight != 0, [tf.shape(p)[0], -1])
    shape = [*tf.unstack(tf.shape(counts)), items.target.shape[-1]]

    def of_counting(values):
        values = tf.reshape(values, shape)
        return tf.where(counts[..., None], values, tf.ones_like(values))

    return of_counting(items.target), of_counting(items.probabilities), counts


def _negative_log(target, p):
    """-log of the probability of the labels, [rows], without loss of precision.

    Near 1, rounding spoils the probability of the label and its gradient, but not the
    total probability of all other classes.
    """
    target, p = as_two_classes(target), as_two_classes(p)
    right = tf.reduce_sum(target * p, axis=-1)
    wrong = tf.reduce_sum((1 - target) * p, axis=-1)
    is_sure = right > 0.5
    # The branch not taken gets harmless values, since its gradient may be infinite.
    zero, one = tf.zeros_like(right), tf.ones_like(right)
    of_wrong = tf.math.log1p(-tf.where(is_sure, wrong, zero))
    of_right = tf.math.log(tf.maximum(tf.where(is_sure, one, right), _TINY))
    return -tf.reduce_sum(of_wrong + of_right, axis=-1)
