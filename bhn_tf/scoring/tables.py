"""Columns into files."""

import csv
from pathlib import Path

import numpy as np

from bhn_tf.environment import require
from bhn_tf.files import written_atomically
from bhn_tf.serving.problems import ScoringProblem

FORMATS = ("parquet", "csv")


def format_of(output: Path, asked: str = "") -> str:
    """Returns the format that a name or a wish means.

    Args:
        output: Where the table goes; its ending counts where nothing was asked for,
            and Parquet is written where it has none.
        asked: `"parquet"`, `"csv"`, or empty.

    Raises:
        ScoringProblem: If the format is unknown.
        ImportError: If Parquet is meant and PyArrow is not installed.
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


def write_table(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Writes a table whole or not at all.

    Args:
        path: A `.parquet` or `.csv` file.
        columns: Equally long columns by name.
    """
    write = _write_csv if path.suffix == ".csv" else _write_parquet
    with written_atomically(path) as temporary:
        write(temporary, columns)


def _write_csv(path, columns) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(path, columns) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
