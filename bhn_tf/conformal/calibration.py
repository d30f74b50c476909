"""Calibration: a score of every calibration row, sorted."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.conformal import groups
from bhn_tf.conformal.answers import CalibratedAnswers
from bhn_tf.conformal.calibrated import Calibrated
from bhn_tf.conformal.interval_scores import (
    Absolute,
    CustomIntervalConformity,
    IntervalConformity,
    Normalized,
    Quantile,
)
from bhn_tf.conformal.set_scores import (
    APS,
    LAC,
    RAPS,
    CustomSetConformity,
    SetConformity,
)
from bhn_tf.conformal.temperature import fit_temperature, tempered
from bhn_tf.data_feeds import feed_of
from bhn_tf.likelihoods import Bernoulli, Categorical
from bhn_tf.metrics import ExpectedCalibrationError
from bhn_tf.models.answers import CompiledAnswers, answer_batches

_INTERVALS = {"normalized": Normalized, "absolute": Absolute, "quantile": Quantile}
_SETS = {"lac": LAC, "aps": APS, "raps": RAPS}


def calibrate(
    model,
    x,
    y,
    score=None,
    num_samples: int = 100,
    seed: int = 0,
    by=None,
    temperature: bool = False,
    *,
    allow_empty: bool = False,
    batch_size: int | None = None,
) -> Calibrated:
    """Returns a model whose intervals or sets hold the truth as often as they say.

    Split conformal prediction. Its promise holds whatever the model is, if the
    calibration rows were not trained on and are exchangeable with the rows to come.

    Args:
        model: A trained `BayesianHypernet` or baseline with one output.
        x, y: Arrays of calibration rows, which training has not seen.
        score: Of regressions "normalized" (the default), "absolute", "quantile", or a
            function `(y, answers)`; of classes "lac" (the default), "aps", "raps", or
            a function of probabilities; or an instance from `bhn_tf.conformal`, such
            as `RAPS(lam=0.1, k=2)`.
        num_samples: S, the number of draws, which are frozen; 0 for the centre.
        seed: A non-negative integer. The draws are those of
            `model.predict(x, num_samples=num_samples, seed=seed)`.
        by: `None` for one promise over all rows; "class" for one a class; or the group
            of each calibration row, integers or texts [n], for one a group.
        temperature: Whether to recalibrate averaged probabilities, too, on the same
            rows. It changes `predict` alone: scores that had seen the labels would
            void the promise.
        allow_empty: Whether a set may hold no class; otherwise it then holds the
            likeliest.
        batch_size: Rows scored at a time.

    Returns:
        A `Calibrated`.

    Raises:
        ValueError: If rows have a NaN, labels have no meaning, the score does not fit
            the likelihood, or groups do not fit the rows.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y)
    possible = calibrated.predict_set(x_new, level=0.9)
    ```
    """
    check_count("num_samples", num_samples, minimum=0)
    check_count("seed", seed, minimum=0)
    if feed_of(x).num_rows is None or y is None:
        raise ValueError(
            "Give the calibration rows as arrays, `calibrate(model, x, y)`: every row "
            "is scored once, and labels are looked at before."
        )
    model.check_data(x, y)
    classifies = _predicts_classes(model)
    score = _resolved(score, classifies)
    if temperature and not classifies:
        raise ValueError(
            "`temperature` recalibrates probabilities of classes, and the model "
            "predicts numbers. Leave it out: intervals are calibrated as they are."
        )
    y = _targets(model, y, classifies)
    draws = model.posterior.draw(num_samples, seed).values
    scores, answers = _score(model, score, seed, x, y, draws, classifies, batch_size)
    mean = answers.pop("mean")
    both = np.concatenate([scores, mean], axis=1)
    unknown = np.isnan(both).reshape(len(both), -1).any(axis=1)
    if unknown.any():
        raise ValueError(
            f"The model predicts NaN for {unknown.sum()} of {len(unknown)} calibration "
            "rows, which have no score. Leave these rows out, after looking at where "
            "they come from."
        )
    order, counts, by = _grouped(scores, y, by, mean.shape[-1] if classifies else None)
    recalibration = fit_temperature(mean, y) if temperature else 1.0
    doubts = [np.reshape(v, [len(scores), -1]).mean(axis=1) for v in answers.values()]
    arrays = {
        "draws": draws.numpy(),
        "scores": np.take_along_axis(scores, order, axis=0),
        "doubts": np.stack(doubts, axis=1),
        "temperature": np.float32(recalibration),
    }
    ece = None
    if classifies:
        arrays["wrong"] = (mean.argmax(axis=1) != y).astype("float32")
    if temperature:
        after = tempered(mean, recalibration)
        ece = [float(ExpectedCalibrationError()(y, p)) for p in (mean, after)]
    return Calibrated(
        model,
        score,
        arrays,
        counts,
        by=by,
        doubt_names=list(answers),
        seed=int(seed),
        recalibrates=bool(temperature),
        ece=ece,
        allow_empty=bool(allow_empty),
    )


def _predicts_classes(model) -> bool:
    likelihood, outputs = model.likelihood, model.raw_outputs
    if likelihood.output_names:
        raise ValueError(
            f"The model has the outputs {list(likelihood.output_names)}, and one is "
            "calibrated at a time: calibrate models with one of them each."
        )
    if outputs.num_masked:
        raise ValueError(
            "The outputs have a mask of padding, which has no score. Calibrate a model "
            "with one answer a row, or of a fixed length."
        )
    shape = outputs.shapes
    if not isinstance(likelihood, Bernoulli | Categorical):
        return False
    if len(shape) != 2 or (isinstance(likelihood, Bernoulli) and shape[-1] != 1):
        raise ValueError(
            f"Sets are of one class a row, and the outputs have the shape {shape}: "
            "expected [rows, C] of a categorical, or [rows, 1] of a Bernoulli "
            "likelihood."
        )
    return True


def _resolved(score, classifies):
    known, kind = (
        (_SETS, SetConformity) if classifies else (_INTERVALS, IntervalConformity)
    )
    if score is None:
        return LAC() if classifies else Normalized()
    if isinstance(score, str) and score in known:
        return known[score]()
    if isinstance(score, kind):
        return score
    if callable(score) and not isinstance(score, SetConformity | IntervalConformity):
        return (
            CustomSetConformity(score)
            if classifies
            else CustomIntervalConformity(score)
        )
    raise ValueError(
        f"The model predicts {'classes' if classifies else 'numbers'}: expected "
        f"`score` to be one of {sorted(known)}, an instance of `bhn_tf.conformal`'s "
        f"classes of these names, or a function, got {score!r}."
    )


def _targets(model, y, classifies) -> np.ndarray:
    """Targets in the shape of the outputs, or class numbers [n]."""
    coded = model.likelihood.coded_labels(y, (None, *model.raw_outputs.shapes[1:]))
    coded = keras.ops.convert_to_numpy(coded)
    if not classifies:
        return coded.astype(model.raw_outputs.dtype.name)
    num_classes = model.raw_outputs.shapes[-1]
    if coded.ndim == 2 and num_classes > 1:
        if not np.isin(coded, (0, 1)).all():
            raise ValueError(
                "Sets are of one class a row, and `y` holds soft labels: give class "
                "numbers, or one-hot rows."
            )
        return coded.argmax(axis=1)
    classes = coded.reshape(len(coded)).astype("float64")
    highest = max(num_classes, 2) - 1
    if not ((classes >= 0) & (classes <= highest) & (classes % 1 == 0)).all():
        raise ValueError(
            f"Calibration rows need a class each, from 0 to {highest}: leave out those "
            "without a label."
        )
    return classes.astype("int64")


def _score(model, score, seed, x, y, draws, classifies, batch_size):
    """Scores of all rows, and the model's own answers."""
    answers = CalibratedAnswers(model, score, seed)
    answer = answers.class_scores if classifies else answers.target_scores
    function = CompiledAnswers(model.distribute_strategy, False, False).function(
        "scores", answer
    )
    num_draws = max(int(draws.shape[0]), len(model.posterior.networks))
    rows = model.answers.rows_at_a_time(batch_size, num_draws)
    # A list would be taken for one tensor.
    arrays = keras.tree.lists_to_tuples((x, y))
    batches = tf.data.Dataset.from_tensor_slices(arrays).batch(rows)
    return answer_batches(
        model, lambda data: function(data, draws), batches, None, 0, None, None
    )


def _grouped(scores, y, by, num_classes):
    """The order of rows that sorts each group's scores, group sizes and groups."""
    if by is None:
        return np.argsort(scores, axis=0, kind="stable"), [len(scores)], None
    if isinstance(by, str):
        if by != "class" or num_classes is None:
            raise ValueError(
                f"Expected `by` to be 'class' of a model that predicts classes, or the "
                f"group of each calibration row, got {by!r}."
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
