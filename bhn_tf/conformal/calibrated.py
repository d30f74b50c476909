"""A model with guarantees, as a Keras model."""

import functools

import keras
import tensorflow as tf

from bhn_tf.arguments import check_given_counts
from bhn_tf.conformal.output_to_calibrate import for_each_output
from bhn_tf.conformal.serving import export_calibrated
from bhn_tf.conformal.state import CalibrationState
from bhn_tf.data_feeds import feed_of, inputs_of
from bhn_tf.models.answer_loop import answer_batches
from bhn_tf.models.raw_outputs import in_structure_of


@keras.saving.register_keras_serializable("bhn_tf")
class Calibrated(CalibrationState):
    """A model with frozen draws and the scores of calibration rows.

    `bhn_tf.conformal.calibrate` makes one. It is saved with `.save("c.keras")` and
    loaded with `keras.saving.load_model`, and is not trained further: a model that
    has changed has to be calibrated again.

    If a model has several outputs, each is calibrated on its own, and answers come in
    the outputs' structure.

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

        The probability is over exchangeable calibration rows and a new row: it holds on
        average over rows, not for every row. It holds separately for each target column
        and each output. A row with a NaN input gets NaN.

        Args:
            x, batch_size, verbose, steps, callbacks: As in `predict`.
            level: A probability, read to six decimals.
            by: The group of each row, [rows], if the model was calibrated by groups; or
                a dictionary of these by output name.

        Returns:
            Arrays `(lower, upper)`, [rows, C] each, in the units of y and within its
            range. If the score bounds only one side, the other is the end of that
            range, or infinite. For several outputs each of the two has their structure,
            without outputs of classes: a dictionary leaves these out, a list has `None`
            in their place.

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
        limits = self._limits(x, level, by, True)
        bounds = self._ask("interval", x, batch_size, verbose, steps, callbacks, limits)
        lower, upper = zip(*bounds, strict=True)
        return self._structured(lower, True), self._structured(upper, True)

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
    ):
        """Returns sets that hold the class with a probability of at least `level`.

        The probability is over exchangeable calibration rows and a new row; if
        calibrated `by="class"`, it holds for the rows of each class separately. A row
        with a NaN input gets the set of all classes.

        Args:
            As `predict_interval`.

        Returns:
            Booleans [rows, C], or [rows, 2] for one yes-or-no output. For several
            outputs the sets have their structure, without outputs of numbers.

        Raises:
            ValueError: As `predict_interval`, or if y is a number.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        possible = calibrated.predict_set(x, level=0.9)
        ```
        """
        if not self.makes_sets:
            raise ValueError(
                "The model predicts numbers: ask for `predict_interval(x, level)`."
            )
        limits = self._limits(x, level, by, False)
        sets = self._ask("set", x, batch_size, verbose, steps, callbacks, limits)
        return self._structured(sets, False)

    # -- how -------------------------------------------------------------------------

    def _limits(self, x, level, by, makes_intervals):
        """Thresholds of all outputs of one kind, and whether they differ by row."""
        num_rows = feed_of(x).num_rows
        given = [*for_each_output(by, "by", self.likelihood.output_names).values()]
        are_grouped = [each.is_grouped for each in self.calibrations]
        if any(are_grouped) and not isinstance(by, dict):
            # What is given for all outputs is meant for those with groups.
            given = [by if is_grouped else None for is_grouped in are_grouped]
        return [
            (each.limits(level, groups, num_rows), each.is_grouped)
            for groups, each in zip(given, self.calibrations, strict=True)
            if each.makes_intervals == makes_intervals
        ]

    def _structured(self, answers, makes_intervals):
        """Answers for the outputs of one kind, in the structure of all outputs."""
        given = iter(answers)
        every = [
            next(given) if each.makes_intervals == makes_intervals else None
            for each in self.calibrations
        ]
        return in_structure_of(self.model.raw_outputs.spec, every)

    def _ask(self, answer, x, batch_size, verbose, steps, callbacks, limits=()):
        check_given_counts(batch_size=batch_size, steps=steps)
        feed = self.model.feed_to_answer(x)
        function = self._compiled_answers.function(
            answer, getattr(self.answers, answer)
        )
        draws, num_rows = self.draws, None
        if feed.num_rows is not None:
            num_draws = max(int(draws.shape[0]), len(self.posterior.networks))
            batch_size, steps, num_rows = self.model.answers.batches_of_arrays(
                batch_size, steps, num_draws
            )
        of_rows = tuple(values for values, is_of_rows in limits if is_of_rows)
        if of_rows:
            rows = keras.tree.lists_to_tuples((feed.as_tensors().x, of_rows))
            feed.x = tf.data.Dataset.from_tensor_slices(rows).batch(batch_size)

        def of_batch(data):
            inputs, of_these = data if of_rows else (inputs_of(data), ())
            of_these = iter(of_these)
            more = [
                next(of_these) if is_of_rows else tf.constant(values)
                for values, is_of_rows in limits
            ]
            return function(inputs, draws, *more)

        return answer_batches(
            self, of_batch, feed.x, batch_size, verbose, steps, callbacks, num_rows
        )

    # -- what the wrapped model does ---------------------------------------------------

    @functools.wraps(keras.Model.compile)
    def compile(self, *args, **kwargs):
        raise _is_of_the_model("compile")

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        raise _is_of_the_model("fit")

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *args, **kwargs):
        raise _is_of_the_model("evaluate")

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, *args, **kwargs):
        raise _is_of_the_model("train_on_batch")

    @functools.wraps(keras.Model.test_on_batch)
    def test_on_batch(self, *args, **kwargs):
        raise _is_of_the_model("test_on_batch")

    @functools.wraps(keras.Model.quantize)
    def quantize(self, *args, **kwargs):
        raise _is_of_the_model("quantize")

    def compile_from_config(self, config):
        """Does nothing: older files may hold a `compile`, which had no effect."""

    # -- serving ---------------------------------------------------------------------

    def export(
        self,
        directory,
        signatures=None,
        *,
        metrics: dict | None = None,
        class_names=None,
    ) -> str:
        """Writes the next version of a SavedModel with frozen draws.

        In addition to the signatures of `PredictiveModel.export(..., ensemble=True)` it
        has `predict_interval(inputs, level)` → `lower` and `upper`, or
        `predict_set(inputs, level)` → `set`; `level` is a float32 scalar. For several
        outputs they answer `<output>_lower`, `<output>_upper` and `<output>_set`. If
        the model was calibrated by groups, they also take `by` [rows], int64 or texts;
        if outputs have different groups, `<output>_by`.

        Args:
            directory: Folder of versions.
            signatures: Names of the signatures to be written; `None` for all.
            metrics: What the model card tells of the model's quality.
            class_names: Names of the classes, [C], or for several outputs a dictionary
                by output name; used in files of scores and on the page.

        Returns:
            The path of the new version.

        Raises:
            ValueError: If a signature is unknown, an input is named `level` or `by`,
                there is not one name of its own for each class, one is empty or
                contains `|`, or there are no classes.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        path = calibrated.export("saved_models/calibrated")
        ```
        """
        return export_calibrated(self, directory, signatures, metrics, class_names)


def _is_of_the_model(method: str) -> ValueError:
    return ValueError(
        f"A calibrated model has frozen draws and thresholds, and no `{method}`. The "
        f"model inside has it, `calibrated.model.{method}(...)`; once it has changed, "
        "calibrate it again: `bhn_tf.conformal.calibrate(calibrated.model, x, y)`."
    )
