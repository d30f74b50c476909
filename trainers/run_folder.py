"""The folder of results, for one configuration and one run at a time."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from glob import escape
from pathlib import Path

import keras
from absl import logging

from bhn_tf.files import (
    LOCK_NAME,
    FolderInUse,
    locked,
    remove_unfinished,
    unfinished_name,
    written_atomically,
)
from trainers.checkpoints import Checkpoints
from trainers.config import CommonConfig, UsageProblem
from trainers.data_identity import identity_of
from trainers.epoch_log import EpochLog
from trainers.own_files import OwnFiles
from trainers.state_files import making_sense_of, read_json, write_json

_CONFIG, _RESULTS, _EPOCHS = (
    "config.json",
    "results.json",
    "metrics.jsonl",
)
_MAKE_AGAIN = "Delete it: the run makes it again from its checkpoints."
# Flags that say where things are or how to go on, not what is computed.
_NOT_IN_IDENTITY = {"output_dir", "data_dir", "resume", "overwrite"}


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Says in a sentence that a folder of results cannot be written to.

    Args:
        folder: The folder, as --output_dir has it.

    Raises:
        UsageProblem: If the block fails to write.
    """
    try:
        yield
    except OSError as error:
        raise UsageProblem(
            f"--output_dir={folder} cannot be written to: {error}."
        ) from error


