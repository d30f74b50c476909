"""From patterns of files to what is read."""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from bhn_tf.scoring import array_files, encoded_images
from bhn_tf.scoring.array_files import ArrayFile
from bhn_tf.scoring.image_files import ImageFiles
from bhn_tf.scoring.record_files import RecordFile, is_record_file
from bhn_tf.scoring.rows import Batch
from bhn_tf.serving.problems import ScoringProblem


class Source(Protocol):
    """Rows in a fixed order, read batch by batch.

    Attributes:
        name: What it is called in messages.
        files: The files it is made of.
        num_rows: How many rows it has; `None` where that takes reading it all.
    """

    name: str
    files: list[Path]
    num_rows: int | None

    def check(self, specs: dict) -> None:
        """Refuses what the model does not take."""

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the rows from `start` on, `size` at a time."""


def open_sources(patterns: Sequence[str]) -> list[Source]:
    """Finds the files that patterns mean.

    Args:
        patterns: Files, patterns such as `x-*.tfrecord`, and folders of images. A file
            that several patterns find is taken once.

    Returns:
        The sources, in the order of the patterns, then by name.

    Raises:
        ScoringProblem: If a pattern finds nothing, or a file of an unknown kind.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    if not patterns:
        raise ScoringProblem("No input was given: name files, patterns or folders.")
    seen, sources = set(), []
    for pattern in patterns:
        if Path(pattern).is_dir():
            found = [ImageFiles.of_folder(Path(pattern))]
        else:
            found = _of_pattern(pattern)
        for source in found:
            fresh = [path for path in source.files if path.resolve() not in seen]
            seen.update(path.resolve() for path in fresh)
            if len(fresh) == len(source.files):
                sources.append(source)
            elif fresh:
                sources.append(ImageFiles(source.name, fresh))
    return sources


def _of_pattern(pattern) -> list[Source]:
    paths = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]
    if not paths:
        raise ScoringProblem(
            f"No file matches {pattern!r} from the folder {Path.cwd()}."
        )
    images = [path for path in paths if _ends(path, encoded_images.SUFFIXES)]
    others = [_of_file(path) for path in paths if path not in set(images)]
    return others + ([ImageFiles(pattern, images)] if images else [])


def _of_file(path) -> Source:
    if path.is_file() and _ends(path, array_files.SUFFIXES):
        return ArrayFile(path)
    if path.is_file() and is_record_file(path):
        return RecordFile(path)
    raise ScoringProblem(
        f"{path} is no file that can be scored: a .npy file, a TFRecord file "
        "(.tfrecord, .tfrecord-00000-of-00004, .tfrecord.gz) or an image "
        f"({', '.join(encoded_images.SUFFIXES)})."
    )


def _ends(path, suffixes) -> bool:
    return path.suffix.lower() in suffixes
