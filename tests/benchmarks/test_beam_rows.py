"""A Beam pipeline over files is killed and started again, as the benchmark does it."""

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")
pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")

import tensorflow as tf  # noqa: E402
from apache_beam.io.filesystems import FileSystems  # noqa: E402

from benchmarks import beam_pipeline, beam_rows  # noqa: E402
from bhn_tf.scoring import ScoringProblem  # noqa: E402


def write_ids(path, ids):
    parquet.write_table(pyarrow.table({"id": [f"row-{i}" for i in ids]}), path)


@pytest.mark.parametrize(
    ("ids", "said"),
    [([0, 1, 3], "1 rows"), ([0, 1, 2, 3, 1], "1 are")],
)
def test_rows_that_are_not_there_once_are_found(ids, said, tmp_path):
    write_ids(tmp_path / "scores-00000.parquet", ids[:2])
    write_ids(tmp_path / "scores-00001.parquet", ids[2:])
    with pytest.raises(ValueError, match=said):
        beam_rows.check_ids(tmp_path / "scores", 4)


@pytest.mark.parametrize(
    "record",
    [
        tf.io.serialize_tensor([1.0, 2.0]).numpy(),
        tf.io.serialize_tensor(tf.zeros([28, 28])).numpy(),
        tf.train.Example().SerializeToString(),
    ],
)
def test_a_record_without_an_id_is_refused(record):
    with pytest.raises(ScoringProblem, match="no text `id`: give"):
        beam_pipeline.with_its_id(record)


def test_beam_finds_files_by_a_relative_pattern(tmp_path, monkeypatch):
    path = tmp_path / "x-0.tfrecord"
    path.touch()
    monkeypatch.chdir(tmp_path)
    (found,) = FileSystems.match([beam_pipeline.absolute("x-*.tfrecord")])
    assert [file.path for file in found.metadata_list] == [str(path)]
    elsewhere = "gs://mine/x-*.tfrecord"
    assert beam_pipeline.absolute(elsewhere) == elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_a_pipeline_that_is_killed_and_started_again(mode, tmp_path):
    runs = beam_rows.measure(tmp_path, 2000, beam_rows.options_of_beam(mode, 2))
    assert [run.ended for run in runs.values()] == [True, False, True]
    assert all(100 < run.megabytes < 4000 for run in runs.values())
