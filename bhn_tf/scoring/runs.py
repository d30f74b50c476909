"""Files in, parts of scores out."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bhn_tf.arguments import check_count
from bhn_tf.scoring.batches import Batch
from bhn_tf.scoring.guarantees import model_columns
from bhn_tf.scoring.inputs import open_sources
from bhn_tf.scoring.keras_file import open_model
from bhn_tf.scoring.parts import Parts, format_of, identity
from bhn_tf.serving.problems import ScoringProblem


@dataclasses.dataclass
class Summary:
    """What a run has done.

    Attributes:
        num_rows: Number of rows scored by this run.
        num_parts: Number of parts it wrote.
        num_kept: Number of parts already written by an earlier, killed run.
        unreadable: Ids of images without scores, among the rows of this run.
    """

    num_rows: int = 0
    num_parts: int = 0
    num_kept: int = 0
    unreadable: list[str] = dataclasses.field(default_factory=list)


def score_files(
    saved_model,
    inputs: str | os.PathLike | Sequence[str | os.PathLike],
    output,
    *,
    format: str = "",
    batch_size: int = 256,
    rows_per_part: int = 8192,
    overwrite: bool = False,
    level: float | None = None,
    on_progress: Callable[[int, int | None], None] | None = None,
) -> Summary:
    """Writes the mean and every score of each row of files that may exceed memory.

    `serving_default` is called batch by batch. The rows of a batch share their draws;
    if the model was exported with `ensemble=True`, all rows do. Each part has the
    columns `id`, `mean_0`, `mean_1`, ... and one for each score; with `level`, the
    interval or set of a calibrated model comes before them (`guarantees.Guarantee`).
    After a kill the same call resumes with the first missing part; a finished run is
    left as it is.

    Args:
        saved_model: A SavedModel, a folder of versions of it, or a `.keras` file.
        inputs: Files, patterns and folders of images; see `record_files.RecordFile`
            for what a TFRecord may hold.
        output: Folder of the parts, which `pandas.read_parquet(output)` reads at once.
        format: `"parquet"`, `"csv"`, or empty to go by the ending of `output`.
        batch_size: Rows of one call of the model.
        rows_per_part: Rows of one part, a multiple of `batch_size`; a kill loses at
            most so many.
        overwrite: Whether to delete the parts of another run there.
        level: Probability, such as 0.9, that the intervals or sets of a calibrated
            model hold the truth; `None` for no such columns.
        on_progress: Called after each batch with the number of rows scored by this run
            and the number it has to score, `None` if that is unknown (TFRecords).

    Returns:
        A `Summary`.

    Raises:
        ScoringProblem: If input, output and model do not fit, before anything is
            written; or if a record later in a file cannot be read.
        FileNotFoundError: If there is no SavedModel.
        ImportError: If Parquet is asked for and PyArrow is not installed.

    Example:
    ```python
    summary = score_files("saved_models/digits", ["digits-*.npy"], "scores.parquet")
    table = pandas.read_parquet("scores.parquet")
    table.nlargest(10, "mutual_information")
    ```
    """
    batch_size = check_count("batch_size", batch_size, minimum=1)
    rows_per_part = check_count("rows_per_part", rows_per_part, minimum=1)
    if rows_per_part % batch_size:
        raise ScoringProblem(
            f"A part of {rows_per_part} rows is no whole number of batches of "
            f"{batch_size}."
        )
    output = Path(output)
    format = format_of(output, format)
    sources = open_sources(inputs)
    model = open_model(saved_model)
    for source in sources:
        source.check(model.input_specs)
    if all(source.num_rows == 0 for source in sources):
        raise ScoringProblem("The input has no rows: there is nothing to score.")
    facts = {
        "format": format,
        "batch_size": batch_size,
        "rows_per_part": rows_per_part,
    }
    columns_of = model_columns(model, level)
    if level is not None:
        facts["level"] = float(level)
    run = identity(model, sources, **facts)
    parts = Parts(output, format, run, overwrite)
    if parts.are_complete:
        return Summary(num_kept=sum(map(parts.first_missing, range(len(sources)))))
    with parts:
        return _score_missing(
            model.input_specs,
            columns_of,
            sources,
            parts,
            batch_size,
            rows_per_part,
            on_progress,
        )


def _score_missing(
    specs, columns_of, sources, parts: Parts, batch_size, rows_per_part, on_progress
) -> Summary:
    """Writes the missing parts."""
    kept = [parts.first_missing(index) for index in range(len(sources))]
    summary = Summary(num_kept=sum(kept))
    total = _rows_left(sources, [chunk * rows_per_part for chunk in kept])
    names: list[str] = []
    for index, source in enumerate(sources):
        start = kept[index] * rows_per_part
        batches = source.batches(specs, start, batch_size)
        chunks = _in_groups(batches, rows_per_part // batch_size)
        for chunk, group in enumerate(chunks, start=kept[index]):
            scored = []
            for batch in group:
                scored.append(_score(columns_of, batch))
                names = names or list(scored[0])
                _check_columns(scored[-1], names, batch)
                summary.num_rows += len(batch.ids)
                summary.unreadable += [batch.ids[row] for row in batch.unreadable]
                if on_progress is not None:
                    on_progress(summary.num_rows, total)
            parts.write(index, chunk, _joined(scored))
            summary.num_parts += 1
    parts.finish()
    return summary


def _rows_left(sources, starts) -> int | None:
    if any(source.num_rows is None for source in sources):
        return None
    pairs = zip(sources, starts, strict=True)
    return sum(max(source.num_rows - start, 0) for source, start in pairs)


def _in_groups(batches: Iterator[Batch], size: int) -> Iterator[Iterator[Batch]]:
    """Yields the batches of one part after another, holding none."""
    for first in batches:
        rest = itertools.islice(batches, size - 1)
        yield itertools.chain([first], rest)


def _score(columns_of, batch: Batch) -> dict[str, np.ndarray]:
    try:
        columns = columns_of(batch.inputs)
    except ScoringProblem as problem:
        first, last = batch.ids[0], batch.ids[-1]
        raise ScoringProblem(f"Rows {first} to {last}: {problem}") from problem
    for row in batch.unreadable:
        for values in columns.values():
            values[row] = None if values.dtype == object else np.nan
    return {"id": np.array(batch.ids, dtype=object), **columns}


def _check_columns(table, names, batch: Batch) -> None:
    """Refuses rows with other columns than before, as readers of all parts lose some.

    A model of sequences or images of any size may answer for each of their elements.
    """
    if list(table) != names:
        # The first column is the row's name.
        raise ScoringProblem(
            f"{batch.ids[0]}: the model answers {len(table) - 1} columns for this row, "
            f"and {len(names) - 1} for those before: it answers for each element, and "
            "rows have other sizes. Bring them to one size, or score each size into an "
            "output of its own."
        )


def _joined(tables) -> dict[str, np.ndarray]:
    return {
        name: np.concatenate([table[name] for table in tables]) for name in tables[0]
    }
