"""What active learning keeps on disk: enough to go on after a kill at any time."""

import json
from pathlib import Path

import keras
import numpy as np

from bhn_tf.files import written_atomically

_VERSION = 1


class LearnerFiles:
    """The folder of one active learner.

    - `state.json`: the configuration, and for every round its ids and, once the model
      is trained on them, its metrics.
    - `labels.npy`: the labels in the order of the ids. They are written before the
      training starts, so that nobody is asked twice.
    - `model-00030.keras`: the model trained on the first 30 labels; the latest one.

    Args:
        directory: The folder; made if it does not exist.

    Raises:
        ValueError: If the folder holds something else.
    """

    def __init__(self, directory):
        self.path = Path(directory)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"`directory` {self.path} is a file. Give a folder.")
        self._state = self.path / "state.json"
        self._labels = self.path / "labels.npy"
        if not self._state.exists() and self.path.exists():
            others = [p.name for p in self.path.iterdir() if not _is_own(p)]
            if others:
                raise ValueError(
                    f"`directory` {self.path} holds {others[0]!r} but no state of "
                    "active learning. Give a new folder, or one of an earlier run."
                )

    def read(self, configuration: dict) -> tuple[int | None, list[dict]]:
        """Returns the seed and the rounds on disk; `(None, [])` for a new folder.

        Args:
            configuration: What has to be as it was; JSON values. A seed of `None`
                agrees with any.

        Raises:
            ValueError: If the folder belongs to another configuration.
        """
        if not self._state.exists():
            return None, []
        state = json.loads(self._state.read_text())
        if state["version"] != _VERSION:
            raise ValueError(
                f"{self._state} is of version {state['version']}, and this library "
                f"reads version {_VERSION}. Give another folder."
            )
        there = state["configuration"]
        different = [
            f"{name} is {_short(there.get(name))} there and {_short(value)} now"
            for name, value in configuration.items()
            if there.get(name) != value and not (name == "seed" and value is None)
        ]
        if different:
            raise ValueError(
                f"`directory` {self.path} belongs to another configuration: "
                f"{'; '.join(different)}. Give another folder, or the arguments of "
                "that run to go on with it."
            )
        return there["seed"], state["rounds"]

    def write(self, configuration: dict, rounds: list[dict], labels=None) -> None:
        """Writes the rounds and, where given, all labels."""
        self.path.mkdir(parents=True, exist_ok=True)
        # Labels first: more labels than the state knows of do no harm.
        if labels is not None:
            with written_atomically(self._labels) as temporary:
                np.save(temporary, labels, allow_pickle=False)
        state = {"version": _VERSION, "configuration": configuration, "rounds": rounds}
        with written_atomically(self._state) as temporary:
            temporary.write_text(json.dumps(state, indent=1) + "\n")

    def read_labels(self, count: int) -> np.ndarray:
        """Returns the first `count` labels."""
        return np.load(self._labels, allow_pickle=False)[:count]

    def write_model(self, num_labelled: int, model: keras.Model) -> None:
        """Keeps the model trained on the first `num_labelled` labels."""
        with written_atomically(self._model_path(num_labelled)) as temporary:
            model.save(temporary)

    def read_model(self, num_labelled: int) -> keras.Model:
        """Loads the model trained on the first `num_labelled` labels."""
        return keras.saving.load_model(self._model_path(num_labelled))

    def drop_other_models(self, num_labelled: int) -> None:
        """Deletes models but that of `num_labelled`, and what a kill left behind."""
        keep = self._model_path(num_labelled)
        for path in self.path.iterdir():
            is_old = path.suffix == ".keras" or path.name.startswith(".")
            if _is_own(path) and is_old and path != keep:
                path.unlink()

    def _model_path(self, num_labelled):
        return self.path / f"model-{num_labelled:05d}.keras"


def _is_own(path: Path) -> bool:
    name = path.name.split(".", 2)[-1] if path.name.startswith(".") else path.name
    return name in ("state.json", "labels.npy") or (
        name.startswith("model-") and name.endswith(".keras")
    )


def _short(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
