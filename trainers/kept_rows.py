"""Rows of a table, each kept as soon as it is found."""

import numpy as np

from trainers.run_folder import RunFolder


class KeptRows:
    """Rows of one name in a folder, which a killed run does not compute again.

    Args:
        folder: The folder of the run.
        name: Name of the rows, such as a set's.
    """

    def __init__(self, folder: RunFolder, name: str):
        self._folder, self._name = folder, name

    def read(self) -> list[dict]:
        """The rows so far, in the order in which they were found."""
        columns = self._folder.checkpoints.load_arrays(self._name) or {}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def add(self, *new: dict) -> None:
        """Keeps further rows, with the same keys as the others."""
        rows = [*self.read(), *new]
        columns = {key: np.array([row[key] for row in rows]) for key in new[0]}
        # The log goes first: a line without its row is replaced when the row is found.
        entries = [{"method": self._name, "epoch": 0, "row": row} for row in rows]
        self._folder.epochs.replace(self._name, entries)
        self._folder.checkpoints.save_arrays(self._name, columns)
