"""Models in a `.keras` file, used like a SavedModel."""

import hashlib
import os
import tempfile

import keras
import tensorflow as tf

from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel
from bhn_tf.serving.versions import latest_version

ENDING = ".keras"


def open_model(path) -> ServedModel:
    """Returns a SavedModel, the newest one of a folder, or a `.keras` file.

    Args:
        path: Where it is.

    Raises:
        FileNotFoundError: If there is nothing.
        ScoringProblem: If it cannot be loaded.

    Example:
    ```python
    open_model("saved_models/digits").signatures
    ```
    """
    path = model_path(path)
    return ServedModel(path) if tf.io.gfile.isdir(path) else _KerasFile(path)


def model_path(path) -> str:
    """Returns a `.keras` file, or the newest version of a SavedModel.

    Args:
        path: The file, a SavedModel, or a folder of versions of it, whatever its name.

    Raises:
        FileNotFoundError: If there is none.

    Example:
    ```python
    model_path("saved_models/digits")  # "saved_models/digits/1"
    ```
    """
    path = os.fspath(path)
    if not path.endswith(ENDING) or tf.io.gfile.isdir(path):
        return latest_version(path)
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(f"{path} does not exist.")
    return path


class _KerasFile(ServedModel):
    """A `.keras` file, exported to a temporary SavedModel and loaded from there."""

    def __init__(self, path):
        try:
            model = keras.saving.load_model(path)
        # A damaged archive raises BadZipFile, zlib.error, ValueError, KeyError, ...
        except Exception as error:
            raise ScoringProblem(
                f"{path} cannot be loaded: was it saved by `.save`, and copied as a "
                f"whole? ({str(error)[:300]})"
            ) from error
        if not hasattr(model, "predict_uncertainty"):
            raise ScoringProblem(
                f"{path} is a {type(model).__name__}, which answers without its "
                "uncertainty: save a model of `bhn_tf`."
            )
        with tempfile.TemporaryDirectory() as folder:
            try:
                model.export(folder)
            except ValueError as error:
                raise ScoringProblem(f"{path} cannot be served: {error}") from error
            super().__init__(folder)
            self._own_card = super().card
        self.path = path

    @property
    def card(self) -> dict:
        return self._own_card

    @property
    def fingerprint(self) -> str:
        with tf.io.gfile.GFile(self.path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
