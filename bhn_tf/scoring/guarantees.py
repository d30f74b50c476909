"""Intervals and sets of calibrated models, as columns."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from bhn_tf.arguments import check_probability
from bhn_tf.scoring.parts import as_columns
from bhn_tf.serving.names import SEPARATOR
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel

SIGNATURES = ("predict_interval", "predict_set")


class Guarantee:
    """What a calibrated model promises for each row at a level.

    Args:
        model: A `ServedModel` of a model from `bhn_tf.conformal.calibrate`.
        level: A probability, such as 0.9.

    Raises:
        ScoringProblem: If the model promises nothing, or nothing at this level, or is
            calibrated by groups, which files of inputs do not contain.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y)
    served = ServedModel(calibrated.export("saved_models/calibrated"))
    Guarantee(served, 0.9).columns({"inputs": x})  # {"set_90": ["0", "0|3", ...]}
    ```
    """

    def __init__(self, model: ServedModel, level: float):
        # The card is a file, so it is not read again for every batch.
        self._model, self._card, self._level = model, model.card, level
        self._signatures = [name for name in SIGNATURES if name in model.signatures]
        if not self._signatures:
            raise ScoringProblem(
                f"{model.path} was not calibrated, so that nothing holds at a level of "
                f"{level}: export `bhn_tf.conformal.calibrate(model, x, y)` of rows "
                "that training has not seen, or ask without a level."
            )
        for name in self._signatures:
            groups = set(model.specs(name)) - {*model.input_specs, "level"}
            if groups:
                raise ScoringProblem(
                    f"{model.path} was calibrated by groups ({', '.join(groups)}), and "
                    "files of inputs do not tell them: calibrate without `by`, or ask "
                    f"its signature `{name}` yourself."
                )
        try:
            check_probability("level", level)
        except ValueError as error:
            raise ScoringProblem(str(error)) from error
        highest = highest_level(self._card)
        if level > highest:
            raise ScoringProblem(
                f"{model.path} has too few calibration rows for a level of {level}: "
                f"the highest is {highest:.6g}."
            )

    def columns(self, inputs: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Returns columns [rows] by name.

        Args:
            inputs: Arrays by name of the model's input.

        Returns:
            `lower_90_0`, `upper_90_0`, `lower_90_1`, ... for each target, numbers; and
            `set_90`, texts of classes separated by `|`. With several outputs, their
            names come first: `age_lower_90_0`.
        """
        request = {**inputs, "level": self._level}
        return self._columns(lambda signature: self._model(request, signature))

    def empty_columns(self) -> dict[str, np.ndarray]:
        """Returns columns without rows, which show names and types."""
        return self._columns(lambda signature: empty(self._model.outputs(signature)))

    def _columns(self, ask):
        found = {}
        for signature in self._signatures:
            answers = ask(signature)
            is_interval = signature == "predict_interval"
            kinds = ("lower", "upper") if is_interval else ("set",)
            for prefix in {name.rpartition("_")[0]: None for name in sorted(answers)}:
                names = [f"{prefix}_{kind}" if prefix else kind for kind in kinds]
                found.update(self._of_output(prefix, names, answers))
        return found

    def _of_output(self, prefix, names, answers):
        level = level_name(self._level)
        if len(names) == 1:
            classes = class_names(self._card, prefix, answers[names[0]].shape[1])
            sets = [SEPARATOR.join(classes[row]) for row in answers[names[0]]]
            return {f"{names[0]}_{level}": np.array(sets, dtype=object)}
        bounds = [answers[name] for name in names]
        return {
            "_".join([name, level, *map(str, index)]): values[(slice(None), *index)]
            for index in np.ndindex(bounds[0].shape[1:])
            for name, values in zip(names, bounds, strict=True)
        }


def model_columns(model: ServedModel, level: float | None) -> Callable:
    """Returns a function from inputs by name to columns by name.

    Args:
        model: A `ServedModel`.
        level: Level of its guarantee; `None` for only its mean and scores.

    Raises:
        ScoringProblem: As in `Guarantee`.

    Example:
    ```python
    columns_of = model_columns(ServedModel("saved_models/digits"), None)
    ```
    """
    if level is None:
        return lambda inputs: as_columns(model(inputs))
    guarantee = Guarantee(model, level)
    return lambda inputs: {**guarantee.columns(inputs), **as_columns(model(inputs))}


def empty_columns(model: ServedModel, level: float | None) -> dict[str, np.ndarray]:
    """Returns the columns of `model_columns` without rows."""
    promised = {} if level is None else Guarantee(model, level).empty_columns()
    return {**promised, **as_columns(empty(model.output_specs))}


def empty(specs: Mapping[str, tf.TensorSpec]) -> dict[str, np.ndarray]:
    """Returns arrays without rows in the shapes of specs.

    Raises:
        ScoringProblem: If a shape depends on the size of the rows.
    """
    for name, spec in specs.items():
        if not spec.shape[1:].is_fully_defined():
            raise ScoringProblem(
                f"The model answers {name!r} of the shape {spec.shape.as_list()}, one "
                "for each element of rows of any size, so that its columns are not "
                "known. Export a network whose input has a fixed size."
            )
    return {
        name: np.zeros([0, *spec.shape[1:]], spec.dtype.as_numpy_dtype)
        for name, spec in specs.items()
    }


def highest_level(card: dict) -> float:
    """Returns the highest level according to a model card; 1 if it has none.

    Args:
        card: The model card, as far as it can be read.

    Example:
        >>> highest_level({"calibration": {"highest_level": 0.99}}), highest_level({})
        (0.99, 1.0)
    """
    found = card.get("calibration")
    found = found if isinstance(found, dict) else {}
    outputs = [found] if "highest_level" in found else list(found.values())
    levels = [each.get("highest_level") for each in outputs if isinstance(each, dict)]
    return min((v for v in levels if isinstance(v, int | float)), default=1.0)


def level_name(level: float) -> str:
    """Returns a level in percent, for names of columns.

    Example:
        >>> level_name(0.9), level_name(0.999)
        ('90', '99p9')
    """
    return f"{100 * level:.4f}".rstrip("0").rstrip(".").replace(".", "p")


def class_names(card: dict, output: str, num_classes: int) -> np.ndarray:
    """Returns the names of an output's classes from the model card, or numbers.

    Args:
        card: The model card, as far as it can be read.
        output: Name of the output; empty if there is only one.
        num_classes: C.

    Example:
        >>> class_names({}, "", 3).tolist()
        ['0', '1', '2']
    """
    names = card.get("class_names")
    if output and isinstance(names, dict):
        names = names.get(output)
    if not isinstance(names, list) or len(names) != num_classes:
        names = range(num_classes)
    return np.array([str(name) for name in names], dtype=object)
