"""Likelihoods of class labels, from logits or probabilities."""

import operator

import keras
import numpy as np
import tensorflow as tf

from bhn_tf import uncertainty
from bhn_tf.likelihoods.elements import align, nan_where_padded
from bhn_tf.likelihoods.likelihood import (
    Likelihood,
    at_least_float32,
    match_targets,
    require_rank,
)
from bhn_tf.two_classes import as_two_classes


class _FromActivation(Likelihood):
    """A likelihood that has to know whether raw outputs are logits.

    Args:
        from_logits: Whether the network ends without its activation. `None`: the
            model looks at the network's last activation.
        clip: Optional (low, high) that probabilities are clipped to before the log,
            in the loss only. The paper has (0.001, 0.999). The gradient is that of
            the unclipped log-probability, since a clipped example still has to learn.
        reduction: "sum" or "mean" over the further axes of an example.
    """

    is_of_classes = True

    #: The activation whose output this likelihood takes as probabilities.
    probability_activation: str | None = None

    def __init__(self, from_logits=None, clip=None, reduction="sum"):
        super().__init__(reduction)
        if clip is not None:
            pair = np.ravel(clip)
            if pair.shape != (2,) or not 0 <= pair[0] < pair[1] <= 1:
                raise ValueError(
                    "Expected `clip` to be two probabilities in ascending order, "
                    f"such as (0.001, 0.999), got {clip!r}."
                )
            clip = (float(pair[0]), float(pair[1]))
        self.from_logits = from_logits
        self.clip = clip

    def resolved(self, activation, reason):
        if self.from_logits is not None:
            return self
        name = getattr(activation, "__name__", None)
        if name not in ("linear", self.probability_activation):
            reason = reason if activation is None else f"its last activation is {name}"
            raise ValueError(
                f"{type(self).__name__} cannot tell whether the network returns "
                f"logits: {reason}. Say so with `likelihood=bhn_tf.likelihoods."
                f"{type(self).__name__}(from_logits=True)` (or False, for "
                "probabilities)."
            )
        return type(self)(**{**self.get_config(), "from_logits": name == "linear"})

    def _require_resolved(self):
        if self.from_logits is None:
            raise ValueError(
                f"{type(self).__name__} outside a model needs `from_logits=True` or "
                "`from_logits=False`."
            )

    def mean(self, raw):
        self._require_resolved()
        raw = at_least_float32(raw)
        return self._probabilities(raw) if self.from_logits else raw

    def clipped(self, log_prob, raw_shape):
        """Clips log-probabilities, with the gradient of the unclipped ones."""
        if self.clip is None:
            return log_prob
        bounds = tf.math.log(tf.constant(self._bounds(raw_shape), log_prob.dtype))
        clip = tf.grad_pass_through(lambda v: tf.clip_by_value(v, bounds[0], bounds[1]))
        return clip(log_prob)

    def _bounds(self, raw_shape):
        return self.clip

    def get_config(self):
        return {
            **super().get_config(),
            "from_logits": self.from_logits,
            "clip": self.clip,
        }


def _log(probabilities):
    """Log p, finite at p = 0, where it is the log of the smallest normal number.

    A float32 softmax rounds small probabilities to zero, and one such row would turn
    every weight into NaN. Logits are preferable: they lose nothing.
    """
    return tf.math.log(
        tf.maximum(probabilities, tf.constant(1.2e-38, probabilities.dtype))
    )


@keras.saving.register_keras_serializable("bhn_tf")
class Categorical(_FromActivation):
    """One class of C: raw outputs [B, ..., C] are logits or softmax probabilities.

    Labels are class numbers [B, ...] or [B, ..., 1], or one-hot [B, ..., C].

    Args:
        from_logits: Whether raw outputs are logits; `None` to look at the network.
        clip: Optional (low, high) for probabilities in the loss; low is taken as
            min(low, 0.1 / C), below the probability of a uniform guess.
        reduction: "sum" or "mean" over pixels or tokens.
        ignore_class: Optional class number that marks a missing label (void pixels,
            say), in range or not: such elements are treated as padding.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Categorical(from_logits=True)
    likelihood.log_prob([0], [[0.0, 0.0]])  # [-0.6931]
    ```
    """

    probability_activation = "softmax"
    _probabilities = staticmethod(tf.nn.softmax)

    def __init__(self, from_logits=None, clip=None, reduction="sum", ignore_class=None):
        super().__init__(from_logits, clip, reduction)
        self.ignore_class = None if ignore_class is None else _integer(ignore_class)

    def element_shape(self, raw_shape):
        return tuple(raw_shape[:-1])

    def coded_labels(self, y, raw_shape):
        y = tf.convert_to_tensor(y)
        return y if _is_one_hot(y, raw_shape) else _class_numbers(y, raw_shape)

    def has_label(self, y, raw_shape):
        if self.ignore_class is None:
            return None
        if not _is_one_hot(y, raw_shape):
            return tf.cast(y, tf.float64) != self.ignore_class
        if 0 <= self.ignore_class < raw_shape[-1]:
            return tf.cast(y[..., self.ignore_class], tf.float64) != 1
        return None

    def element_log_prob(self, y, raw):
        self._require_resolved()
        raw = at_least_float32(raw)
        log_probs = tf.nn.log_softmax(raw) if self.from_logits else _log(raw)
        y = self.coded_labels(y, raw.shape)
        if _is_one_hot(y, raw.shape):
            y = tf.cast(y, raw.dtype)
            # A class that a logit of -inf rules out: 0 times its log would be NaN.
            log_probs = tf.where(y == 0, tf.zeros_like(log_probs), log_probs)
            return tf.reduce_sum(y * log_probs, axis=-1)
        return tf.gather(
            log_probs,
            tf.cast(y, tf.int32),
            axis=-1,
            batch_dims=raw.shape.rank - 1,
        )

    def _bounds(self, raw_shape):
        low, high = self.clip
        return min(low, 0.1 / raw_shape[-1]), high

    def summarize(self, raws, mask=None):
        probabilities = self.mean(raws)
        samples = tf.experimental.numpy.moveaxis(probabilities, 0, 1)
        scores = {
            name: nan_where_padded(score(samples), mask)
            for name, score in uncertainty.SCORES.items()
        }
        return {"mean": tf.reduce_mean(probabilities, axis=0), **scores}

    def valid_elements(self, y, raw_shape):
        if _is_one_hot(y, raw_shape):
            y = tf.cast(y, tf.float32)
            sums = tf.reduce_sum(y, axis=-1)
            return tf.reduce_all(y >= 0, axis=-1) & (tf.abs(sums - 1) < 1e-3)
        y = tf.cast(y, tf.float64)
        return (y >= 0) & (y < raw_shape[-1]) & (y == tf.floor(y))

    def get_config(self):
        return {**super().get_config(), "ignore_class": self.ignore_class}

    def label_advice(self, raw_shape):
        classes = raw_shape[-1]
        if classes == 1:
            return (
                "the network has a single output, and `Categorical` needs one for each "
                "class. For yes or no, one output is enough with "
                "`likelihood='bernoulli'`."
            )
        return (
            f"the network has {classes} classes, so give class numbers from 0 to "
            f"{classes - 1}, or one-hot rows of {classes}."
        )


