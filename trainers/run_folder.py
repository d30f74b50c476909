"""The folder of results of a run: written atomically, tied to one configuration."""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from bhn_tf.files import written_atomically
from trainers.config import CommonConfig, UsageProblem

# Flags that say where things are or how to go on, not what is computed.
_NOT_IN_IDENTITY = {"output_dir", "data_dir", "resume", "overwrite"}


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file so that it is never seen half-written."""
    with written_atomically(path) as temporary:
        temporary.write_text(text)


class RunFolder:
    """Results, logs and checkpoints of one configuration.

    Args:
        config: The configuration; another one's folder is refused.
        name: Name of the trainer, for the default place `runs/<name>`.

    Raises:
        UsageProblem: If the folder belongs to another configuration or holds
            something else.
    """

    def __init__(self, config: CommonConfig, name: str):
        self.path = Path(config.output_dir or Path("runs") / name)
        self._config = config
        identity = json.loads(json.dumps(dataclasses.asdict(config)))
        if self.path.exists() and not self.path.is_dir():
            raise UsageProblem(f"--output_dir={self.path} is a file.")
        if self.path.exists() and any(self.path.iterdir()):
            self._enter_existing(identity)
        self.checkpoints = self.path / "checkpoints"
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageProblem(
                f"--output_dir={self.path} cannot be made: {error}."
            ) from error
        if not (self.path / "config.json").exists():
            self.write_json("config.json", identity)

    def _enter_existing(self, identity):
        config_path = self.path / "config.json"
        if not config_path.exists():
            raise UsageProblem(
                f"--output_dir={self.path} holds something that is no run of this "
                "trainer. Give another folder."
            )
        if self._config.overwrite:
            shutil.rmtree(self.path)
            return
        if not self._config.resume:
            raise UsageProblem(
                f"--noresume: {self.path} holds an earlier run. Give --overwrite to "
                "delete it, or another --output_dir."
            )
        earlier = json.loads(config_path.read_text())
        different = [
            f"--{name}={earlier.get(name)} there, {value} now"
            for name, value in identity.items()
            if name not in _NOT_IN_IDENTITY and earlier.get(name) != value
        ]
        if different:
            raise UsageProblem(
                f"--output_dir={self.path} holds a run of another configuration "
                f"({'; '.join(different)}). Give another folder, or --overwrite to "
                "delete that run."
            )

    def write_json(self, name: str, content) -> None:
        """Writes a JSON file into the folder."""
        write_atomically(self.path / name, json.dumps(content, indent=2) + "\n")

    def write_arrays(self, name: str, arrays: dict) -> None:
        """Keeps arrays beside the checkpoints, for a run that goes on after a kill."""
        temporary = self.checkpoints / f".{name}.npz"
        np.savez(temporary, **arrays)
        os.replace(temporary, self.checkpoints / f"{name}.npz")

    def read_arrays(self, name: str) -> dict | None:
        """Returns what `write_arrays` kept, or `None`."""
        path = self.checkpoints / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path) as arrays:
            return {key: arrays[key] for key in arrays.files}

    def read_results(self) -> dict | None:
        """Returns the results of a finished run, or `None`."""
        path = self.path / "results.json"
        return json.loads(path.read_text()) if path.exists() else None

    def finished_or(self, compute: Callable[[], dict]) -> dict:
        """Returns the results of a finished run, or those that `compute` makes."""
        results = self.read_results()
        if results is None:
            return compute()
        print(f"This run is finished; {self.path} stays as it is.\n")
        return results

    # -- logs ------------------------------------------------------------------------

    def log_epochs(self, method: str, epochs: list[dict]) -> None:
        """Replaces the lines of a method in metrics.jsonl."""
        others = [e for e in self.read_epochs() if e["method"] != method]
        lines = [json.dumps(entry) + "\n" for entry in others + epochs]
        write_atomically(self.path / "metrics.jsonl", "".join(lines))

    def read_epochs(self, method: str | None = None) -> list[dict]:
        """Returns the logged epochs, of one method or of all."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        epochs = [json.loads(line) for line in lines]
        return [e for e in epochs if method in (None, e["method"])]

    # -- checkpoints -------------------------------------------------------------------

    def save_checkpoint(self, method: str, epoch: int, model: keras.Model) -> None:
        """Keeps the model after `epoch` epochs and drops the one before."""
        path = self.checkpoints / f"{method}-{epoch:05d}.keras"
        temporary = self.checkpoints / f".{method}.keras"
        model.save(temporary)
        os.replace(temporary, path)
        for other_epoch, other in self._checkpoints(method):
            if other_epoch < epoch:
                other.unlink()

    def load_checkpoint(self, method: str) -> tuple[int, keras.Model] | None:
        """Returns the latest checkpoint as `(epochs done, model)`, or `None`."""
        found = self._checkpoints(method)
        if not found:
            return None
        epoch, path = max(found)
        try:
            return epoch, keras.saving.load_model(path)
        except Exception as error:
            raise UsageProblem(
                f"The checkpoint {path} cannot be read ({error}). Delete it to train "
                f"{method} anew; nothing else has been changed."
            ) from error

    def _checkpoints(self, method) -> list[tuple[int, Path]]:
        pattern = re.compile(re.escape(method) + r"-(\d{5})\.keras")
        matches = [(pattern.fullmatch(p.name), p) for p in self.checkpoints.iterdir()]
        return [(int(match[1]), path) for match, path in matches if match]
