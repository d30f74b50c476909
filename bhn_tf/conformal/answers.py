"""What a calibrated model answers, as functions of a batch and of its frozen draws."""

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.conformal.interval_scores import IntervalConformity, Predictive
from bhn_tf.conformal.row_numbers import uniform_of_rows
from bhn_tf.conformal.set_scores import set_of
from bhn_tf.conformal.temperature import tempered
from bhn_tf.models.raw_outputs import in_structure_of
from bhn_tf.two_classes import as_two_classes


class OutputAnswers:
    """Answers from the raw outputs [S, B, ...] of one output.

    Args:
        likelihood: p(y|x, g) of the output.
        score: An `IntervalConformity` or a `SetConformity`.
        temperature: Recalibrates the averaged probabilities; or `None`.
        allow_empty: Whether a set may hold no class.
    """

    def __init__(self, likelihood, score, temperature=None, allow_empty=False):
        self._likelihood, self._score = likelihood, score
        self._temperature, self._allow_empty = temperature, allow_empty

    @property
    def makes_intervals(self) -> bool:
        """Whether y is a number; otherwise it is a class."""
        return isinstance(self._score, IntervalConformity)

    # -- of the model -----------------------------------------------------------------

    def mean(self, raws):
        """The predictive mean, recalibrated, [B, C]."""
        return self._recalibrated(self._plain_mean(raws))

    def samples(self, raws):
        """The mean of y under each draw, [B, S, C]."""
        return tf.experimental.numpy.moveaxis(self._likelihood.mean(raws), 0, 1)

    def uncertainty(self, raws):
        """The recalibrated mean, and the scores of the draws."""
        answers = dict(self._likelihood.summarize(raws))
        return {**answers, "mean": self._recalibrated(answers["mean"])}

    def _plain_mean(self, raws):
        return tf.reduce_mean(self._likelihood.mean(raws), axis=0)

    def _recalibrated(self, mean):
        if self._temperature is None:
            return mean
        return tempered(mean, self._temperature)

    # -- of calibration ---------------------------------------------------------------

    def interval(self, raws, thresholds):
        """Bounds of the targets whose score is at most the thresholds."""
        predictive = Predictive(self._likelihood, raws)
        return predictive.possible(
            *self._score.interval(predictive, thresholds), self._score.is_around_mean
        )

    def set(self, x, raws, thresholds, seed):
        """The classes whose score is at most the thresholds, booleans [B, C]."""
        p = self.probabilities(raws)
        scores = self._of_classes(x, p, seed)
        return set_of(scores, thresholds, p, self._allow_empty)

    def scores(self, x, y, raws, seed):
        """Conformity scores of calibration labels, [B, ...], and uncertainty scores.

        With the latter, under the name "missed_by", of a score that is a user's
        function: how far a label is from the interval for its own score.
        """
        if self.makes_intervals:
            predictive = Predictive(self._likelihood, raws)
            y = tf.cast(y, predictive.mean.dtype)
            scores = self._score.of_targets(predictive, y)
            if not self._score.is_searched:
                return scores, predictive.answers
            lower, upper = self.interval(raws, scores)
            missed_by = tf.nn.relu(tf.maximum(lower - y, y - upper))
            return scores, {**predictive.answers, "missed_by": missed_by}
        p = self.probabilities(raws)
        scores = self._of_classes(x, p, seed)
        own = tf.gather(scores, y, batch_dims=1)[:, tf.newaxis]
        return own, {**self._likelihood.summarize(raws), "mean": p}

    def probabilities(self, raws):
        """Averaged probabilities of two or more classes, [B, C], not recalibrated.

        The temperature has seen the calibration labels, and scores must not depend on
        them.
        """
        return as_two_classes(self._plain_mean(raws))

    def _of_classes(self, x, p, seed):
        uniform = uniform_of_rows(x, seed) if self._score.randomized else None
        return self._score.of_classes(p, uniform)


class CalibratedAnswers:
    """The answers of a model, with what calibration adds.

    The networks run once for all outputs.

    Args:
        model: A built `PredictiveModel`.
        outputs: `OutputAnswers` of each output, in their order.
        seed: Seed of randomised scores.
    """

    def __init__(self, model, outputs, seed: int):
        self._model, self._outputs, self._seed = model, outputs, seed

    def mean(self, x, values):
        """The predictive means in the outputs' structure."""
        return self._of_each(x, values, lambda output, raws: output.mean(raws))

    def samples(self, x, values):
        """The means of y under each draw in the outputs' structure."""
        return self._of_each(x, values, lambda output, raws: output.samples(raws))

    def uncertainty(self, x, values):
        """Means and scores of the draws in the outputs' structure."""
        return self._of_each(x, values, lambda output, raws: output.uncertainty(raws))

    def interval(self, x, values, *thresholds):
        """A list with the bounds of each output of numbers.

        Args:
            x: Inputs.
            values: Draws.
            *thresholds: The thresholds of each such output.
        """
        pairs = zip(self._pairs(x, values, True), thresholds, strict=True)
        return [output.interval(raws, limits) for (output, raws), limits in pairs]

    def set(self, x, values, *thresholds):
        """A list with the sets of each output of classes; see `interval`."""
        pairs = zip(self._pairs(x, values, False), thresholds, strict=True)
        taken = self._taken(x)
        return [
            output.set(taken, raws, limits, self._seed)
            for (output, raws), limits in pairs
        ]

    def scores(self, x_and_y, values):
        """A list with the scores of each output's calibration labels."""
        x, labels = x_and_y
        raws, _ = self._model.answers.raws(x, values)
        each = zip(self._outputs, labels, keras.tree.flatten(raws), strict=True)
        taken = self._taken(x)
        return [output.scores(taken, y, raw, self._seed) for output, y, raw in each]

    def _taken(self, x) -> list:
        """What the networks take of the inputs, as a server gets it."""
        return keras_adapter.flat_inputs(self._model.posterior.network, x)

    def _pairs(self, x, values, makes_intervals):
        raws, _ = self._model.answers.raws(x, values)
        pairs = zip(self._outputs, keras.tree.flatten(raws), strict=True)
        return [pair for pair in pairs if pair[0].makes_intervals == makes_intervals]

    def _of_each(self, x, values, answer):
        raws, _ = self._model.answers.raws(x, values)
        flat = zip(self._outputs, keras.tree.flatten(raws), strict=True)
        answers = [answer(output, raw) for output, raw in flat]
        return in_structure_of(raws, answers)
