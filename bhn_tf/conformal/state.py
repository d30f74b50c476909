"""What calibration has found, as the state of a Keras model."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.conformal import ranks
from bhn_tf.conformal.answers import CalibratedAnswers
from bhn_tf.conformal.interval_scores import IntervalConformity
from bhn_tf.models.answers import CompiledAnswers


class CalibrationState(keras.Model):
    """Part of `Calibrated`: frozen draws, sorted scores, and how they are saved.

    Args:
        model: A trained `BayesianHypernet` or baseline. It is owned, not copied.
        score: An `IntervalConformity` or a `SetConformity`.
        arrays: What calibration has found: `draws` [S, ...], `scores` [n, ...] sorted
            within each group, `doubts` [n, names], `wrong` [n] and `temperature`.
        counts: Number of rows of each group.
        by: `None`, "class", or the groups that were given, in their order.
        doubt_names: What the columns of `doubts` are called.
        seed: Seed of randomised scores.
        recalibrates: Whether a temperature was fitted.
        ece: Expected calibration error before and after it; `None` without.
        allow_empty: Whether a set may hold no class.

    Attributes:
        model: The wrapped model.
        score: The conformity score.
        ece_before, ece_after: On the calibration rows; `None` without a temperature.
    """

    def __init__(
        self,
        model,
        score,
        arrays,
        counts,
        by=None,
        doubt_names=(),
        seed: int = 0,
        recalibrates: bool = False,
        ece=None,
        allow_empty: bool = False,
        **kwargs,
    ):
        super().__init__(**{**kwargs, "autocast": False})
        self.model, self.score = model, score
        self.counts, self.by = [int(count) for count in counts], by
        self.doubt_names, self.seed = list(doubt_names), seed
        self.recalibrates, self.allow_empty = recalibrates, allow_empty
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
        self._compiled_answers = CompiledAnswers(self.distribute_strategy, False, False)
        self.built = True

    # -- what calibration has found --------------------------------------------------

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
        """What averaged probabilities are recalibrated by; 1 changes nothing."""
        return float(self._array("temperature"))

    @property
    def highest_level(self) -> float:
        """The highest level that the calibration rows of every group allow."""
        fewest = min(self.counts)
        return 10**6 * fewest // (fewest + 1) / 10**6

    def thresholds(self, level: float = 0.9) -> np.ndarray:
        """Returns the threshold of each group, [G, ...].

        Args:
            level: A probability, read to six decimals.

        Raises:
            ValueError: If there are too few calibration rows for the level.

        Example:
        ```python
        calibrated = bhn_tf.conformal.calibrate(model, x, y)
        calibrated.thresholds(0.9)
        ```
        """
        called = self._group_names()
        return ranks.thresholds(self._array("scores"), self.counts, level, called)

    def doubts(self, score: str) -> np.ndarray:
        """Returns an uncertainty score of the calibration rows, [n].

        Args:
            score: A key of `predict_uncertainty`; of a regression with several targets
                it is the mean over them.

        Raises:
            ValueError: If there is no such score.
        """
        if score not in self.doubt_names:
            raise ValueError(
                f"Expected `score` to be one of {self.doubt_names}, got {score!r}."
            )
        return self._array("doubts")[:, self.doubt_names.index(score)]

    def _group_names(self):
        return list(range(len(self.counts))) if self.by == "class" else self.by

    def _array(self, name):
        return keras.ops.convert_to_numpy(self._found[name])

    @property
    def makes_intervals(self) -> bool:
        """Whether y is a number; otherwise it is a class."""
        return isinstance(self.score, IntervalConformity)

    # -- of the wrapped model --------------------------------------------------------

    @property
    def answers(self) -> CalibratedAnswers:
        """What is answered under given draws."""
        temperature = self._found["temperature"] if self.recalibrates else None
        return CalibratedAnswers(
            self.model, self.score, self.seed, temperature, self.allow_empty
        )

    @property
    def draws(self) -> tf.Tensor:
        """The frozen draws, [S, ...]."""
        return tf.convert_to_tensor(self._found["draws"])

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
            "score": serialize(self.score),
            "arrays": {
                name: [list(array.shape), array.dtype]
                for name, array in self._found.items()
            },
            "counts": self.counts,
            "by": self.by,
            "doubt_names": self.doubt_names,
            "seed": self.seed,
            "recalibrates": self.recalibrates,
            "ece": [self.ece_before, self.ece_after] if self.recalibrates else None,
            "allow_empty": self.allow_empty,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for name in ("model", "score"):
            config[name] = keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
        config["arrays"] = {
            name: np.zeros(shape, dtype)
            for name, (shape, dtype) in config["arrays"].items()
        }
        return cls(**config)
