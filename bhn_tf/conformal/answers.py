"""What a calibrated model answers, as functions of a batch and of its frozen draws."""

import keras
import tensorflow as tf

from bhn_tf.conformal.interval_scores import Predictive
from bhn_tf.conformal.row_numbers import uniform_of_rows
from bhn_tf.conformal.set_scores import set_of
from bhn_tf.conformal.temperature import tempered


class CalibratedAnswers:
    """The answers of a model, with what calibration adds.

    Args:
        model: A built `PredictiveModel`.
        score: An `IntervalConformity` or a `SetConformity`.
        seed: Seed of the numbers of randomised scores.
        temperature: What the averaged probabilities are recalibrated by, or `None`.
        allow_empty: Whether a set may hold no class.
    """

    def __init__(self, model, score, seed, temperature=None, allow_empty=False):
        self._model, self._score, self._seed = model, score, seed
        self._temperature, self._allow_empty = temperature, allow_empty

    # -- of the model -----------------------------------------------------------------

    def mean(self, x, values):
        """The predictive mean, recalibrated, [B, C]."""
        return self._recalibrated(self._model.answers.mean(x, values))

    def samples(self, x, values):
        """The mean of y under each draw, [B, S, C]."""
        return self._model.answers.samples(x, values)

    def uncertainty(self, x, values):
        """The recalibrated mean, and the scores of the draws."""
        answers = dict(self._model.answers.uncertainty(x, values))
        return {**answers, "mean": self._recalibrated(answers["mean"])}

    def _recalibrated(self, mean):
        if self._temperature is None:
            return mean
        return tempered(mean, self._temperature)

    # -- of calibration ---------------------------------------------------------------

    def interval(self, x, values, thresholds):
        """Bounds of the targets whose score is at most the thresholds."""
        return self._score.interval(self._predictive(x, values), thresholds)

    def set(self, x, values, thresholds):
        """Booleans [B, C]: the classes whose score is at most the thresholds."""
        p = self.probabilities(x, values)
        scores = self._of_classes(x, p)
        return set_of(scores, thresholds, p, self._allow_empty)

    def target_scores(self, x_and_y, values):
        """Scores of calibration targets, [B, ...], and of how sure the model is."""
        x, y = x_and_y
        predictive = self._predictive(x, values)
        y = tf.cast(y, predictive.mean.dtype)
        return self._score.of_targets(predictive, y), predictive.answers

    def class_scores(self, x_and_y, values):
        """Scores of calibration classes, [B, 1], and of how sure the model is."""
        x, y = x_and_y
        p = self.probabilities(x, values)
        scores = tf.gather(self._of_classes(x, p), y, batch_dims=1)[:, tf.newaxis]
        answers = self._model.answers.uncertainty(x, values)
        return scores, {**answers, "mean": p}

    def probabilities(self, x, values):
        """Averaged probabilities of two classes or more, [B, C], as they come.

        Not recalibrated: the temperature has seen the calibration labels, and scores
        must not depend on them.
        """
        p = self._model.answers.mean(x, values)
        return tf.concat([1 - p, p], axis=-1) if p.shape[-1] == 1 else p

    def _of_classes(self, x, p):
        uniform = uniform_of_rows(x, self._seed) if self._score.randomized else None
        return self._score.of_classes(p, uniform)

    def _predictive(self, x, values):
        raws, _ = self._model.answers.raws(x, values)
        return Predictive(self._model.likelihood, raws)


def without_padding(leaf):
    """Returns a leaf of a batch; `None` of an optional input that is not given."""
    return None if isinstance(leaf, tf.experimental.Optional) else leaf


def inputs_of(data):
    """Returns the inputs of a batch, which may come with labels and weights."""
    x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    return keras.tree.map_structure(without_padding, x)
