"""One output of a served model of several, used like a model with one output.

With several outputs, names in a signature's answer begin with the output's name; see
`bhn_tf.serving.signatures`. A guarantee asks all outputs of its kind at one level.
"""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from bhn_tf.scoring.guarantees import SIGNATURES, highest_level
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel

_Value = TypeVar("_Value")
_MEAN = "_mean"


def one_output(model: ServedModel, output: str | None) -> ServedModel:
    """Returns a model that answers like one with a single output.

    Args:
        model: A `ServedModel`.
        output: Name of the output; `None` for a model with one output.

    Returns:
        The model itself, if it has one output, or its `OneOutput`.

    Raises:
        ScoringProblem: If the model has no such output, or several and none is named.

    Example:
    ```python
    model = one_output(ServedModel("saved_models/digits"), None)
    ```
    """
    outputs = output_names(model)
    if output is None and outputs:
        raise ScoringProblem(
            f"{model.path} has the outputs {outputs}, and the page shows one: say "
            "which with `output=`, or --output= on the command line."
        )
    if output is None:
        return model
    if not outputs:
        raise ScoringProblem(
            f"{model.path} has no outputs with names, of which {output!r} could be "
            "one: leave `output=` (--output=) out."
        )
    if output not in outputs:
        raise ScoringProblem(
            f"{model.path} has no output {output!r}: its outputs are {outputs}."
        )
    return OneOutput(model, output)


def output_names(model: ServedModel) -> list[str]:
    """Returns the names of several outputs; empty for a model with one output.

    Args:
        model: A `ServedModel`.

    Example:
    ```python
    output_names(ServedModel("saved_models/digits"))  # []
    ```
    """
    names = model.output_specs
    return sorted(name.removesuffix(_MEAN) for name in names if name.endswith(_MEAN))


class OneOutput(ServedModel):
    """A view of one output of a served model with several.

    Args:
        model: A `ServedModel` of several outputs.
        output: Name of one of them.

    Attributes:
        path: Path of the model and name of the output, for messages and the page.
        input_specs: Those of the model.

    Example:
    ```python
    inputs = keras.Input((4,))
    outputs = {name: keras.layers.Dense(2)(inputs) for name in ("age", "kind")}
    model = bhn_tf.baselines.Deterministic(
        keras.Model(inputs, outputs), {"age": "gaussian", "kind": "categorical"}
    )
    kind = OneOutput(ServedModel(model.export("saved_models/people")), "kind")
    kind({"inputs": np.zeros([1, 4])})["mean"].shape  # (1, 2): its `kind_mean`
    ```
    """

    def __init__(self, model: ServedModel, output: str):
        # Nothing is loaded a second time.
        self._model, self._output = model, output
        self._prefix = f"{output}_"
        # `age_group_mean` belongs to the output `age_group`, not to `age`.
        self._longer = tuple(
            f"{other}_"
            for other in output_names(model)
            if other.startswith(self._prefix)
        )
        self.path = f"{model.path} (output {output!r})"
        self.input_specs = model.input_specs

    @property
    def card(self) -> dict:
        """The model card, with only what it says about this output."""
        card = self._model.card
        return {
            **card,
            "metrics": self._own(_as_dict(card.get("metrics"))),
            "class_names": _as_dict(card.get("class_names")).get(self._output),
            "calibration": self._calibration(_as_dict(card.get("calibration"))),
        }

    def _calibration(self, by_output) -> dict:
        asked_together = {
            name.rpartition("_")[0]: None
            for signature in SIGNATURES
            if signature in self.signatures
            for name in self._model.outputs(signature)
        }
        found = {name: by_output.get(name) for name in asked_together}
        return {
            **_as_dict(by_output.get(self._output)),
            # A level is refused if any of them has too few rows for it.
            "highest_level": highest_level({"calibration": found}),
        }

    @property
    def signatures(self) -> tuple[str, ...]:
        """Names of the signatures that answer for this output."""
        return tuple(name for name in self._model.signatures if self.outputs(name))

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model."""
        return self._model.fingerprint

    def specs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a signature, by name."""
        return self._model.specs(signature)

    def outputs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """Returns the results for this output, by name without the output's prefix."""
        return self._own(self._model.outputs(signature))

    def __call__(
        self, inputs: Mapping[str, ArrayLike], signature: str = "serving_default"
    ) -> dict[str, np.ndarray]:
        """Returns the answers for this output, by name without the output's prefix.

        Args:
            inputs: Arrays or numbers by name, in the shapes and dtypes of `specs`.
            signature: Name of the signature.
        """
        return self._own(self._model(inputs, signature))

    def _own(self, values: Mapping[str, _Value]) -> dict[str, _Value]:
        return {
            name.removeprefix(self._prefix): value
            for name, value in values.items()
            if name.startswith(self._prefix) and not name.startswith(self._longer)
        }


def _as_dict(value) -> dict:
    """A part of a model card, which may be damaged."""
    return value if isinstance(value, dict) else {}