def _integer(ignore_class) -> int:
    try:
        return operator.index(ignore_class)
    except TypeError:
        raise ValueError(
            f"Expected `ignore_class` to be a class number, got {ignore_class!r}."
        ) from None


def _is_one_hot(y, raw_shape) -> bool:
    require_rank(y)
    return len(y.shape) == len(raw_shape) and y.shape[-1] == raw_shape[-1] != 1


def _class_numbers(y, raw_shape):
    """Class numbers [B, ...] from [B, ...] or [B, ..., 1]."""
    if len(y.shape) == len(raw_shape) and y.shape[-1] == 1:
        return y[..., 0]
    if len(y.shape) != len(raw_shape) - 1:
        raise ValueError(
            f"Labels of shape {tuple(y.shape)} do not fit outputs of shape "
            f"{tuple(raw_shape)}: give class numbers of shape {tuple(raw_shape[:-1])} "
            f"or one-hot labels of shape {tuple(raw_shape)}."
        )
    return y


@keras.saving.register_keras_serializable("bhn_tf")
class Bernoulli(_FromActivation):
    """Independent yes-or-no outputs: raw [B, ..., C] are logits or probabilities.

    Labels are 0 or 1, of the shape of the outputs; [B] for a single output. Scores
    count every output as two classes and are averaged over the outputs.

    Args:
        from_logits: Whether raw outputs are logits; `None` to look at the network.
        clip: Optional (low, high) for probabilities in the loss.
        reduction: "sum" or "mean" over the outputs.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Bernoulli(from_logits=True)
    likelihood.log_prob([1], [[0.0]])  # [-0.6931]
    ```
    """

    probability_activation = "sigmoid"
    _probabilities = staticmethod(tf.sigmoid)

    def element_shape(self, raw_shape):
        return tuple(raw_shape)

    def coded_labels(self, y, raw_shape):
        return match_targets(y, raw_shape)

    def element_log_prob(self, y, raw):
        self._require_resolved()
        raw = at_least_float32(raw)
        y = match_targets(y, raw.shape, raw.dtype)
        if self.from_logits:
            # An answer that an infinite logit rules out: 0 times it would be NaN.
            is_sure = tf.math.is_inf(raw)
            impossible = tf.constant(-float("inf"), raw.dtype)
            sure = tf.where(y == tf.sigmoid(raw), tf.zeros_like(raw), impossible)
            finite = tf.where(is_sure, tf.zeros_like(raw), raw)
            log_prob = -tf.nn.sigmoid_cross_entropy_with_logits(y, finite)
            return tf.where(is_sure, sure, log_prob)
        return y * _log(raw) + (1 - y) * _log(1 - raw)

    def summarize(self, raws, mask=None):
        probabilities = self.mean(raws)
        samples = tf.experimental.numpy.moveaxis(probabilities, 0, 1)
        two_classes = as_two_classes(samples[..., tf.newaxis])
        scores = {
            name: _mean_over_outputs(score(two_classes), mask)
            for name, score in uncertainty.SCORES.items()
        }
        return {"mean": tf.reduce_mean(probabilities, axis=0), **scores}

    def valid_elements(self, y, raw_shape):
        y = tf.cast(y, tf.float32)
        return (y >= 0) & (y <= 1)

    def label_advice(self, raw_shape):
        return (
            f"give 0 or 1 (or probabilities) for each of the {raw_shape[-1]} outputs."
        )


def _mean_over_outputs(scores, mask):
    """Mean over the last axis without padding; NaN if all is padding."""
    if mask is None:
        return tf.reduce_mean(scores, axis=-1)
    mask = tf.cast(align(mask, scores.shape, "mask"), tf.bool)
    real = tf.broadcast_to(mask, tf.shape(scores))
    total = tf.reduce_sum(tf.where(real, scores, tf.zeros_like(scores)), axis=-1)
    return total / tf.reduce_sum(tf.cast(real, scores.dtype), axis=-1)
