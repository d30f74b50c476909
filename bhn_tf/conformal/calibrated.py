"""A model with guarantees, as a Keras model."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.conformal import groups, risk
from bhn_tf.conformal.answers import inputs_of
from bhn_tf.conformal.serving import export_calibrated
from bhn_tf.conformal.state import CalibrationState
from bhn_tf.data_feeds import feed_of
from bhn_tf.metrics import RejectThreshold
from bhn_tf.models.answers import answer_batches


@keras.saving.register_keras_serializable("bhn_tf")
class Calibrated(CalibrationState):
    """A model, draws of it that are frozen, and the scores of calibration rows.

    `bhn_tf.conformal.calibrate` makes one. It is saved with `.save("c.keras")` and
    loaded with `keras.saving.load_model`, and is not trained further: a model that
    has changed has to be calibrated again.

    Arguments and attributes are those of `CalibrationState`.
    """

    # -- predictions -----------------------------------------------------------------

    def call(self, x, training=None):
        """Returns the predictive mean over the frozen draws, [B, C]."""
        return self.answers.mean(x, self.draws)

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None):
        """Returns the predictive mean over the frozen draws, recalibrated, [rows, C].

        Args:
            x, batch_size, verbose, steps, callbacks: As in Keras.
        """
        return self._ask("mean", x, batch_size, verbose, steps, callbacks)

    def predict_samples(
        self, x, batch_size=None, verbose="auto", steps=None, callbacks=None
    ):
        """Returns the mean of y under each frozen draw, [rows, S, C].

        Args:
            As `predict`.
        """
        return self._ask("samples", x, batch_size, verbose, steps, callbacks)

    def predict_uncertainty(
        self, x, batch_size=None, verbose="auto", steps=None, callbacks=None
    ) -> dict:
        """Returns the mean of `predict` and every score, by name.

        Args:
            As `predict`.
        """
        return self._ask("uncertainty", x, batch_size, verbose, steps, callbacks)

    def predict_interval(
        self,
        x,
        level: float = 0.9,
        batch_size=None,
        verbose="auto",
        steps=None,
        callbacks=None,
        *,
        by=None,
    ):
        """Returns intervals that hold y with a probability of at least `level`.

        The probability is over calibration rows and a new row that are exchangeable:
        on average over rows, and not for every row. Each target column has it on its
        own. A row with a NaN input gets NaN.

        Args:
            x, batch_size, verbose, steps, callbacks: As in `predict`.
            level: A probability, read to six decimals.
            by: The group of each row, [rows], where the model was calibrated by groups.

        Returns:
            Arrays `(lower, upper)`, [rows, C] each, in the units of y.

        Raises:
            ValueError: If there are too few calibration rows for the level, a group
                was not calibrated, or y is a class.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        lower, upper = calibrated.predict_interval(x, level=0.9)
        ```
        """
        if not self.makes_intervals:
            raise ValueError(
                "The model predicts classes: ask for `predict_set(x, level)`."
            )
        limits = self._limits(x, level, by)
        return self._ask("interval", x, batch_size, verbose, steps, callbacks, limits)

    def predict_set(
        self,
        x,
        level: float = 0.9,
        batch_size=None,
        verbose="auto",
        steps=None,
        callbacks=None,
        *,
        by=None,
    ) -> np.ndarray:
        """Returns sets that hold the class with a probability of at least `level`.

        The probability is over calibration rows and a new row that are exchangeable;
        calibrated `by="class"` it holds for the rows of each class on their own. A row
        with a NaN input gets the set of all classes.

        Args:
            As `predict_interval`.

        Returns:
            Booleans [rows, C]; of one yes-or-no output [rows, 2].

        Raises:
            ValueError: As `predict_interval`, or if y is a number.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        possible = calibrated.predict_set(x, level=0.9)
        ```
        """
        if self.makes_intervals:
            raise ValueError(
                "The model predicts numbers: ask for `predict_interval(x, level)`."
            )
        limits = self._limits(x, level, by)
        return self._ask("set", x, batch_size, verbose, steps, callbacks, limits)

    def reject_threshold(
        self,
        max_error_rate: float,
        confidence: float = 0.95,
        score: str = "predictive_entropy",
    ) -> RejectThreshold:
        """Chooses which rows to answer, so that the error rate among them is promised.

        See `bhn_tf.conformal.controlled_threshold`.

        Args:
            max_error_rate: The highest error rate among answered rows.
            confidence: With which it holds, over the choice of the calibration rows.
            score: A key of `predict_uncertainty`.

        Returns:
            `metrics.RejectThreshold`: answer rows where `score <= threshold`.

        Raises:
            ValueError: If a number is no probability, or y is no class.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        chosen = calibrated.reject_threshold(0.02, confidence=0.9)
        answered = calibrated.predict_uncertainty(x)["predictive_entropy"]
        answered <= chosen.threshold
        ```
        """
        if self.makes_intervals:
            raise ValueError(
                "Errors are counted of classes, and the model predicts numbers: give "
                "`conformal.controlled_threshold(scores, errors, ...)` what is an "
                "error for you."
            )
        return risk.controlled_threshold(
            self.doubts(score), self._array("wrong"), max_error_rate, confidence
        )

    # -- how -------------------------------------------------------------------------

    def _limits(self, x, level, by):
        """Thresholds as they are compared with scores, for all rows or for each."""
        limits = self.thresholds(level)
        if self.by is None or self.by == "class":
            if by is not None:
                raise ValueError(
                    "`by` was given, and the model was not calibrated by groups: give "
                    "`calibrate(..., by=groups)` those of the calibration rows."
                )
            return limits.T if self.by == "class" else limits
        num_rows = feed_of(x).num_rows
        if by is None or num_rows is None:
            raise ValueError(
                "The model was calibrated by groups: give arrays of inputs, and `by` "
                f"with the group of each row, of {self.by[:10]}."
            )
        return limits[groups.index_of(groups.group_values(by, num_rows), self.by)]

    def _ask(self, answer, x, batch_size, verbose, steps, callbacks, limits=None):
        feed = feed_of(x)
        feed.refuse_empty()
        function = self._compiled_answers.function(
            answer, getattr(self.answers, answer)
        )
        draws = self.draws
        if feed.num_rows is not None:
            num_draws = max(int(draws.shape[0]), len(self.posterior.networks))
            batch_size = self.model.answers.rows_at_a_time(batch_size, num_draws)
        per_row = limits is not None and len(limits) > 1 and self.by != "class"
        if per_row:
            rows = keras.tree.lists_to_tuples((feed.x, limits))
            feed.x = tf.data.Dataset.from_tensor_slices(rows).batch(batch_size)

        def of_batch(data):
            if per_row:
                inputs, of_rows = data
                return function(inputs, draws, of_rows)
            more = () if limits is None else (tf.constant(limits),)
            return function(inputs_of(data), draws, *more)

        return answer_batches(
            self, of_batch, feed.x, batch_size, verbose, steps, callbacks
        )

    # -- serving ---------------------------------------------------------------------

    def export(self, directory, signatures=None, *, metrics: dict | None = None) -> str:
        """Writes the next version of a SavedModel with frozen draws.

        Beside the signatures of `PredictiveModel.export(..., ensemble=True)` it has
        `predict_interval(inputs, level)` → `lower` and `upper`, or
        `predict_set(inputs, level)` → `set`; `level` is a float32 scalar. Where the
        model was calibrated by groups, they take `by` [rows], int64 or texts, too.

        Args:
            directory: Folder of versions.
            signatures: Names of the signatures to be written; `None` for all.
            metrics: What the model card tells of the model's quality.

        Returns:
            The path of the new version.

        Raises:
            ValueError: If a signature is unknown, or an input is named `level` or
                `by`.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        path = calibrated.export("saved_models/calibrated")
        ```
        """
        return export_calibrated(self, directory, signatures, metrics)
