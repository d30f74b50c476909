"""What a killed run resumes from: the last two models of each method, and arrays."""

import re
from glob import escape
from pathlib import Path

import keras
import numpy as np
from absl import logging

from bhn_tf.files import written_atomically
from trainers.config import UsageProblem
from trainers.own_files import OwnFiles


class Checkpoints:
    """The sub-folder `checkpoints` of a run.

    Args:
        folder: The folder of the run.
        own: Keeps the names of its files.
    """

    def __init__(self, folder: Path, own: OwnFiles):
        self.path = folder / "checkpoints"
        self._own = own
        self._last_good: dict[str, int] = {}

    def save(self, method: str, epoch: int, model: keras.Model) -> None:
        """Saves the model after `epoch` epochs; keeps the one before, drops others."""
        self._own.claim(f"checkpoints/{escape(method)}-{5 * '[0-9]'}*.keras")
        with written_atomically(self._path(method, epoch)) as temporary:
            model.save(temporary)
        kept = {epoch, self._last_good.get(method)}
        self._last_good[method] = epoch
        for other, path in self._found(method):
            if other not in kept:
                path.unlink()

    def last_path(self, method: str) -> Path | None:
        """The path of the latest model of a method, or `None`."""
        found = sorted(self._found(method))
        return found[-1][1] if found else None

    def load(self, method: str) -> tuple[int, keras.Model] | None:
        """Returns the latest readable model as `(epochs done, model)`, or `None`.

        A damaged one is passed over with a warning that names it.

        Raises:
            UsageProblem: If all models of the method are damaged.
        """
        found = sorted(self._found(method), reverse=True)
        for epoch, path in found:
            try:
                model = keras.saving.load_model(path)
            except Exception as error:
                logging.warning("The checkpoint %s cannot be read: %s", path, error)
                continue
            self._last_good[method] = epoch
            return epoch, model
        if found:
            names = " and ".join(str(path) for _, path in found)
            raise UsageProblem(
                f"{names} cannot be read, the warning above says why. Delete all "
                f"checkpoints of {method} to train it anew; nothing has been changed."
            )
        return None

    def save_arrays(self, name: str, arrays: dict) -> None:
        """Saves arrays that took long to compute, by name."""
        self._own.claim(f"checkpoints/{escape(name)}.npz")
        with written_atomically(self.path / f"{name}.npz") as temporary:
            np.savez(temporary, **arrays)

    def load_arrays(self, name: str) -> dict | None:
        """Returns what `save_arrays` saved, or `None`.

        Raises:
            UsageProblem: If the file is damaged.
        """
        path = self.path / f"{name}.npz"
        if not self._own.owns(path):
            return None
        try:
            # NumPy does not close a damaged file that it has opened itself.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
        # A damaged archive raises BadZipFile, zlib.error, ValueError, KeyError, ...
        except Exception as error:
            raise UsageProblem(
                f"{path} cannot be read ({error}). Delete it to compute it again."
            ) from error

    def _path(self, method: str, epoch: int) -> Path:
        return self.path / f"{method}-{epoch:05d}.keras"

    def _found(self, method: str) -> list[tuple[int, Path]]:
        pattern = re.compile(re.escape(method) + r"-(\d{5,})\.keras")
        matches = [(pattern.fullmatch(path.name), path) for path in self.path.iterdir()]
        return [
            (int(match[1]), path)
            for match, path in matches
            if match and self._own.owns(path)
        ]
