"""What a calibrated model promises for one picture: a set of classes, or intervals."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.conformal.output_calibration import USUAL_LEVELS
from bhn_tf.scoring.guarantees import highest_level
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel


class Promise:
    """The guarantee of a model with one output.

    Args:
        model: A `ServedModel`.

    Attributes:
        kind: "set", "interval", or `None` if nothing is promised, or only for a given
            group.
    """

    def __init__(self, model: ServedModel):
        self._model = model
        self._highest = highest_level(model.card)
        self._levels = [level for level in USUAL_LEVELS if level <= self._highest]
        self.kind = None
        if self._levels:
            self.kind = next(filter(self._is_made, ("set", "interval")), None)

    def _is_made(self, kind) -> bool:
        signature = f"predict_{kind}"
        taken = {*self._model.input_specs, "level"}
        return signature in self._model.signatures and taken == set(
            self._model.specs(signature)
        )

    def facts(self) -> dict | None:
        """What the page has to know; `None` if nothing is promised."""
        if self.kind is None:
            return None
        calibration = self._model.card.get("calibration")
        known = calibration if isinstance(calibration, dict) else {}
        return {
            "kind": self.kind,
            "levels": self._levels,
            "level": self._usual_level,
            "num_rows": known.get("num_rows"),
        }

    @property
    def _usual_level(self) -> float:
        return 0.9 if 0.9 in self._levels else self._levels[-1]

    def answer(self, inputs: Mapping[str, ArrayLike], level) -> dict:
        """Returns `set`, the numbers of classes, or `interval`, pairs of bounds.

        A bound is `None` if the score bounds only the other side.

        Args:
            inputs: Arrays of one row by name of the model's input.
            level: A probability; `None` for the usual one.

        Raises:
            ScoringProblem: If the level is not a probability, or there are too few
                calibration rows for it.
        """
        if self.kind is None:
            return {}
        level = self._usual_level if level is None else level
        is_number = type(level) in (int, float)
        if not is_number or not 0 < level < 1 or level > self._highest:
            raise ScoringProblem(
                "`level` has to be a probability, such as 0.9, of at most "
                f"{min(self._highest, 0.999999):.6g}."
            )
        request = {**inputs, "level": level}
        try:
            answers = self._model(request, f"predict_{self.kind}")
        except ScoringProblem as error:
            raise ScoringProblem(
                f"There are too few calibration rows for the `level` {level}."
            ) from error
        if self.kind == "set":
            return {"set": np.flatnonzero(answers["set"][0]).tolist()}
        lower, upper = (np.ravel(answers[name][0]) for name in ("lower", "upper"))
        # Refuses NaN; but a score that bounds one side leaves the other infinite.
        if not (np.all(lower < np.inf) and np.all(upper > -np.inf)):
            raise ScoringProblem(
                "The model answers with numbers that are not finite: has its training "
                "diverged?"
            )
        return {
            "interval": [
                [*map(_or_none, pair)] for pair in zip(lower, upper, strict=True)
            ]
        }


def _or_none(bound) -> float | None:
    """A bound for JSON, which has no infinity."""
    return float(bound) if np.isfinite(bound) else None
