"""How strange a prediction is, as a score of the draws' probabilities.

Every score takes probabilities [rows, S, ..., C]: S draws on axis 1, the C classes on
the last axis. Any axes in between (pixels, tokens) are kept, so that the result is
[rows, ...]. Higher is stranger. Entropies are in nats. No score is ever negative. An
item scores NaN if any of its probabilities is NaN or infinite, and otherwise never. A
single probability, C = 1, is that of class 1 of two, and is scored as the two classes
[1 - p, p].

NumPy arrays (and lists) give NumPy arrays, tensors give tensors, also inside
`tf.function`, with or without XLA. Half precision is computed and returned in float32;
float64 stays float64. All scores have finite gradients.

Total, expected and mutual information split one prediction: `predictive_entropy` =
`expected_entropy` (noise that more data would not remove) + `mutual_information`
(what the draws disagree about, and more data would settle).
"""

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from bhn_tf.two_classes import as_two_classes

Probabilities: TypeAlias = np.ndarray | tf.Tensor | Sequence
Scores: TypeAlias = np.ndarray | tf.Tensor

# Sums of a softmax deviate from 1 by less, even in half precision.
_ROUNDING = 1e-2


def _score(function: Callable[[tf.Tensor], tf.Tensor]) -> Callable[..., Scores]:
    """Turns a formula for finite tensors [rows, S, ..., C] into a score."""

    @functools.wraps(function)
    def score(probabilities: Probabilities) -> Scores:
        from_numpy = not hasattr(probabilities, "dtype") or isinstance(
            probabilities, np.ndarray
        )
        if from_numpy:
            probabilities = np.asarray(probabilities)
        p = tf.convert_to_tensor(probabilities)
        if p.dtype == tf.string:
            raise ValueError(f"{function.__name__} got text and needs probabilities.")
        if p.dtype != tf.float64:
            p = tf.cast(p, tf.float32)
        p = _checked(p, function.__name__)
        _refuse_no_probabilities(p, function.__name__)
        # Arg max, counts and reductions treat NaN differently on different devices:
        # take it out first, and put it back into the finished score. A comparison,
        # because LiteRT lacks `is_finite`.
        finite = tf.abs(p) <= p.dtype.max
        clean = function(tf.where(finite, p, tf.zeros_like(p)))
        not_a_number = tf.constant(np.nan, p.dtype)
        result = tf.where(tf.reduce_all(finite, axis=(1, -1)), clean, not_a_number)
        return result.numpy() if from_numpy and tf.executing_eagerly() else result

    return score


def _checked(p: tf.Tensor, name: str) -> tf.Tensor:
    """Checks the shape as far as it is known; turns C = 1 into two classes."""
    if p.shape.rank is None:
        return p
    if p.shape.rank < 3:
        raise ValueError(
            f"{name} got probabilities of shape {tuple(p.shape)}, but scores need "
            "three axes or more, [rows, S, ..., C]: S draws on axis 1 and C classes on "
            "the last axis. Pass the result of `predict_samples`, not of `predict`; "
            "for one prediction a row add the axis of draws, `probabilities[:, None]`."
        )
    if p.shape[1] == 0 or p.shape[-1] == 0:
        raise ValueError(
            f"{name} got probabilities of shape {tuple(p.shape)}: no "
            f"{'draws on axis 1' if p.shape[1] == 0 else 'classes on the last axis'}. "
            "Expected [rows, S, ..., C] with S >= 1 draws and C >= 1 classes."
        )
    return as_two_classes(p)


def _refuse_no_probabilities(p: tf.Tensor, name: str) -> None:
    """Refuses raw outputs, whose scores would be meaningless, if values are known."""
    if not tf.executing_eagerly() or not tf.size(p):
        return
    known = tf.where(tf.math.is_finite(p), p, tf.zeros_like(p))
    low, high = float(tf.reduce_min(known)), float(tf.reduce_max(known))
    if low < -_ROUNDING or high > 1 + _ROUNDING:
        raise ValueError(
            f"{name} got values from {low:.3g} to {high:.3g}, which are no "
            "probabilities. Raw outputs need a softmax or sigmoid first."
        )


def _mean_over_draws(values: tf.Tensor) -> tf.Tensor:
    """Mean over axis 1, exact if all draws agree, so that scores are then exactly 0."""
    first = values[:, :1]
    return first[:, 0] + tf.reduce_mean(values - first, axis=1)


def _entropy(p: tf.Tensor) -> tf.Tensor:
    """Entropy over the last axis, with 0 log 0 = 0 and a finite gradient there."""
    # Processors that flush subnormal numbers to zero would turn them into 0 * log 0, so
    # the smallest normal number is the limit. This omits less than 1e-35 nats.
    positive = p > np.finfo(p.dtype.as_numpy_dtype).tiny
    # Also a `where` inside the log: the gradient of the branch not taken is multiplied
    # by 0, and 0 * inf would be NaN.
    log_p = tf.math.log(tf.where(positive, p, tf.ones_like(p)))
    entropy = tf.reduce_sum(tf.where(positive, -p * log_p, tf.zeros_like(p)), axis=-1)
    return tf.maximum(entropy, 0.0)


@_score
def max_probability(probabilities: Probabilities) -> Scores:
    """One minus the largest class probability of the mean over draws.

    The baseline of Hendrycks and Gimpel, "A baseline for detecting misclassified and
    out-of-distribution examples in neural networks", ICLR 2017, for the averaged
    prediction. The tables of the Bayesian hypernetworks paper call it variation ratio.

    Args:
        probabilities: [rows, S, ..., C], class probabilities of S draws.

    Returns:
        [rows, ...], between 0 (certain) and 1 - 1/C.

    Raises:
        ValueError: fewer than three axes, or no draws or classes.

    Example:
        >>> max_probability([[[1.0, 0.0], [0.5, 0.5]]]).tolist()
        [0.25]
    """
    mean = _mean_over_draws(probabilities)
    # Rounding may leave a mean just above 1.
    return tf.maximum(1.0 - tf.reduce_max(mean, axis=-1), 0.0)


