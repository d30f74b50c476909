"""Conformity scores of classes: how strange each class would be as the truth.

Each maps the probabilities of a row to a score of every class; a set holds the classes
whose score is at most a threshold.
"""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_amount, check_count
from bhn_tf.conformal.shapes import require_shape
from bhn_tf.user_warnings import warn_unless_registered


class SetConformity:
    """A conformity score of classes.

    Attributes:
        randomized: Whether the score needs a random number for each row.
    """

    randomized = False

    def of_classes(self, probabilities, uniform=None) -> tf.Tensor:
        """Returns the score of every class, higher = stranger.

        Args:
            probabilities: Averaged over the draws, [B, C].
            uniform: A random number between 0 and 1 for each row, [B].

        Returns:
            [B, C].
        """
        raise NotImplementedError

    def get_config(self) -> dict:
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable("bhn_tf")
class LAC(SetConformity):
    """1 − p of the class: the smallest sets on average.

    Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded
    error levels" (2019).

    Example:
        >>> LAC().of_classes([[0.75, 0.25]]).numpy().tolist()
        [[0.25, 0.75]]
    """

    def of_classes(self, probabilities, uniform=None):
        return 1.0 - tf.convert_to_tensor(probabilities)


@keras.saving.register_keras_serializable("bhn_tf")
class RAPS(SetConformity):
    """The total probability of all classes at least as likely, plus a price on many.

    Angelopoulos et al., "Uncertainty sets for image classifiers using conformal
    prediction" (2021): Σ p over the classes from the likeliest down to this one, plus
    `lam` for every class from the (k + 1)-th on. Sets are larger where the model is
    unsure, and not much larger than k.

    Args:
        lam: λ, the price of a class, at least 0.
        k: Number of classes without a price.
        randomized: Whether to subtract a random share of the class's own probability,
            which makes the coverage exact and the sets smaller. The random number is
            made from the row's inputs, so that a row always has the same set.

    Example:
        >>> RAPS(lam=0.5, k=1).of_classes([[0.25, 0.75]]).numpy().round(4).tolist()
        [[1.5, 0.75]]
    """

    def __init__(self, lam: float = 0.01, k: int = 1, randomized: bool = False):
        self.lam = check_amount("lam", lam, may_be_zero=True)
        self.k, self.randomized = check_count("k", k, minimum=0), bool(randomized)

    def of_classes(self, probabilities, uniform=None):
        p = tf.convert_to_tensor(probabilities)
        order = tf.argsort(p, axis=-1, direction="DESCENDING", stable=True)
        place = tf.argsort(order, axis=-1, stable=True)
        ranked = tf.cumsum(tf.gather(p, order, batch_dims=1), axis=-1)
        # Together all classes have probability 1; rounding must not change that.
        is_last = place == p.shape[-1] - 1
        total = tf.gather(tf.minimum(ranked, 1.0), place, batch_dims=1)
        price = self.lam * tf.cast(tf.maximum(place + 1 - self.k, 0), p.dtype)
        # Where the likeliest class rounds to 1 all would tie, and sets hold every one.
        price += np.finfo(p.dtype.as_numpy_dtype).eps * tf.cast(place, p.dtype)
        scores = tf.where(is_last, tf.ones_like(p), total) + price
        if not self.randomized:
            return scores
        return scores - tf.cast(uniform, p.dtype)[:, tf.newaxis] * p

    def get_config(self):
        return {"lam": self.lam, "k": self.k, "randomized": self.randomized}


@keras.saving.register_keras_serializable("bhn_tf")
class APS(RAPS):
    """The total probability of all classes at least as likely: adaptive sets.

    Romano, Sesia and Candès, "Classification with valid and adaptive coverage" (2020).
    It is `RAPS` without the price.

    Args:
        randomized: As in `RAPS`.

    Example:
        >>> APS().of_classes([[0.25, 0.75]]).numpy().round(4).tolist()
        [[1.0, 0.75]]
    """

    def __init__(self, randomized: bool = False):
        super().__init__(0.0, 0, randomized)

    def get_config(self):
        return {"randomized": self.randomized}


@keras.saving.register_keras_serializable("bhn_tf")
class CustomSetConformity(SetConformity):
    """A score of your own.

    Args:
        function: `function(probabilities)` → scores [B, C], written in TensorFlow, and
            registered with Keras, so that it can be saved.
    """

    def __init__(self, function):
        warn_unless_registered(function)
        self.function = function

    def of_classes(self, probabilities, uniform=None):
        p = tf.convert_to_tensor(probabilities)
        return require_shape(self.function(p), p.shape, "class of each row")

    def get_config(self):
        return {"function": keras.saving.serialize_keras_object(self.function)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["function"]))


def set_of(scores, threshold, probabilities, allow_empty: bool = False) -> tf.Tensor:
    """Returns which classes are in the set of each row.

    Args:
        scores: [B, C].
        threshold: Broadcasts to [B, C].
        probabilities: [B, C]. A row of NaN gets every class, as nothing is known of it.
        allow_empty: Whether a set may hold no class. Otherwise such a set gets the
            likeliest class, which does not weaken the guarantee.

    Returns:
        Booleans [B, C].

    Example:
        >>> p = tf.constant([[0.75, 0.25]])
        >>> set_of(LAC().of_classes(p), 0.1, p).numpy().tolist()
        [[True, False]]
    """
    included = scores <= threshold
    if not allow_empty:
        top = tf.one_hot(
            tf.argmax(probabilities, axis=-1),
            scores.shape[-1],
            on_value=True,
            off_value=False,
            dtype=tf.bool,
        )
        is_empty = ~tf.reduce_any(included, axis=-1, keepdims=True)
        included |= is_empty & top
    return included | tf.reduce_any(
        tf.math.is_nan(probabilities), axis=-1, keepdims=True
    )
