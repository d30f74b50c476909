"""A Beam pipeline over files is killed and started again, as the benchmark does it."""

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")
pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")

from benchmarks import beam_rows  # noqa: E402


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


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_a_pipeline_that_is_killed_and_started_again(mode, tmp_path):
    runs = beam_rows.measure(tmp_path, 2000, beam_rows.options_of_beam(mode, 2))
    assert [run.ended for run in runs.values()] == [True, False, True]
    assert all(100 < run.megabytes < 4000 for run in runs.values())
