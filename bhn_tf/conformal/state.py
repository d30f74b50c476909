"""What a calibrated model keeps: frozen draws, and what was found for each output."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.conformal.answers import CalibratedAnswers
from bhn_tf.conformal.output_calibration import OutputCalibration
from bhn_tf.metrics import RejectThreshold
from bhn_tf.models.compiled_answers import CompiledAnswers


class CalibrationState(keras.Model):
    """Part of `Calibrated`: its state, how that is saved, and what it tells of itself.

    Args:
        model: A trained `BayesianHypernet` or baseline. It is owned, not copied.
        draws: The frozen draws, an array [S, ...].
        calibrations: An `OutputCalibration` for each output, in their order.
        seed: Seed of randomised scores.
        allow_empty: Whether a set may hold no class.

    Attributes:
        model: The wrapped model.
    """

    def __init__(
        self,
        model,
        draws,
        calibrations,
        seed: int = 0,
        allow_empty: bool = False,
        **kwargs,
    ):
        super().__init__(**{**kwargs, "autocast": False})
        self.model, self.calibrations = model, list(calibrations)
        self.seed, self.allow_empty = seed, allow_empty
        self._draws = self.add_weight(
            name="draws",
            shape=draws.shape,
            dtype=draws.dtype.name,
            initializer="zeros",
            trainable=False,
            autocast=False,
        )
        self._draws.assign(draws)
        self._compiled_answers = CompiledAnswers(self.distribute_strategy, False, False)
        self.built = True

    # -- of an output ----------------------------------------------------------------

    def of_output(self, output: str | None = None) -> OutputCalibration:
        """Returns what calibration has found for an output.

        Args:
            output: Its name; `None` where there is one alone.

        Raises:
            ValueError: If there are several and none is named, or there is no such.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        calibrated.of_output().num_rows
        ```
        """
        names = self.likelihood.output_names
        if output is None and len(self.calibrations) == 1:
            return self.calibrations[0]
        if output not in names:
            raise ValueError(
                f"Expected `output` to be one of {list(names)}, which each have a "
                f"calibration of their own, got {output!r}."
                if names
                else f"The model has one output: leave `output={output!r}` out."
            )
        return self.calibrations[names.index(output)]

    @property
    def num_rows(self) -> int:
        """n, the number of calibration rows."""
        return self.calibrations[0].num_rows

    @property
    def makes_intervals(self) -> bool:
        """Whether y is a number, of any output."""
        return any(each.makes_intervals for each in self.calibrations)

    @property
    def makes_sets(self) -> bool:
        """Whether y is a class, of any output."""
        return not all(each.makes_intervals for each in self.calibrations)

    @property
    def score(self):
        """The conformity score of a model with one output; see `of_output`."""
        return self.of_output().score

    @property
    def calibration_scores(self) -> np.ndarray:
        """Scores of the calibration rows [n, ...], of a model with one output."""
        return self.of_output().calibration_scores

    @property
    def temperature(self) -> float:
        """What averaged probabilities are recalibrated by, of one output."""
        return self.of_output().temperature

    @property
    def ece_before(self) -> float | None:
        """Expected calibration error before the temperature, of one output."""
        return self.of_output().ece_before

    @property
    def ece_after(self) -> float | None:
        """Expected calibration error at the temperature, of one output."""
        return self.of_output().ece_after

    @property
    def highest_level(self) -> float:
        """The highest level that the calibration rows of every output allow."""
        return min(each.highest_level for each in self.calibrations)

    def thresholds(self, level: float = 0.9, output: str | None = None) -> np.ndarray:
        """Returns the threshold of each group, [G, ...].

        Args:
            level: A probability, read to six decimals.
            output: Name of the output, where there are several.

        Raises:
            ValueError: If there are too few calibration rows for the level.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        calibrated.thresholds(0.9)
        ```
        """
        return self.of_output(output).thresholds(level)

    def doubts(self, score: str, output: str | None = None) -> np.ndarray:
        """Returns an uncertainty score of the calibration rows, [n].

        Args:
            score: A key of `predict_uncertainty`; of a regression with several targets
                it is the mean over them.
            output: Name of the output, where there are several.

        Raises:
            ValueError: If there is no such score.
        """
        return self.of_output(output).doubts(score)

    def reject_threshold(
        self,
        max_error_rate: float,
        confidence: float = 0.95,
        score: str = "predictive_entropy",
        output: str | None = None,
    ) -> RejectThreshold:
        """Chooses which rows to answer, so that the error rate among them is promised.

        See `bhn_tf.conformal.controlled_threshold`.

        Args:
            max_error_rate: The highest error rate among answered rows.
            confidence: With which it holds, over the choice of the calibration rows.
            score: A key of `predict_uncertainty`.
            output: Name of the output, where there are several.

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
        calibration = self.of_output(output)
        return calibration.reject_threshold(max_error_rate, confidence, score)

    # -- of the wrapped model --------------------------------------------------------

    @property
    def answers(self) -> CalibratedAnswers:
        """What is answered under given draws."""
        parts = self.likelihood.parts_of_outputs()
        outputs = [
            each.answers(part, self.allow_empty)
            for each, part in zip(self.calibrations, parts, strict=True)
        ]
        return CalibratedAnswers(self.model, outputs, self.seed)

    @property
    def draws(self) -> tf.Tensor:
        """The frozen draws, [S, ...]."""
        return tf.convert_to_tensor(self._draws)

    @property
    def likelihood(self):
        """The likelihood of the wrapped model."""
        return self.model.likelihood

    @property
    def posterior(self):
        """The posterior of the wrapped model, which the draws are of."""
        return self.model.posterior

    # -- saving ----------------------------------------------------------------------

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "model": serialize(self.model),
            "draws": [list(self._draws.shape), self._draws.dtype],
            "calibrations": [serialize(each) for each in self.calibrations],
            "seed": self.seed,
            "allow_empty": self.allow_empty,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        def deserialize(part):
            return keras.saving.deserialize_keras_object(
                part, custom_objects=custom_objects
            )

        shape, dtype = config["draws"]
        return cls(
            **{
                **config,
                "model": deserialize(config["model"]),
                "draws": np.zeros(shape, dtype),
                "calibrations": [deserialize(each) for each in config["calibrations"]],
            }
        )
