"""The output: a folder with one table of scores for each chunk of input."""

import contextlib
import csv
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bhn_tf.environment import require
from bhn_tf.files import LOCK_NAME, FolderInUse, locked, written_atomically
from bhn_tf.scoring.batches import text_of
from bhn_tf.scoring.inputs import Source
from bhn_tf.serving.problems import ScoringProblem

FORMATS = ("parquet", "csv")

# Readers of a folder of Parquet files skip names that begin with `_` or `.`.
_RUN = "_run.json"
_SUCCESS = "_SUCCESS"
_PART = re.compile(rf"part-\d{{5,}}-\d{{5,}}\.({'|'.join(FORMATS)})")
# Facts that only some runs have.
_OPTIONAL = {"level"}
# Files that a killed `written_atomically` leaves: the name after a dot and a word of 32
# hexadecimal digits, or fewer in older versions.
_TEMPORARY = re.compile(rf"\.[^.]+\.({_RUN}|{_SUCCESS}|{_PART.pattern})(\.[^.]+)?")


def _is_new(names) -> bool:
    """Whether there is nothing but leftovers of a run killed at its very start."""
    return all(name == LOCK_NAME or _TEMPORARY.fullmatch(name) for name in names)


def format_of(output: Path, asked: str = "") -> str:
    """Returns the format of an output, from its name or as requested.

    Args:
        output: Where the table goes. Its ending decides if nothing was requested;
            without an ending, it is Parquet.
        asked: `"parquet"`, `"csv"`, or empty.

    Raises:
        ScoringProblem: If the format is unknown.
        ImportError: If it is Parquet and PyArrow is not installed.
    """
    name = asked or output.suffix.lstrip(".").lower() or "parquet"
    if name not in FORMATS:
        raise ScoringProblem(
            f"{name!r} is no format of scores: it has to be one of "
            f"{', '.join(FORMATS)}."
        )
    if name == "parquet":
        require("pyarrow", "'bhn-tf[score]' (or write CSV, which needs nothing)")
    return name


