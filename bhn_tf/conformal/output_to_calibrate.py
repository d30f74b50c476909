"""The outputs of a model, and how each is to be calibrated."""

import contextlib
import dataclasses

import keras
import numpy as np

from bhn_tf.conformal.interval_scores import (
    Absolute,
    CustomIntervalConformity,
    IntervalConformity,
    LowerBound,
    Normalized,
    Quantile,
    UpperBound,
)
from bhn_tf.conformal.set_scores import (
    APS,
    LAC,
    RAPS,
    CustomSetConformity,
    SetConformity,
)
from bhn_tf.likelihoods import (
    Categorical,
    Likelihood,
)

_INTERVALS = {
    "normalized": Normalized,
    "absolute": Absolute,
    "quantile": Quantile,
    "lower_bound": LowerBound,
    "upper_bound": UpperBound,
}
_SETS = {"lac": LAC, "aps": APS, "raps": RAPS}


@dataclasses.dataclass(frozen=True)
class OutputToCalibrate:
    """One output of a model, and how it is calibrated.

    Attributes:
        name: Its name; empty if it is the only output.
        likelihood: Its likelihood.
        score: An `IntervalConformity` or a `SetConformity`.
        y: Targets in its shape, or class numbers [n].
        by: As in `calibrate`.
    """

    name: str
    likelihood: Likelihood
    score: IntervalConformity | SetConformity
    y: np.ndarray
    by: object

    @property
    def classifies(self) -> bool:
        """Whether y is a class."""
        return isinstance(self.score, SetConformity)


def outputs_to_calibrate(model, y, score, by) -> list[OutputToCalibrate]:
    """Returns each output of a model with its labels and settings.

    Args:
        model: A built `PredictiveModel`.
        y, score, by: As in `calibrate`.

    Raises:
        ValueError: If labels have no meaning, or a choice does not fit the output.
    """
    likelihood, raw = model.likelihood, model.raw_outputs
    if raw.num_masked:
        raise ValueError(
            "The outputs have a mask of padding, which has no score. Calibrate a model "
            "with one answer a row, or of a fixed length."
        )
    names = likelihood.output_names
    labels = likelihood.flatten(y) if names else [y]
    shapes = raw.shapes if names else [raw.shapes]
    parts = likelihood.parts_of_outputs()
    scores = for_each_output(score, "score", names)
    bys = for_each_output(by, "by", names)
    outputs = []
    for name, part, shape, label in zip(
        names or ("",), parts, shapes, labels, strict=True
    ):
        with naming(name):
            classifies = _predicts_classes(part, shape)
            chosen = _resolved(scores[name], part, classifies)
            label = _targets(part, shape, raw.dtype, label, classifies)
            outputs.append(OutputToCalibrate(name, part, chosen, label, bys[name]))
    return outputs


def for_each_output(given, argument: str, names) -> dict:
    """Returns by output name what was given for all or by name; "" is the only one.

    Args:
        given: One value, or a dictionary by output name.
        argument: Its name, for the error.
        names: Names of the outputs; empty if there is only one.

    Raises:
        ValueError: If a name is unknown, or there is only one output.
    """
    if not isinstance(given, dict):
        return dict.fromkeys(names or ("",), given)
    if not names:
        raise ValueError(
            f"`{argument}` is a dictionary by output name, and the model has one "
            "output: give it as it is."
        )
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(
            f"`{argument}` has {unknown}, and the outputs are {list(names)}."
        )
    return {name: given.get(name) for name in names}


@contextlib.contextmanager
def naming(output: str):
    """Names the output in an error, if there are several."""
    try:
        yield
    except ValueError as error:
        if not output:
            raise
        raise ValueError(f"Output {output!r}: {error}") from error


def _predicts_classes(likelihood, shape) -> bool:
    if not likelihood.is_of_classes:
        return False
    if len(shape) != 2 or (not isinstance(likelihood, Categorical) and shape[-1] != 1):
        raise ValueError(
            f"Sets are of one class a row, and the outputs have the shape {shape}: "
            "expected [rows, C] of a categorical, or [rows, 1] of a Bernoulli or an "
            "ordinal likelihood."
        )
    return True


def _resolved(score, likelihood, classifies):
    if likelihood.is_censored:
        if score not in (None, "lower_bound") and not isinstance(score, LowerBound):
            raise ValueError(
                f"Times of {type(likelihood).__name__} may be censored. Of a time that "
                "was not waited for to the end, only what it is at least is known: "
                f"leave `score` out, or give 'lower_bound', in place of {score!r}. "
                "`predict_interval` of the model itself gives its own intervals."
            )
        return LowerBound()
    known, kind = (
        (_SETS, SetConformity) if classifies else (_INTERVALS, IntervalConformity)
    )
    if score is None:
        return LAC() if classifies else Normalized()
    if isinstance(score, str) and score in known:
        return known[score]()
    if isinstance(score, kind):
        return score
    is_conformity = isinstance(score, type | SetConformity | IntervalConformity)
    if callable(score) and not is_conformity:
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


def _targets(likelihood, shape, dtype, y, classifies) -> np.ndarray:
    """Targets in the shape of the outputs, or class numbers [n]."""
    coded = likelihood.coded_labels(y, (None, *shape[1:]))
    coded = keras.ops.convert_to_numpy(coded)
    if likelihood.is_censored:
        # `LowerBound` needs the time waited, whether or not the event was seen.
        coded = coded[..., 0]
    if not classifies:
        return coded.astype(dtype.name)
    num_classes = getattr(likelihood, "num_classes", max(shape[-1], 2))
    if coded.ndim == 2 and coded.shape[-1] > 1:
        if not np.isin(coded, (0, 1)).all():
            raise ValueError(
                "Sets are of one class a row, and `y` holds soft labels: give class "
                "numbers, or one-hot rows."
            )
        return coded.argmax(axis=1)
    classes = coded.reshape(len(coded)).astype("float64")
    highest = num_classes - 1
    if not ((classes >= 0) & (classes <= highest) & (classes % 1 == 0)).all():
        raise ValueError(
            f"Calibration rows need a class each, from 0 to {highest}: leave out those "
            "without a label."
        )
    return classes.astype("int64")