class RunFolder:
    """Results, logs and checkpoints of one configuration.

    The constructor looks at the folder and writes nothing. A `with` block makes it the
    run's own: it deletes what `--overwrite` allows, and refuses other runs.

    Args:
        config: The configuration; the folder of another one is refused.
        name: Name of the trainer, for the default place `runs/<name>`.

    Attributes:
        config: The configuration.
        path: The folder.
        epochs: The log of the epochs.
        checkpoints: What a killed run resumes from.

    Raises:
        UsageProblem: If another run works in the folder, or it belongs to another
            configuration, holds something else, or is broken.
    """

    def __init__(self, config: CommonConfig, name: str):
        self.config = config
        self._name = name
        self._data: dict[str, str] = {}
        self._lock = contextlib.ExitStack()
        self._be_at(Path(config.output_dir or Path("runs") / name))
        try:
            self._check()
        except OSError as error:
            raise UsageProblem(
                f"--output_dir={self.path} cannot be looked at: {error}."
            ) from error
        self._refuse_if_in_use()

    def _be_at(self, path: Path) -> None:
        self.path = path
        self._own = OwnFiles(path, (_CONFIG, _RESULTS, _EPOCHS))
        self.epochs = EpochLog(path / _EPOCHS)
        self.checkpoints = Checkpoints(path, self._own)

    def _refuse_if_in_use(self) -> None:
        if (self.path / LOCK_NAME).exists():
            # A finished run can be shown even if the folder is read-only.
            with contextlib.suppress(OSError), self._locked():
                pass

    def __enter__(self) -> "RunFolder":
        with writing_to(self.path), contextlib.ExitStack() as until_the_end:
            self.path.mkdir(parents=True, exist_ok=True)
            until_the_end.enter_context(self._locked())
            self._begin()
            self._lock = until_the_end.pop_all()
        return self

    def __exit__(self, *exception) -> None:
        self._lock.close()

    def learn_from(self, data) -> None:
        """Says which data the run uses, before it enters the folder.

        Args:
            data: See `trainers.data_identity.identity_of`.

        Raises:
            UsageProblem: If the folder holds a run on other data of the same names.
        """
        self._data = identity_of(data)
        self._check()

    # -- whose folder it is ------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self):
        try:
            with locked(self.path):
                yield
        except FolderInUse as error:
            raise UsageProblem(
                f"Another run works in --output_dir={self.path}. Wait for its end, or "
                "give another folder."
            ) from error

    def _begin(self) -> None:
        # Checks again: since the first time, another run may have come and gone.
        self._check()
        if self.config.overwrite and (self.path / _CONFIG).exists():
            stay = [p for p in self._own.remove() if p != self.path / LOCK_NAME]
            if stay:
                names = ", ".join(str(p.relative_to(self.path)) for p in stay[:5])
                logging.warning(
                    "%s: what that run did not write stays: %s%s",
                    self.path,
                    names,
                    ", ..." if len(stay) > 5 else "",
                )
        self.checkpoints.path.mkdir(exist_ok=True)
        for folder in (self.path, self.checkpoints.path):
            remove_unfinished(folder)
        self.epochs.mend()
        is_new = self.config.overwrite or not (self.path / _CONFIG).exists()
        earlier = self._identity() if is_new else self._earlier()
        there = earlier.get("data", {})
        if is_new or not set(self._data) <= set(there):
            data = {**there, **self._data}
            write_json(self.path / _CONFIG, {**earlier, "data": data})

    def _identity(self) -> dict:
        return {"trainer": self._name, **_as_json(self.config)}

    def _check(self) -> None:
        """Refuses a folder that this run cannot go on with, or cannot overwrite."""
        if not self.path.exists() or self._is_new():
            return
        if self.config.overwrite and self.path.is_symlink():
            raise UsageProblem(
                f"--overwrite: --output_dir={self.path} is a symbolic link. Give the "
                "folder itself."
            )
        flags, data = self._differences()
        if self.config.overwrite:
            return
        if not self.config.resume:
            raise UsageProblem(
                f"--noresume: {self.path} holds an earlier run. Give --overwrite to "
                "delete it, or another --output_dir."
            )
        if flags:
            raise UsageProblem(
                f"--output_dir={self.path} holds a run of another configuration "
                f"({'; '.join(flags)}). Give another folder, or --overwrite to "
                "delete that run."
            )
        if data:
            raise UsageProblem(
                f"--output_dir={self.path} holds a run on other data "
                f"({'; '.join(data)}), though their names are the same. Give "
                "another folder, or --overwrite to delete that run."
            )

    def _differences(self) -> tuple[list[str], list[str]]:
        """Flags and data in which the run that the folder holds differs from this."""
        # A flag that the folder lacks came later: that run was as with its default.
        earlier = _without_synonyms(
            {**_as_json(type(self.config)()), **self._earlier()}
        )
        not_in_identity = _NOT_IN_IDENTITY | self.config.not_in_identity
        flags = [
            f"--{name}={earlier.get(name)} there, {value} now"
            for name, value in _without_synonyms(_as_json(self.config)).items()
            if name not in not_in_identity and earlier.get(name) != value
        ]
        # Folders of older versions do not say what their data are.
        there = earlier.get("data", {})
        data = [
            f"{name}: {there[name]} there, {found} now"
            for name, found in self._data.items()
            if there.get(name, found) != found
        ]
        return flags, data

    def _is_new(self) -> bool:
        """Whether the folder is empty, or as a run leaves it that is killed at once."""
        if not self.path.is_dir():
            raise UsageProblem(f"--output_dir={self.path} is a file.")
        return all(
            path.name == LOCK_NAME
            or unfinished_name(path)
            or (path.name == "checkpoints" and path.is_dir() and _is_empty(path))
            for path in self.path.iterdir()
        )

    def _earlier(self) -> dict:
        """The identity of the run that the folder holds."""
        path = self.path / _CONFIG
        earlier = {}
        if path.exists():
            earlier = read_json(
                path,
                dict,
                "It says whose run the folder holds. Give another --output_dir, or "
                "delete the folder yourself.",
                lambda content: isinstance(content.get("data", {}), dict),
            )
        if earlier.get("trainer") != self._name:
            other = earlier.get("trainer", "something else")
            raise UsageProblem(
                f"--output_dir={self.path} holds no run of trainers.{self._name} but "
                f"{other}. Give another folder."
            )
        return earlier

    # -- results -----------------------------------------------------------------------

    def file(self, name: str) -> Path:
        """Returns where a file of the run goes, and puts down that it is the run's.

        Raises:
            UsageProblem: If there is one that the run did not write.
        """
        self._own.claim(escape(name))
        return self.path / name

    def learner_directory(self, name: str) -> Path:
        """Returns where an active learner keeps its state; puts it down like `file`."""
        files = ("state.json", "labels*.npy", "model-*.keras", LOCK_NAME)
        self._own.claim(*(f"checkpoints/{name}/{file}" for file in files))
        return self.checkpoints.path / name

    def save_model(self, name: str, model: keras.Model) -> None:
        """Saves a model whole or not at all."""
        with written_atomically(self.file(name)) as temporary:
            model.save(temporary)

    def export(self, model: keras.Model, measured: dict | None = None) -> None:
        """Exports a model, unless the folder holds an export of the run already.

        Args:
            model: The trained model.
            measured: Numbers by name that say how good it is, for the model card.
        """
        if not self._own.are_in("saved_model"):
            version = model.export(self.path / "saved_model", metrics=measured)
            self._own.adopt(Path(version))

    def write_results(self, results: dict) -> None:
        """Writes the results, which also marks the run as finished."""
        write_json(self.path / _RESULTS, results)

    def read_results(self) -> dict | None:
        """Returns the results of a finished run, or `None`.

        Raises:
            UsageProblem: If the file is broken.
        """
        path = self.path / _RESULTS
        if not path.exists():
            return None
        return read_json(path, dict, _MAKE_AGAIN)

    def reading_results(self) -> contextlib.AbstractContextManager:
        """Raises a `UsageProblem` that names the file of results if the block fails."""
        return making_sense_of(self.path / _RESULTS, _MAKE_AGAIN)


def _as_json(config: CommonConfig) -> dict:
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _without_synonyms(identity: dict) -> dict:
    """The identity with --smoke replaced by what it means, --scale=smoke."""
    rest = {name: value for name, value in identity.items() if name != "smoke"}
    return {**rest, "scale": "smoke"} if identity.get("smoke") else rest


def _is_empty(folder: Path) -> bool:
    return all(unfinished_name(path) for path in folder.iterdir())