def as_columns(answers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns one column per number: the mean first, then the scores by name.

    Args:
        answers: Arrays [rows, ...] by name of the output.

    Returns:
        Columns [rows]. An array with more axes becomes several columns, by index:
        `mean_0`, `mean_1`, ....

    Example:
        >>> list(as_columns({"entropy": np.zeros(2), "mean": np.zeros([2, 2])}))
        ['mean_0', 'mean_1', 'entropy']
    """
    columns = {}
    for name in sorted(answers, key=lambda name: (not name.endswith("mean"), name)):
        values = answers[name]
        for index in np.ndindex(values.shape[1:]):
            column = "_".join([name, *map(str, index)])
            columns[column] = values[(slice(None), *index)]
    return columns


def identity(model, sources: Sequence[Source], **facts) -> dict:
    """Returns what distinguishes a run from others: the model, the files, the chunks.

    A file is identified by name, size and time of change, which avoids reading it.

    Args:
        model: The `ServedModel`.
        sources: The sources that are read.
        **facts: How they are cut and written.
    """
    digest = hashlib.sha256()
    for source in sources:
        for path in source.files:
            digest.update(os.fsencode(path) + b"\0" + _state(path) + b"\n")
    return {
        "model": model.fingerprint,
        "input": digest.hexdigest(),
        "input_names": [source.name for source in sources],
        **facts,
    }


def _state(path) -> bytes:
    try:
        stat = path.stat()
    except OSError:
        # A file may vanish at any time; its row will then have no scores.
        return b"missing"
    return f"{stat.st_size}\0{stat.st_mtime_ns}".encode()


class Parts:
    """The parts of a run; a killed run resumes with the first missing part.

    `part-00002-00005` is the sixth chunk of the third source. `_run.json` says what the
    parts were made from, and `_SUCCESS` that none is missing.

    The constructor only looks at the folder and writes nothing. A `with` block locks
    the folder, and another run is then refused.

    Args:
        folder: Where they go.
        format: Ending of the parts.
        run: What `identity` returns; the folder of another run is refused.
        overwrite: Whether to delete the parts of another run and start anew. Files not
            written by a run stay.

    Raises:
        ScoringProblem: If the folder holds another run, or something else.
    """

    def __init__(self, folder: Path, format: str, run: dict, overwrite: bool = False):
        self._folder = folder
        self._format = format
        self._run = run
        self._overwrite = overwrite
        self._lock = contextlib.ExitStack()
        if folder.is_file():
            raise ScoringProblem(
                f"{text_of(folder)} is a file: scores go into a folder of that name, "
                "one part for each chunk of input."
            )
        with self._naming_the_folder():
            self._look()

    def __enter__(self) -> "Parts":
        with self._naming_the_folder(), contextlib.ExitStack() as until_the_end:
            self._folder.mkdir(parents=True, exist_ok=True)
            until_the_end.enter_context(locked(self._folder))
            # Looks again, as another run may have been here since the first look.
            earlier = self._look()
            if self._overwrite and earlier is not None:
                self._remove()
            if self._overwrite or earlier is None:
                with written_atomically(self._folder / _RUN) as temporary:
                    temporary.write_text(json.dumps(self._run, indent=1) + "\n")
            self._lock = until_the_end.pop_all()
        return self

    def __exit__(self, *exception) -> None:
        self._lock.close()

    @contextlib.contextmanager
    def _naming_the_folder(self):
        try:
            yield
        except FolderInUse as error:
            raise ScoringProblem(
                f"Another run scores into {text_of(self._folder)}. Wait for its end, "
                "or give another output."
            ) from error
        except OSError as error:
            raise ScoringProblem(
                f"{text_of(self._folder)} cannot be written: {error}."
            ) from error

    def _look(self) -> dict | None:
        """The earlier run in the folder, if this one may go on with it or delete it."""
        earlier = self._earlier()
        if earlier is not None and not self._overwrite:
            self._check_same(earlier)
        return earlier

    def _earlier(self) -> dict | None:
        """The run that has written the folder; `None` if it is new or empty."""
        if not self._folder.exists():
            return None
        path = self._folder / _RUN
        names = [entry.name for entry in self._folder.iterdir()]
        if _RUN not in names:
            if _is_new(names):
                return None
            raise ScoringProblem(
                f"{text_of(self._folder)} holds something that is no run of scores. "
                "Give another output."
            )
        try:
            earlier = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            earlier = None
        needed = self._run.keys() - _OPTIONAL
        is_run = isinstance(earlier, dict) and earlier.keys() >= needed
        if path.is_symlink() or not is_run:
            raise ScoringProblem(
                f"{text_of(path)} is damaged or was not written by a run of scores, so "
                "that nothing here is touched. Give another output, or delete the "
                "folder yourself."
            )
        return earlier

    def _check_same(self, earlier: dict) -> None:
        different = sorted(
            key
            for key in {*self._run, *earlier}
            if self._run.get(key) != earlier.get(key) and key != "input_names"
        )
        if different:
            raise ScoringProblem(
                f"{text_of(self._folder)} belongs to another run: "
                f"{', '.join(different)} differ, as _run.json there shows. Give "
                "another output, or overwrite to delete its parts."
            )

    def _remove(self) -> None:
        """Deletes what runs have written in the folder, and nothing else."""
        ours = [
            entry
            for entry in self._folder.iterdir()
            if entry.name == _SUCCESS
            or _PART.fullmatch(entry.name)
            or _TEMPORARY.fullmatch(entry.name)
        ]
        for path in (self._folder, *ours):
            if path.is_symlink() or (path in ours and not path.is_file()):
                raise ScoringProblem(
                    f"{text_of(path)} is a link or a folder that no run of scores has "
                    "made: nothing is overwritten through it. Give another output."
                )
        # `_SUCCESS` first, so that the rest never looks complete; `_run.json`, which
        # marks the folder as a run's, is replaced last.
        for path in sorted(ours, key=lambda path: path.name != _SUCCESS):
            path.unlink()

    @property
    def are_complete(self) -> bool:
        """Whether no part is missing or has to be made again."""
        return not self._overwrite and (self._folder / _SUCCESS).exists()

    def path(self, source: int, chunk: int) -> Path:
        """Returns where a part belongs."""
        return self._folder / f"part-{source:05d}-{chunk:05d}.{self._format}"

    def first_missing(self, source: int) -> int:
        """Returns the first chunk of a source that has no part yet."""
        chunk = 0
        while self.path(source, chunk).exists():
            chunk += 1
        return chunk

    def write(self, source: int, chunk: int, columns: dict) -> None:
        """Writes a part completely or not at all."""
        write = _write_csv if self._format == "csv" else _write_parquet
        with written_atomically(self.path(source, chunk)) as temporary:
            write(temporary, columns)

    def finish(self) -> None:
        """Records that no part is missing."""
        (self._folder / _SUCCESS).touch()


def _write_csv(path, columns) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(path, columns) -> None:
    import pyarrow
    from pyarrow import parquet

    # The type must be given, since it could not be inferred if all texts are missing.
    arrays = {
        name: pyarrow.array(
            values, pyarrow.string() if values.dtype == object else None
        )
        for name, values in columns.items()
    }
    parquet.write_table(pyarrow.table(arrays), path)