@_score
def variation_ratio(probabilities: Probabilities) -> Scores:
    """Share of the draws that do not vote for the class with the most votes.

    Each draw votes for its most probable class (the first of equal ones). Freeman,
    "Elementary applied statistics", 1965; for draws of networks: Gal, "Uncertainty in
    deep learning", PhD thesis, 2016, section 3.3.1. Votes are piecewise constant, so
    the gradient is zero.

    Args:
        probabilities: [rows, S, ..., C], class probabilities of S draws.

    Returns:
        [rows, ...], between 0 (all draws agree) and 1 - 1/min(S, C).

    Raises:
        ValueError: fewer than three axes, or no draws or classes.

    Example:
        >>> variation_ratio([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]]]).tolist()
        [0.25]
    """
    p = tf.convert_to_tensor(probabilities)
    votes = tf.one_hot(tf.argmax(p, axis=-1), depth=tf.shape(p)[-1], dtype=p.dtype)
    # Makes the gradient zero instead of missing.
    votes += 0.0 * p
    num_draws = tf.cast(tf.shape(p)[1], votes.dtype)
    most_votes = tf.reduce_max(tf.reduce_sum(votes, axis=1), axis=-1)
    return (num_draws - most_votes) / num_draws


@_score
def predictive_entropy(probabilities: Probabilities) -> Scores:
    """Entropy of the mean over draws: all the uncertainty of a prediction.

    Shannon, "A mathematical theory of communication", 1948.

    Args:
        probabilities: [rows, S, ..., C], class probabilities of S draws.

    Returns:
        [rows, ...] in nats, between 0 and log C.

    Raises:
        ValueError: fewer than three axes, or no draws or classes.

    Example:
        >>> predictive_entropy([[[1.0, 0.0], [0.0, 1.0]]]).round(4).tolist()
        [0.6931]
    """
    return _entropy(_mean_over_draws(probabilities))


@_score
def expected_entropy(probabilities: Probabilities) -> Scores:
    """Mean of the entropy over draws: the noise that every draw sees in the data.

    The aleatoric part in Depeweg, Hernandez-Lobato, Doshi-Velez and Udluft,
    "Decomposition of uncertainty in Bayesian deep learning", ICML 2018.

    Args:
        probabilities: [rows, S, ..., C], class probabilities of S draws.

    Returns:
        [rows, ...] in nats, between 0 and log C.

    Raises:
        ValueError: fewer than three axes, or no draws or classes.

    Example:
        >>> expected_entropy([[[1.0, 0.0], [0.5, 0.5]]]).round(4).tolist()
        [0.3466]
    """
    return tf.maximum(_mean_over_draws(_entropy(probabilities)), 0.0)


@_score
def mutual_information(probabilities: Probabilities) -> Scores:
    """Predictive minus expected entropy: what the draws disagree about (BALD).

    The information that the label would give about the weights. Houlsby, Huszar,
    Ghahramani and Lengyel, "Bayesian active learning for classification and preference
    learning", arXiv:1112.5745, 2011.

    Args:
        probabilities: [rows, S, ..., C], class probabilities of S draws.

    Returns:
        [rows, ...] in nats, between 0 (the draws agree) and log min(S, C).

    Raises:
        ValueError: fewer than three axes, or no draws or classes.

    Example:
        >>> mutual_information([[[1.0, 0.0], [0.0, 1.0]]]).round(4).tolist()
        [0.6931]
        >>> mutual_information([[[0.5, 0.5], [0.5, 0.5]]]).tolist()
        [0.0]
    """
    total = _entropy(_mean_over_draws(probabilities))
    # The difference is never negative, except for rounding (Jensen's inequality).
    return tf.maximum(total - _mean_over_draws(_entropy(probabilities)), 0.0)


@_score
def mean_std(probabilities: Probabilities) -> Scores:
    """Standard deviation over draws (ddof 0), averaged over the classes.

    Kendall, Badrinarayanan and Cipolla, "Bayesian SegNet", BMVC 2017; as an
    acquisition: Gal, Islam and Ghahramani, "Deep Bayesian active learning with image
    data", ICML 2017. At a standard deviation of zero the gradient is zero.

    Args:
        probabilities: [rows, S, ..., C], class probabilities of S draws.

    Returns:
        [rows, ...], between 0 (the draws agree) and 1/2.

    Raises:
        ValueError: fewer than three axes, or no draws or classes.

    Example:
        >>> mean_std([[[1.0, 0.0], [0.0, 1.0]]]).tolist()
        [0.5]
    """
    deviation = probabilities - _mean_over_draws(probabilities)[:, tf.newaxis]
    variance = tf.reduce_mean(tf.square(deviation), axis=1)
    # As in `_entropy`: the slope of a square root is infinite at 0.
    positive = variance > np.finfo(variance.dtype.as_numpy_dtype).tiny
    root = tf.sqrt(tf.where(positive, variance, tf.ones_like(variance)))
    std = tf.where(positive, root, tf.zeros_like(variance))
    return tf.reduce_mean(std, axis=-1)


SCORES: dict[str, Callable[[Probabilities], Scores]] = {
    "max_probability": max_probability,
    "variation_ratio": variation_ratio,
    "predictive_entropy": predictive_entropy,
    "expected_entropy": expected_entropy,
    "mutual_information": mutual_information,
    "mean_std": mean_std,
}
