"""From patterns of files to sources of rows."""

import contextlib
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from bhn_tf.files import NO_ARRAY
from bhn_tf.image_folders import SUFFIXES
from bhn_tf.scoring.batches import Batch, as_rows, check_rows, only_input, text_of
from bhn_tf.scoring.image_files import ImageFiles
from bhn_tf.scoring.record_files import RecordFile, is_record_file
from bhn_tf.serving.problems import ScoringProblem


class Source(Protocol):
    """Rows in a fixed order, read batch by batch.

    Attributes:
        name: Its name in messages.
        files: The files it consists of.
        num_rows: How many rows it has; `None` if counting takes reading all of it.
            After `check`, it is 0 if there are none.
    """

    name: str
    files: list[Path]

    @property
    def num_rows(self) -> int | None:
        """See above."""

    def check(self, specs: dict) -> None:
        """Refuses what the model does not take."""

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the rows from `start` on, `size` at a time."""


def open_sources(
    patterns: str | os.PathLike | Sequence[str | os.PathLike],
) -> list[Source]:
    """Finds the files that patterns match.

    Args:
        patterns: Files, patterns such as `x-*.tfrecord`, and folders of images. A file
            found by several patterns is taken once.

    Returns:
        The sources, in the order of the patterns, then by name.

    Raises:
        ScoringProblem: If a pattern finds nothing, or a file of an unknown kind.
    """
    if isinstance(patterns, str | os.PathLike):
        patterns = [patterns]
    if not patterns:
        raise ScoringProblem("No input was given: name files, patterns or folders.")
    seen: set[str] = set()
    sources: list[Source] = []
    for pattern in patterns:
        for source in _found_by(os.fspath(pattern)):
            real = {path: os.path.realpath(path) for path in source.files}
            fresh = [path for path in source.files if real[path] not in seen]
            seen.update(real.values())
            if len(fresh) == len(source.files):
                sources.append(source)
            elif fresh:
                sources.append(ImageFiles(source.name, fresh))
    return sources


def _found_by(pattern: str) -> list[Source]:
    try:
        if os.path.isdir(pattern):
            return [ImageFiles.of_folder(Path(pattern))]
        return _of_pattern(pattern)
    except OSError as error:
        raise ScoringProblem(f"{text_of(pattern)} cannot be read: {error}.") from error


def _of_pattern(pattern) -> list[Source]:
    # A file's name may look like a pattern: `x[1].npy`.
    names = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    paths = [Path(name) for name in sorted(names)]
    if not paths:
        raise ScoringProblem(
            f"No file matches {pattern!r} from the folder {Path.cwd()}."
        )
    images = [path for path in paths if path.suffix.lower() in SUFFIXES]
    others = [_of_file(path) for path in paths if path not in set(images)]
    return others + ([ImageFiles(text_of(pattern), images)] if images else [])


def _of_file(path) -> Source:
    if path.is_file() and path.suffix.lower() == ".npy":
        return ArrayFile(path)
    if path.is_file() and is_record_file(path):
        return RecordFile(path)
    raise ScoringProblem(
        f"{text_of(path)} is no file that can be scored: a .npy file, a TFRecord file "
        "(.tfrecord, .tfrecord-00000-of-00004, .tfrecord.gz) or an image "
        f"({', '.join(SUFFIXES)})."
    )


class ArrayFile:
    """An array [rows, ...] as `numpy.save` writes it, memory-mapped, never unpickled.

    A row is named `<file>:<row>`.

    Args:
        path: The file.

    Raises:
        ScoringProblem: If it does not hold an array of numbers with rows.
    """

    def __init__(self, path: Path):
        self.name = text_of(path)
        self.files = [Path(path)]
        try:
            # `numpy.load` would also open archives and pickles.
            self._array = np.lib.format.open_memmap(path, mode="r")
        except (*NO_ARRAY, OSError) as error:
            raise ScoringProblem(
                f"{self.name} cannot be read as an array of numbers ({error}). Write "
                "it with numpy.save."
            ) from error
        if not self._array.ndim:
            raise ScoringProblem(f"{self.name} holds a single number, no rows.")
        self.num_rows = len(self._array)

    def check(self, specs: dict) -> None:
        """Refuses an array that the model does not take."""
        _, spec = only_input(specs, self.name, "a .npy file")
        check_rows(self._array.shape[1:], self._array.dtype, spec, self.name)

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the rows from `start` on, `size` at a time."""
        key, spec = only_input(specs, self.name, "a .npy file")
        for first in range(start, self.num_rows, size):
            self._check_whole()
            values = self._array[first : first + size]
            where = f"{self.name}, rows from {first}"
            ids = [f"{self.name}:{first + row}" for row in range(len(values))]
            yield Batch(ids, {key: as_rows(values, spec, where)})

    def _check_whole(self):
        """Refuses a file truncated meanwhile: reading its rows would kill the process.

        A deleted file stays readable as long as it is mapped.
        """
        (path,) = self.files
        array = self._array
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size < array.offset + array.nbytes:
                raise ScoringProblem(
                    f"{self.name} was cut while it was read. Write it again, as a new "
                    "file, and start anew."
                )
