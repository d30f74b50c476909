"""What a calibrated model keeps: frozen draws, and each output's calibration."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.conformal.answers import CalibratedAnswers
from bhn_tf.conformal.output_calibration import OutputCalibration
from bhn_tf.metrics import RejectThreshold
from bhn_tf.models.compiled_answers import CompiledAnswers


class CalibrationState(keras.Model):
    """The part of `Calibrated` that holds, saves and reports its state.

    Args:
        model: A trained `BayesianHypernet` or baseline. It is owned, not copied.
        draws: The frozen draws, an array [S, ...].
        calibrations: An `OutputCalibration` for each output, in their order.
        seed: Seed of randomised scores.
        allow_empty: Whether a set may hold no class.
        shared_groups: Whether all outputs with groups were calibrated by the same ones;
            `None` if that is not known, as in files of earlier versions.

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
        shared_groups: bool | None = None,
        **kwargs,
    ):
        super().__init__(**{**kwargs, "autocast": False})
        self.model, self.calibrations = model, list(calibrations)
        self.seed, self.allow_empty = seed, allow_empty
        self.shared_groups = shared_groups
        self._draws = self.add_weight(
            name="draws",
            shape=draws.shape,
            dtype=draws.dtype.name,
            initializer="zeros",
            trainable=False,
            autocast=False,
        )
        self._draws.assign(draws)
        self._compiled_answers = CompiledAnswers(self.distribute_strategy)
        self.built = True

    # -- of an output ----------------------------------------------------------------

    def of_output(self, output: str | None = None) -> OutputCalibration:
        """Returns the calibration of an output.

        Args:
            output: Its name; `None` if there is only one.

        Raises:
            ValueError: If there are several and none is named, or the name is unknown.

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
        """Whether y is a number for any output."""
        return any(each.makes_intervals for each in self.calibrations)

    @property
    def makes_sets(self) -> bool:
        """Whether y is a class for any output."""
        return not all(each.makes_intervals for each in self.calibrations)

    @property
    def score(self):
        """The conformity score of a model with one output; see `of_output`."""
        return self.of_output().score

    @property
    def calibration_scores(self) -> np.ndarray:
        """Scores of the calibration rows [n, ...] of a model with one output."""
        return self.of_output().calibration_scores

    @property
    def temperature(self) -> float:
        """The temperature of averaged probabilities of a model with one output."""
        return self.of_output().temperature

    @property
    def ece_before(self) -> float | None:
        """Expected calibration error without the temperature, for a single output."""
        return self.of_output().ece_before

    @property
    def ece_after(self) -> float | None:
        """Expected calibration error with the temperature, for a single output."""
        return self.of_output().ece_after

    @property
    def highest_level(self) -> float:
        """The highest level that the calibration rows of every output allow."""
        return min(each.highest_level for each in self.calibrations)

    def thresholds(self, level: float = 0.9, output: str | None = None) -> np.ndarray:
        """Returns the threshold of each group, [G, ...].

        Args:
            level: A probability, read to six decimals.
            output: Name of the output, if there are several.

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
            score: A key of `predict_uncertainty`; for a regression with several targets
                the mean over them is returned.
            output: Name of the output, if there are several.

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
        """Chooses which rows to answer with a promised error rate.

        See `bhn_tf.conformal.controlled_threshold`.

        Args:
            max_error_rate: The highest error rate among answered rows.
            confidence: Probability, over the choice of calibration rows, that it holds.
            score: A key of `predict_uncertainty`.
            output: Name of the output, if there are several.

        Returns:
            `metrics.RejectThreshold`: answer rows where `score <= threshold`.

        Raises:
            ValueError: If a number is not a probability, or y is not a class.

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
        """The answers under given draws."""
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
        """The posterior of the wrapped model, from which the draws come."""
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
            "shared_groups": self.shared_groups,
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
