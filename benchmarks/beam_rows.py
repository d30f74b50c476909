"""A Beam pipeline over many rows: `python -m benchmarks.beam_rows --rows=1000000`.

Writes TFRecord files, lets `bhn_tf.beam` score them on Beam's local runner in other
processes, and shows rows a second and the highest memory of these together. Then a run
is killed midway and started again. The output must hold each row exactly once.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import bhn_tf
from bhn_tf.tables import text_table

_FEATURES = 8
_ROWS_OF_A_FILE = 25_000
_SECONDS_BETWEEN_LOOKS = 0.2


class Run(NamedTuple):
    """What was measured of a pipeline.

    Attributes:
        seconds: From its start to its end.
        megabytes: The highest memory of all its processes together.
        ended: Whether it ended by itself.
    """

    seconds: float
    megabytes: float
    ended: bool


def export_model(directory) -> str:
    """Exports a small classifier with frozen draws, and returns its path.

    Args:
        directory: Where its versions are.
    """
    network = keras.Sequential(
        [
            keras.layers.Input((_FEATURES,)),
            bhn_tf.layers.WeightNormDense(16, activation="relu"),
            bhn_tf.layers.WeightNormDense(3),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field", num_examples=1)
    return model.export(directory, num_samples=8, ensemble=True, seed=0)


def write_files(folder: Path, num_rows: int) -> str:
    """Writes rows to TFRecord files, one file after the other; returns their pattern.

    Args:
        folder: Where they go.
        num_rows: How many there are in all.
    """
    rng = np.random.default_rng(0)
    for start in range(0, num_rows, _ROWS_OF_A_FILE):
        size = min(_ROWS_OF_A_FILE, num_rows - start)
        x = rng.normal(size=(size, _FEATURES))
        path = folder / f"x-{start // _ROWS_OF_A_FILE:05d}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for i, row in enumerate(x, start):
                writer.write(_example(f"row-{i}", row))
    return str(folder / "x-*.tfrecord")


def _example(name: str, row) -> bytes:
    values = tf.train.Feature(float_list=tf.train.FloatList(value=row))
    name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode()]))
    features = tf.train.Features(feature={"inputs": values, "id": name})
    return tf.train.Example(features=features).SerializeToString()


def watched(arguments, seconds: float = np.inf) -> Run:
    """Runs `benchmarks.beam_pipeline`, and kills it when its time is up.

    Args:
        arguments: Its flags.
        seconds: Time until it is killed.
    """
    command = [sys.executable, "-m", "benchmarks.beam_pipeline", *arguments]
    peak, started = 0.0, time.perf_counter()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while (status := process.poll()) is None:
                peak = max(peak, megabytes_of_session(process.pid))
                if time.perf_counter() - started > seconds:
                    break
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            # Kills its workers, too, which would otherwise wait for it.
            _kill_session(process)
        if status:
            log.seek(0)
            raise RuntimeError(f"The pipeline failed:\n{log.read()[-5000:]}")
    return Run(time.perf_counter() - started, peak, status == 0)


def _kill_session(process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def megabytes_of_session(session: int) -> float:
    """Memory of all processes of a session; what they share counts once.

    Args:
        session: The session's id.
    """
    kilobytes = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                lines = (path / "smaps_rollup").read_text().splitlines()
                kilobytes += sum(int(s.split()[1]) for s in lines if s[:4] == "Pss:")
        except OSError:
            pass  # It has just ended.
    return kilobytes / 1024


def check_ids(prefix: Path, num_rows: int) -> None:
    """Checks that no row is missing, or there twice.

    Args:
        prefix: How the names of the results begin.
        num_rows: How many rows there should be.

    Raises:
        ValueError: If the rows are others.
    """
    import pyarrow.parquet

    seen = np.zeros(num_rows, int)
    for path in prefix.parent.glob(f"{prefix.name}-*.parquet"):
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(columns=["id"]):
            ids = [int(name.removeprefix("row-")) for name in batch[0].to_pylist()]
            np.add.at(seen, ids, 1)
    missing, twice = np.sum(seen == 0), np.sum(seen > 1)
    if missing or twice:
        raise ValueError(f"{missing:,} rows are missing, {twice:,} are there twice.")


def measure(folder: Path, num_rows: int, options: list[str]) -> dict[str, Run]:
    """Scores rows, then again with a kill midway; checks the rows both times.

    Args:
        folder: An empty folder.
        num_rows: How many rows.
        options: Flags of Beam.
    """
    prefix = folder / "scores"
    arguments = [
        f"--input={write_files(folder, num_rows)}",
        f"--saved_model={export_model(folder / 'model')}",
        f"--output={prefix}",
        *options,
    ]
    runs = {"whole": watched(arguments)}
    check_ids(prefix, num_rows)
    runs["killed midway"] = watched(arguments, runs["whole"].seconds / 2)
    runs["started again"] = watched(arguments)
    check_ids(prefix, num_rows)
    return runs


def options_of_beam(mode: str, workers: int) -> list[str]:
    """Flags of Beam's local runner.

    Args:
        mode: Where it works, as its flag has it.
        workers: How many processes or threads.
    """
    return [
        "--runner=FnApiRunner",
        f"--direct_running_mode={mode}",
        f"--direct_num_workers={workers}",
    ]


def main(_):
    """Measures both numbers of rows, and prints the table."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        raise SystemExit("Memory is read from /proc, which is not there.")
    mode, workers = flags.FLAGS.mode, flags.FLAGS.workers
    options = options_of_beam(mode, workers)
    table = [["rows", "run", "seconds", "rows a second", "peak MB"]]
    for num_rows in (flags.FLAGS.rows // 10, flags.FLAGS.rows):
        folder = Path(tempfile.mkdtemp(dir=flags.FLAGS.directory))
        try:
            for name, run in measure(folder, num_rows, options).items():
                rate = f"{num_rows / run.seconds:,.0f}" if run.ended else ""
                seen = [f"{run.seconds:.0f}", rate, f"{run.megabytes:,.0f}"]
                table.append([f"{num_rows:,}", name, *seen])
        finally:
            shutil.rmtree(folder)
    print(f"{mode}, {workers} workers; each row is there exactly once:\n")
    print(text_table(table, numbers=[0, 2, 3, 4]))


if __name__ == "__main__":
    flags.DEFINE_integer("rows", 1_000_000, "Rows; first a tenth.", lower_bound=100)
    flags.DEFINE_integer("workers", 2, "Processes or threads.", lower_bound=1)
    flags.DEFINE_string("directory", None, "Where temporary files go.")
    flags.DEFINE_enum(
        "mode",
        "multi_processing",
        ["in_memory", "multi_threading", "multi_processing"],
        "Where Beam's local runner works.",
    )
    app.run(main)
