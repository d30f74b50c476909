"""Calibration: the sorted scores of calibration rows."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.conformal import groups
from bhn_tf.conformal.answers import CalibratedAnswers, OutputAnswers
from bhn_tf.conformal.calibrated import Calibrated
from bhn_tf.conformal.output_calibration import OutputCalibration
from bhn_tf.conformal.output_to_calibrate import naming, outputs_to_calibrate
from bhn_tf.conformal.temperature import fit_temperature, tempered
from bhn_tf.data_feeds import feed_of, labelled_rows
from bhn_tf.metrics import ExpectedCalibrationError
from bhn_tf.models.answer_loop import answer_batches
from bhn_tf.models.compiled_answers import CompiledAnswers
from bhn_tf.models.other_models import require_predictive_model


def calibrate(
    model,
    x,
    y=None,
    score=None,
    num_samples: int = 100,
    seed: int = 0,
    by=None,
    temperature: bool = False,
    *,
    allow_empty: bool = False,
    batch_size: int | None = None,
) -> Calibrated:
    """Returns a model whose intervals or sets hold the truth as often as promised.

    This is split conformal prediction. Its promise holds for any model, if the
    calibration rows were not trained on and are exchangeable with the rows to come.

    Several outputs are calibrated separately, those of numbers for `predict_interval`
    and those of classes for `predict_set`.

    Args:
        model: A trained `BayesianHypernet` or baseline.
        x, y: Arrays of calibration rows, which training has not seen; y in the
            outputs' structure or a dictionary by output name.
        score: For regressions "normalized" (the default), "absolute", "quantile",
            "lower_bound" (for times that may be censored, the default and the only
            choice), "upper_bound", or a function `(y, answers)`; for classes "lac"
            (the default), "aps", "raps", or a function of probabilities; or an
            instance from `bhn_tf.conformal`, such as `RAPS(lam=0.1, k=2)`. For several
            outputs one for all, or a dictionary by output name.
        num_samples: S, the number of draws, which are frozen; 0 for the centre.
        seed: A non-negative integer. The draws are those of
            `model.predict(x, num_samples=num_samples, seed=seed)`.
        by: `None` for one promise over all rows; "class" for one per class; or the
            group of each calibration row, integers or texts [n], for one per group. For
            several outputs one for all, or a dictionary by output name.
        temperature: Whether to recalibrate averaged probabilities of classes as well,
            on the same rows. It changes only `predict`: scores that had seen the labels
            would void the promise.
        allow_empty: Whether a set may hold no class; otherwise such a set gets the
            likeliest class.
        batch_size: Rows scored at a time.

    Returns:
        A `Calibrated`.

    Raises:
        TypeError: If the model is none of these.
        ValueError: If rows have a NaN, labels have no meaning, the score does not fit
            the likelihood, or groups do not fit the rows.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y)
    possible = calibrated.predict_set(x_new, level=0.9)
    ```
    """
    require_predictive_model(model)
    check_count("num_samples", num_samples, minimum=0)
    check_count("seed", seed, minimum=0)
    reason = "every row is scored once, and labels are looked at before"
    feed = labelled_rows(x, y, "calibrate(model, x, y)", reason)
    model.check_data(x, y)
    outputs = outputs_to_calibrate(model, feed.y, score, by)
    if temperature and not any(output.classifies for output in outputs):
        raise ValueError(
            "`temperature` recalibrates probabilities of classes, and the model "
            "predicts numbers. Leave it out: intervals are calibrated as they are."
        )
    draws = model.posterior.draw(num_samples, seed).values
    found = _score(model, outputs, int(seed), x, draws, batch_size)
    calibrations = []
    for output, (scores, answers) in zip(outputs, found, strict=True):
        with naming(output.name):
            calibrations.append(_calibrated(output, scores, answers, temperature))
    return Calibrated(
        model,
        draws.numpy(),
        calibrations,
        int(seed),
        allow_empty=bool(allow_empty),
        shared_groups=_are_shared(outputs, calibrations),
    )


def _are_shared(outputs, calibrations) -> bool:
    """Whether every row has the same group for all outputs that have groups."""
    pairs = zip(outputs, calibrations, strict=True)
    given = [output.by for output, found in pairs if found.is_grouped]
    return all(np.array_equal(by, given[0]) for by in given)


def _score(model, outputs, seed, x, draws, batch_size) -> list:
    """Scores of all rows and the model's own answers, for each output."""
    parts = [OutputAnswers(output.likelihood, output.score) for output in outputs]
    answers = CalibratedAnswers(model, parts, seed)
    compiled = CompiledAnswers(model.distribute_strategy)
    function = compiled.function("scores", answers.scores)
    num_draws = max(int(draws.shape[0]), len(model.posterior.networks))
    rows = model.answers.rows_at_a_time(batch_size, num_draws)
    # Tuples, since `from_tensor_slices` takes a list for one tensor.
    labels = tuple(output.y for output in outputs)
    arrays = keras.tree.lists_to_tuples((feed_of(x).as_tensors().x, labels))
    batches = tf.data.Dataset.from_tensor_slices(arrays).batch(rows)
    return answer_batches(model, lambda data: function(data, draws), batches)


def _calibrated(output, scores, answers, temperature) -> OutputCalibration:
    """What is kept of the scores and answers of one output."""
    mean, missed_by = answers.pop("mean"), answers.pop("missed_by", None)
    if not output.classifies and np.isnan(mean).all():
        raise ValueError(
            f"The model predicts NaN for all {len(mean)} calibration rows. Intervals "
            "are laid around a mean, which some distributions do not have, such as "
            "Cauchy's: take a likelihood with a mean. If it has one, look at whether "
            "weights or inputs are NaN."
        )
    for what, array in (
        ("The model predicts", mean),
        (f"The score {type(output.score).__name__} is", scores),
    ):
        unknown = np.isnan(array.reshape(len(array), -1)).any(axis=1)
        if unknown.any():
            raise ValueError(
                f"{what} NaN for {unknown.sum()} of {len(unknown)} calibration rows, "
                "which nothing can be promised of. Leave these rows out, after looking "
                "at where they come from."
            )
    if missed_by is not None:
        _refuse_missed(missed_by, np.abs(output.y - mean))
    if not output.classifies and output.score.is_around_mean and np.isinf(mean).any():
        raise ValueError(
            f"The mean is infinite for {np.isinf(mean).sum()} of {mean.size} "
            f"predictions, and {type(output.score).__name__} lays intervals around it. "
            "Give `score='quantile'`, which goes by the tails."
        )
    num_classes = mean.shape[-1] if output.classifies else None
    order, counts, by = _grouped(scores, output.y, output.by, num_classes)
    temperature = temperature and output.classifies
    recalibration = fit_temperature(mean, output.y) if temperature else 1.0
    doubts = [np.reshape(v, [len(scores), -1]).mean(axis=1) for v in answers.values()]
    arrays = {
        "scores": np.take_along_axis(scores, order, axis=0),
        "doubts": np.stack(doubts, axis=1),
        "temperature": np.float32(recalibration),
    }
    if output.classifies:
        arrays["wrong"] = (mean.argmax(axis=1) != output.y).astype("float32")
    ece = None
    if temperature:
        after = tempered(mean, recalibration)
        ece = [float(ExpectedCalibrationError()(output.y, p)) for p in (mean, after)]
    return OutputCalibration(
        output.score,
        arrays,
        counts,
        by=by,
        doubt_names=list(answers),
        recalibrates=bool(temperature),
        ece=ece,
    )


def _refuse_missed(missed_by, distances) -> None:
    """Refuses a user's score whose intervals miss the targets that they come from."""
    # Near the mean a score has few digits, and may miss a target by a little.
    is_missed = missed_by > 0.1 * np.median(distances)
    if is_missed.any():
        raise ValueError(
            "A function given as `score` has to be smallest at the mean and to grow on "
            "both sides of it. Intervals of this one would miss "
            f"{is_missed.sum()} of the {is_missed.size} targets from whose scores they "
            "come, so that nothing could be promised."
        )


def _grouped(scores, y, by, num_classes):
    """The order of rows that sorts each group's scores, group sizes and groups."""
    if by is None:
        return np.argsort(scores, axis=0, kind="stable"), [len(scores)], None
    if isinstance(by, str):
        if by != "class" or num_classes is None:
            raise ValueError(
                "Expected `by` to be 'class' of a model that predicts classes, or the "
                f"group of each calibration row, got {by!r}. Of several outputs give "
                "a dictionary by output name."
            )
        values, found = y, np.arange(num_classes)
    else:
        values = groups.group_values(by, len(scores))
        by = found = np.unique(values)
        by = by.tolist()
    order = []
    for group in found:
        rows = np.flatnonzero(values == group)
        order.append(rows[np.argsort(scores[rows], axis=0, kind="stable")])
    return np.concatenate(order), [len(part) for part in order], by
