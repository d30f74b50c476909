"""What active learning keeps on disk: enough to resume after a kill at any time."""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import keras

from bhn_tf.active.agreement import agreed
from bhn_tf.active.labels import DamagedFileError, Labels, read_labels, write_labels
from bhn_tf.active.progress import Progress
from bhn_tf.active.state import check_configuration, read_state, state_text
from bhn_tf.files import (
    LOCK_NAME,
    FolderInUse,
    local_folder,
    locked,
    unfinished_name,
    written_atomically,
)
from bhn_tf.user_warnings import warn_user

_STATE = "state.json"
_LABELS = ("labels.npy", "labels.backup.npy")
#: How many models are kept: the latest, and the one before in case it is damaged.
_NUM_MODELS = 2
_OWN = re.compile(r"state\.json|labels(\.backup|\.damaged-\d+)?\.npy|model-\d+\.keras")


class LearnerFolder:
    """The folder of one active learner.

    - `labels.npy`: the labels in the order in which they were given, followed by the
      ids of their rows and the configuration. New labels are written here before
      anything else happens; this file alone is enough to resume.
    - `labels.backup.npy`: the same, written next.
    - `state.json`: the configuration; for every round its ids and, once the model is
      trained on them, its metrics; checksums of the models, and of the labels that
      models and metrics are based on.
    - `model-00030.keras`: the model trained on the first 30 labels; two are kept.

    Files of labels that are damaged are moved to `labels.damaged-1.npy`, ..., never
    overwritten.

    Args:
        directory: The folder; made by the first run if it does not exist.

    Raises:
        ValueError: If the folder holds something else, or is an address.
    """

    def __init__(self, directory: str | os.PathLike):
        # Stays the same folder if the process changes its working directory.
        self.path = local_folder(directory).absolute()
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"`directory` {self.path} is a file. Give a folder.")
        names = {p.name for p in self.path.iterdir()} if self.path.exists() else set()
        others = sorted(n for n in names if not _OWN.fullmatch(_final(n)))
        others = [name for name in others if name != LOCK_NAME]
        if others and not names & {_STATE, *_LABELS}:
            raise ValueError(
                f"`directory` {self.path} holds {others[0]!r} but no state of active "
                "learning. Give a new folder, or one of an earlier run."
            )
        # How many labels, with ids, each undamaged file holds.
        self._held: dict[str, int] = {}
        self._damaged: dict[str, str] = {}
        self._unusable_models: set[int] = set()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder, which is made if it does not exist.

        Raises:
            RuntimeError: If another run is using it.
            OSError: If nothing can be written there.
        """
        with contextlib.ExitStack() as stack:
            with _explained(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(self._lock())
            yield

    @contextlib.contextmanager
    def _lock(self, create: bool = True) -> Iterator[None]:
        try:
            with locked(self.path, create):
                yield
        except FolderInUse as error:
            raise RuntimeError(
                f"`directory` {self.path} is in use by another run of active learning. "
                "Wait until that has ended, or give another folder; nothing was "
                "changed."
            ) from error

    # -- labels and rounds ------------------------------------------------------------

    def look(self, configuration: dict) -> Progress:
        """Returns what `read` returns, while no run writes; makes no file."""
        with contextlib.ExitStack() as stack:
            # Without a lock file there has been no run; in a folder that cannot be
            # written to, there is none now.
            with contextlib.suppress(OSError):
                stack.enter_context(self._lock(create=False))
            return self.read(configuration)

    def read(self, configuration: dict) -> Progress:
        """Returns the progress on disk; an empty one for a new folder.

        Args:
            configuration: What must equal the folder's, as JSON values. A seed of
                `None` agrees with any.

        Raises:
            ValueError: If the folder belongs to another configuration, or its files
                contradict one another.
        """
        damaged: dict[str, str] = {}
        copies: dict[str, Labels] = {}
        state: Progress | None = None
        readers: dict[str, Callable[[Path], Labels | Progress]] = {
            _STATE: read_state,
            **dict.fromkeys(_LABELS, read_labels),
        }
        # State first: without the lock the labels may be newer, but never older.
        for name, read in readers.items():
            try:
                found = read(self.path / name)
            except FileNotFoundError:
                continue
            except DamagedFileError as error:
                damaged[name] = str(error)
                continue
            if isinstance(found, Progress):
                state = found
            else:
                copies[name] = found
        sources: list[Labels | Progress] = [*copies.values()]
        # A state written before the first labels has no configuration to keep.
        if state is not None and state.rounds:
            sources.append(state)
        for source in sources:
            if source.configuration is not None:
                check_configuration(self.path, source.configuration, configuration)
                configuration = source.configuration
        progress = agreed(configuration, copies, state, list(damaged))
        if state is None and progress.rounds:
            damaged.setdefault(_STATE, f"{self.path / _STATE} is missing")
        self._tell(damaged, copies)
        self._held = {n: len(c.values) for n, c in copies.items() if c.ids is not None}
        return progress

    def write(self, progress: Progress) -> None:
        """Writes what is not on disk: labels first, to both files, then the state."""
        for name in _LABELS:
            self._write_labels(name, progress)
        path = self.path / _STATE
        with _explained(path), written_atomically(path) as temporary:
            temporary.write_text(state_text(progress))

    def _write_labels(self, name: str, progress: Progress) -> None:
        path = self.path / name
        is_there = self._held.get(name) == len(progress.ids) and path.exists()
        if is_there or progress.labels is None:
            return
        with _explained(path):
            if name in self._damaged and path.exists():
                path.rename(self._free_name())
            labels = Labels(
                progress.labels,
                progress.ids,
                progress.round_sizes,
                progress.configuration,
            )
            write_labels(path, labels)
        self._damaged.pop(name, None)
        self._held[name] = len(progress.ids)

    def _free_name(self) -> Path:
        number = 1
        while (path := self.path / f"labels.damaged-{number}.npy").exists():
            number += 1
        return path

    def _tell(self, problems: dict[str, str], copies) -> None:
        """Warns once about each file that is damaged or missing."""
        for name, reason in problems.items():
            if name in self._damaged:
                continue
            again = "; the rounds are trained again" if name == _STATE else ""
            warn_user(f"{reason}. Going on from {' and '.join(copies)}{again}.")
        self._damaged |= problems

    # -- models -----------------------------------------------------------------------

    def write_model(self, progress: Progress, num_labelled: int, model) -> None:
        """Saves the model trained on the first `num_labelled` labels, and its round."""
        path = self._model_path(num_labelled)
        with _explained(path), written_atomically(path) as temporary:
            model.save(temporary)
        progress.models[num_labelled] = _checksum(path)
        self._unusable_models.discard(num_labelled)
        # Before writing, so that the state does not name a deleted model.
        self.tidy(progress)
        self.write(progress)

    def read_model(self, progress: Progress, num_labelled: int):
        """Loads the model trained on the first `num_labelled` labels.

        Returns:
            The model; `None`, with a warning, if its file is missing, damaged or from
            another run.
        """
        if num_labelled in self._unusable_models:
            return None
        path, checksum = self._model_path(num_labelled), progress.models[num_labelled]
        try:
            if checksum not in (None, _checksum(path)):
                raise DamagedFileError("it is not what was written")
            return keras.saving.load_model(path)
        # A damaged archive may raise anything, in any of the libraries that read it.
        except Exception as error:
            reason = "missing" if isinstance(error, FileNotFoundError) else error
            warn_user(
                f"{path} cannot be loaded ({reason}). The labels are there: `run` "
                "trains on them again.",
            )
            self._unusable_models.add(num_labelled)
            return None

    def tidy(self, progress: Progress) -> None:
        """Deletes older models of this run, and what a kill left half-written."""
        usable = sorted(set(progress.models) - self._unusable_models)
        for number in usable[:-_NUM_MODELS]:
            self._model_path(number).unlink(missing_ok=True)
            del progress.models[number]
        for path in self.path.iterdir():
            if _final(path.name) != path.name and _OWN.fullmatch(_final(path.name)):
                path.unlink()

    def _model_path(self, num_labelled):
        return self.path / f"model-{num_labelled:05d}.keras"


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Explains what to do if the system refuses to write."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"{path} cannot be written ({error.strerror or error}). What was written "
            "before is whole, and this learner holds all labels: make room, or the "
            "folder writable, and call its `run` again. Nobody is asked twice.",
        ) from error


def _final(name: str) -> str:
    """The final name of a file, given also the name it has while being written."""
    return unfinished_name(Path(name)) or name


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
