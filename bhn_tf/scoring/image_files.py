"""Rows that are image files."""

import os
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path

import numpy as np
import tensorflow as tf

from bhn_tf.scoring.encoded_images import SUFFIXES, check_takes_images, decode
from bhn_tf.scoring.rows import Batch, as_rows, check_rows, only_input
from bhn_tf.serving.problems import ScoringProblem

# How many files may be broken before the folder itself is in doubt.
_TRIES = 10


class ImageFiles:
    """Image files, one row each; a row is called by its path.

    A file that is broken or of another size keeps its row, whose scores are NaN.

    Args:
        name: What they are called together.
        files: The files.
    """

    def __init__(self, name: str, files: Sequence[Path]):
        self.name = name
        self.files = list(files)
        self.num_rows = len(self.files)

    @classmethod
    def of_folder(cls, folder: Path) -> "ImageFiles":
        """Takes all images of a folder and of the folders in it, by name.

        Raises:
            ScoringProblem: If there is none.
        """
        found = sorted(
            path
            for path in folder.rglob("*")
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        )
        if not found:
            raise ScoringProblem(
                f"The folder {folder} holds no images ({', '.join(SUFFIXES)}). Files "
                f"of another kind are given by a pattern, such as '{folder}/*.npy'."
            )
        return cls(str(folder), found)

    def check(self, specs: dict) -> None:
        """Refuses images that the model does not take, by the first one."""
        _, spec = only_input(specs, self.name, "an image file")
        check_takes_images(spec, self.name)
        for path in self.files[:_TRIES]:
            try:
                image = decode(path.read_bytes(), spec)
            except tf.errors.InvalidArgumentError:
                continue
            check_rows(image.shape, image.dtype, spec, str(path))
            return
        raise ScoringProblem(
            f"{self.name}: none of the first {_TRIES} files can be decoded."
        )

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the images from `start` on, `size` at a time."""
        key, spec = only_input(specs, self.name, "an image file")
        with futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            for first in range(start, self.num_rows, size):
                paths = self.files[first : first + size]
                images = list(threads.map(lambda path: _read(path, spec), paths))
                broken = tuple(i for i, image in enumerate(images) if image is None)
                yield Batch(
                    [str(path) for path in paths],
                    {key: _stack(images, spec, self.name)},
                    broken,
                )


def _read(path: Path, spec):
    try:
        image = decode(path.read_bytes(), spec).numpy()
    except tf.errors.InvalidArgumentError:
        return None
    return image if spec.shape[1:].is_compatible_with(image.shape) else None


def _stack(images, spec, name):
    """The images, with zeros in place of the broken ones."""
    shapes = {image.shape for image in images if image is not None}
    if len(shapes) > 1:
        raise ScoringProblem(
            f"{name}: the model takes images of any size, but those of one batch have "
            f"to be equal, and are {sorted(shapes)}. Resize them, or take "
            "a batch size of 1."
        )
    shape = next(iter(shapes)) if shapes else [size or 1 for size in spec.shape[1:]]
    dtype = np.uint8 if spec.dtype == tf.uint8 else np.float32
    stacked = np.zeros((len(images), *shape), dtype)
    for row, image in enumerate(images):
        if image is not None:
            stacked[row] = image
    return as_rows(stacked, spec, name)
