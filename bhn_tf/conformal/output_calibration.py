"""The result of calibration for one output of a model."""

import keras
import numpy as np

from bhn_tf.conformal import groups, ranks, risk
from bhn_tf.conformal.answers import OutputAnswers
from bhn_tf.conformal.interval_scores import IntervalConformity
from bhn_tf.metrics import RejectThreshold

#: Levels whose coverage is on a model card, and that the page offers.
USUAL_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


@keras.saving.register_keras_serializable("bhn_tf")
class OutputCalibration(keras.layers.Layer):
    """The sorted scores of the calibration rows, as the state of a Keras layer.

    Args:
        score: An `IntervalConformity` or a `SetConformity`.
        arrays: The results of calibration: `scores` [n, ...] sorted within each group,
            `doubts` [n, names], `temperature`, and for classes `wrong` [n].
        counts: Number of rows of each group.
        by: `None`, "class", or the given groups, in their order.
        doubt_names: Names of the columns of `doubts`.
        recalibrates: Whether a temperature was fitted.
        ece: Expected calibration error before and after it; `None` without one.

    Attributes:
        score: The conformity score.
        ece_before, ece_after: On the calibration rows; `None` without a temperature.
    """

    def __init__(
        self,
        score,
        arrays,
        counts,
        by=None,
        doubt_names=(),
        recalibrates: bool = False,
        ece=None,
        **kwargs,
    ):
        super().__init__(**{**kwargs, "autocast": False})
        self.score = score
        self.counts, self.by = [int(count) for count in counts], by
        self.doubt_names, self.recalibrates = list(doubt_names), recalibrates
        self.ece_before: float | None = ece[0] if ece else None
        self.ece_after: float | None = ece[1] if ece else None
        self._found = {
            name: self.add_weight(
                name=name,
                shape=array.shape,
                dtype=array.dtype.name,
                initializer="zeros",
                trainable=False,
                autocast=False,
            )
            for name, array in arrays.items()
        }
        for name, array in arrays.items():
            self._found[name].assign(array)
        self.built = True

    # -- what was found ---------------------------------------------------------------

    @property
    def makes_intervals(self) -> bool:
        """Whether y is a number; otherwise it is a class."""
        return isinstance(self.score, IntervalConformity)

    @property
    def num_rows(self) -> int:
        """n, the number of calibration rows."""
        return sum(self.counts)

    @property
    def calibration_scores(self) -> np.ndarray:
        """Scores of the calibration rows [n, ...], sorted within each group."""
        return self._array("scores")

    @property
    def temperature(self) -> float:
        """The temperature of averaged probabilities; 1 changes nothing."""
        return float(self._array("temperature"))

    @property
    def highest_level(self) -> float:
        """The highest level that the calibration rows of every group allow."""
        fewest = min(self.counts)
        return 10**6 * fewest // (fewest + 1) / 10**6

    def coverage(self, level: float) -> float:
        """Returns the coverage that is reached if scores do not tie.

        A level asks for a whole number of rows, so this is the level or a little more:
        `⌈(n + 1) · level⌉ / (n + 1)`, or the least of the groups' coverages.

        Args:
            level: A probability that the calibration rows allow.
        """
        parts = ranks.parts_of(level)
        return min(int(ranks.rank(n, parts)) / (n + 1) for n in self.counts)

    def _usual(self):
        return [level for level in USUAL_LEVELS if level <= self.highest_level]

    def doubts(self, score: str) -> np.ndarray:
        """An uncertainty score of the calibration rows; see `Calibrated.doubts`."""
        if score not in self.doubt_names:
            raise ValueError(
                f"Expected `score` to be one of {self.doubt_names}, got {score!r}."
            )
        return self._array("doubts")[:, self.doubt_names.index(score)]

    def answers(self, likelihood, allow_empty: bool) -> OutputAnswers:
        """Returns the answers from raw outputs."""
        temperature = self._found["temperature"] if self.recalibrates else None
        return OutputAnswers(likelihood, self.score, temperature, allow_empty)

    def _array(self, name):
        return keras.ops.convert_to_numpy(self._found[name])

    # -- thresholds -------------------------------------------------------------------

    @property
    def is_grouped(self) -> bool:
        """Whether each row comes with its group."""
        return self.by not in (None, "class")

    def thresholds(self, level: float) -> np.ndarray:
        """The threshold of each group, [G, ...]; see `Calibrated.thresholds`."""
        names = list(range(len(self.counts))) if self.by == "class" else self.by
        return ranks.thresholds(self._array("scores"), self.counts, level, names)

    def limits(self, level: float, by=None, num_rows: int | None = None) -> np.ndarray:
        """Returns thresholds in a shape to be compared with scores.

        Args:
            level: A probability.
            by: The group of each row, if the model was calibrated by groups.
            num_rows: How many rows are asked about; `None` if it is not known.

        Returns:
            [1, ...] for all rows, or, with groups, [rows, ...].

        Raises:
            ValueError: If there are too few calibration rows for the level, or groups
                are missing, unknown, or given although there are none.
        """
        limits = self.thresholds(level)
        if not self.is_grouped:
            if by is not None:
                raise ValueError(
                    "`by` was given, and the model was not calibrated by groups: give "
                    "`calibrate(..., by=groups)` those of the calibration rows."
                )
            return limits.T if self.by == "class" else limits
        if by is None or num_rows is None:
            raise ValueError(
                "The model was calibrated by groups: give arrays of inputs, and `by` "
                f"with the group of each row, of {self.by[:10]}."
            )
        return limits[groups.index_of(groups.group_values(by, num_rows), self.by)]

    def reject_threshold(
        self, max_error_rate: float, confidence: float, score: str
    ) -> RejectThreshold:
        """Which rows to answer; see `Calibrated.reject_threshold`."""
        if self.makes_intervals:
            raise ValueError(
                "Errors are counted of classes, and the model predicts numbers: give "
                "`conformal.controlled_threshold(scores, errors, ...)` what is an "
                "error for you."
            )
        return risk.controlled_threshold(
            self.doubts(score), self._array("wrong"), max_error_rate, confidence
        )

    # -- saving and serving -----------------------------------------------------------

    def described(self) -> dict:
        """Returns what a model card says about it."""
        return {
            "num_rows": self.num_rows,
            "score": type(self.score).__name__,
            "score_config": self.score.get_config(),
            "by": self.by,
            "rows_of_groups": self.counts,
            "highest_level": self.highest_level,
            "coverage": {f"{level:g}": self.coverage(level) for level in self._usual()},
            "temperature": self.temperature if self.recalibrates else None,
            "ece_before": self.ece_before,
            "ece_after": self.ece_after,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "score": keras.saving.serialize_keras_object(self.score),
            "arrays": {
                name: [list(array.shape), array.dtype]
                for name, array in self._found.items()
            },
            "counts": self.counts,
            "by": self.by,
            "doubt_names": self.doubt_names,
            "recalibrates": self.recalibrates,
            "ece": [self.ece_before, self.ece_after] if self.recalibrates else None,
        }

    @classmethod
    def from_config(cls, config):
        arrays = {
            name: np.zeros(shape, dtype)
            for name, (shape, dtype) in config["arrays"].items()
        }
        score = keras.saving.deserialize_keras_object(config["score"])
        return cls(**{**config, "score": score, "arrays": arrays})
