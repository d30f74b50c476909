"""A SavedModel as a function of arrays."""

import json
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from bhn_tf import tensorflow_adapter
from bhn_tf.serving.assets import FOLDER
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.versions import latest_version

# How lines begin in which TensorFlow says where in a graph an error is.
_OF_GRAPH = ("Graph execution error", "Detected at node", "<stack traces", "[[{{")


class ServedModel:
    """One version of a SavedModel; no Keras model is needed.

    Args:
        folder: A SavedModel, or a folder of versions, of which the newest is taken.

    Attributes:
        path: The version that was loaded.
        input_specs: `tf.TensorSpec` of each input of `serving_default` by name, rows
            first.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ScoringProblem: If it cannot be loaded, or has no `serving_default` of named
            inputs.

    Example:
    ```python
    model = ServedModel("saved_models/digits")
    answers = model({"inputs": np.zeros([2, 28, 28, 1], np.uint8)})
    answers["mean"].shape  # (2, 10)
    ```
    """

    def __init__(self, folder):
        self.path = latest_version(folder)
        # Kept, because the functions are only valid as long as the loaded object.
        try:
            self._loaded = tf.saved_model.load(self.path)
        except (OSError, ValueError, LookupError, tf.errors.OpError) as error:
            raise ScoringProblem(
                f"{self.path} cannot be loaded: is it a SavedModel, and copied as a "
                f"whole? ({str(error)[:300]})"
            ) from error
        if "serving_default" not in self._loaded.signatures:
            raise ScoringProblem(
                f"{self.path} has the signatures {sorted(self._loaded.signatures)} "
                "and no serving_default, which scores come from. Write it with "
                "`model.export(folder)`."
            )
        self.input_specs = self.specs("serving_default")

    @property
    def card(self) -> dict:
        """The model card; empty if it cannot be read."""
        return _card(self.path)

    @property
    def signatures(self) -> tuple[str, ...]:
        """Names of the signatures."""
        return tuple(sorted(self._loaded.signatures))

    @property
    def fingerprint(self) -> str:
        """Identifies this SavedModel."""
        fingerprints = tf.saved_model.experimental
        try:
            return fingerprints.read_fingerprint(self.path).singleprint()
        except (FileNotFoundError, RuntimeError, ValueError) as error:
            raise ScoringProblem(
                f"{self.path} has no readable fingerprint.pb, which tells one model "
                "from another: is it copied as a whole?"
            ) from error

    def specs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a signature, by name.

        Raises:
            ScoringProblem: If there is no such signature.
        """
        if signature not in self._loaded.signatures:
            raise ScoringProblem(
                f"{self.path} has no signature {signature!r}: it has "
                f"{list(self.signatures)}."
            )
        return self._loaded.signatures[signature].structured_input_signature[1]

    @property
    def output_specs(self) -> dict[str, tf.TensorSpec]:
        """The outputs of `serving_default`, by name, rows first."""
        return self.outputs("serving_default")

    def outputs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """Returns the outputs of a signature, by name."""
        return self._loaded.signatures[signature].structured_outputs

    def __call__(
        self, inputs: Mapping[str, ArrayLike], signature: str = "serving_default"
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature by name, rows first.

        Args:
            inputs: Arrays or numbers by name, in the shapes and dtypes of `specs`;
                other names are passed over.
            signature: Name of the signature.

        Raises:
            ScoringProblem: If there is no such signature, the inputs do not fit it, or
                the network cannot answer them, such as a token it does not know.
            RuntimeError: If the process is a fork in which it would never end.
        """
        tensorflow_adapter.require_threads()
        tensors = {
            name: _tensor_of(inputs, name, spec, signature)
            for name, spec in self.specs(signature).items()
        }
        try:
            answers = self._loaded.signatures[signature](**tensors)
        except tf.errors.OpError as error:
            raise ScoringProblem(
                f"The model cannot answer these inputs: {_reason(error)}"
            ) from error
        return {name: value.numpy() for name, value in answers.items()}


def _tensor_of(inputs, name, spec, signature) -> tf.Tensor:
    """An input of a request, unless missing, of another shape, or not in the dtype."""
    if name not in inputs:
        raise ScoringProblem(f"`{signature}` takes {name!r}, which is missing.")
    value = inputs[name]
    try:
        tensor = tf.constant(value, spec.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ScoringProblem(
            f"{name!r} cannot be read as {spec.dtype.name}: {str(error)[:200]}"
        ) from error
    if not spec.shape.is_compatible_with(tensor.shape):
        raise ScoringProblem(
            f"{name!r} has the shape {tuple(tensor.shape)}, and `{signature}` takes "
            f"{tuple(spec.shape)}."
        )
    # TensorFlow cuts 0.5 to 0, and takes 300 as 44 of uint8.
    if spec.dtype.is_integer and np.any(tensor.numpy() != np.asarray(value)):
        raise ScoringProblem(
            f"{name!r} has numbers that {spec.dtype.name}, its dtype, cannot hold."
        )
    return tensor


def _reason(error: tf.errors.OpError) -> str:
    """What went wrong, without the place in the graph."""
    lines = [line.strip() for line in error.message.splitlines()]
    said = [line for line in lines if line and not line.startswith(_OF_GRAPH)]
    return (said or lines or [""])[0][:300]


def _card(path) -> dict:
    try:
        with tf.io.gfile.GFile(f"{path}/{FOLDER}/model_card.json", "rb") as file:
            card = json.loads(file.read())
    except (OSError, ValueError, RecursionError, tf.errors.OpError):
        return {}
    return card if isinstance(card, dict) else {}
