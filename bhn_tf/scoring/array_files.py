"""Rows of a .npy file, which stays on the disk."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bhn_tf.scoring.rows import Batch, as_rows, check_rows, only_input
from bhn_tf.serving.problems import ScoringProblem

SUFFIXES = (".npy",)


class ArrayFile:
    """An array [rows, ...] as `numpy.save` writes it, memory-mapped.

    A row is called `<file>:<row>`.

    Args:
        path: The file.

    Raises:
        ScoringProblem: If it holds no array of numbers with rows.
    """

    def __init__(self, path: Path):
        self.name = str(path)
        self.files = [Path(path)]
        try:
            self._array = np.load(path, mmap_mode="r")
        except (ValueError, EOFError) as error:
            raise ScoringProblem(
                f"{path} cannot be read as an array of numbers ({error}). Write it "
                "with numpy.save."
            ) from error
        if not self._array.ndim:
            raise ScoringProblem(f"{path} holds a single number, no rows.")
        self.num_rows = len(self._array)

    def check(self, specs: dict) -> None:
        """Refuses an array that the model does not take."""
        _, spec = only_input(specs, self.name, "a .npy file")
        check_rows(self._array.shape[1:], self._array.dtype, spec, self.name)

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the rows from `start` on, `size` at a time."""
        key, spec = only_input(specs, self.name, "a .npy file")
        for first in range(start, self.num_rows, size):
            values = self._array[first : first + size]
            where = f"{self.name}, rows from {first}"
            ids = [f"{self.name}:{first + row}" for row in range(len(values))]
            yield Batch(ids, {key: as_rows(values, spec, where)})
