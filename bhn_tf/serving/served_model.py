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
        """Returns the inputs of a signature, by name."""
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
            inputs: Arrays or numbers by name, in the shapes and dtypes of `specs`.
            signature: Name of the signature.

        Raises:
            RuntimeError: If the process is a fork in which it would never end.
        """
        tensorflow_adapter.require_threads()
        specs = self.specs(signature)
        tensors = {name: tf.constant(inputs[name], specs[name].dtype) for name in specs}
        answers = self._loaded.signatures[signature](**tensors)
        return {name: value.numpy() for name, value in answers.items()}


def _card(path) -> dict:
    try:
        with tf.io.gfile.GFile(f"{path}/{FOLDER}/model_card.json", "rb") as file:
            card = json.loads(file.read())
    except (OSError, ValueError, RecursionError, tf.errors.OpError):
        return {}
    return card if isinstance(card, dict) else {}
