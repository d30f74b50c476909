"""An output belongs to one run; files that no run has written are never deleted."""

import json
import os

import numpy as np
import pytest

from bhn_tf import scoring
from tests.scoring.scored_files import NUM_ROWS, read, score


@pytest.fixture
def again(vectors, x, tmp_path):
    """Scores two rows into a folder that may hold something already."""
    np.save(tmp_path / "again.npy", x[:2])

    def run(folder, **kwargs):
        return score(vectors, [f"{tmp_path}/again.npy"], folder, format="csv", **kwargs)

    return run


@pytest.fixture
def output(vectors, x, tmp_path):
    """A finished output of three parts."""
    np.save(tmp_path / "x.npy", x)
    score(vectors, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")
    return tmp_path / "out.csv"


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_overwriting_deletes_parts_alone(output, again):
    (output / "notes.txt").write_text("mine")
    (output / "part-of-mine.csv").write_text("mine")
    (output / "plots").mkdir()
    (output / "plots" / "part-00000-00000.csv").write_text("mine")
    # What a killed run left behind counts as its own.
    (output / ".77.part-00000-00001.csv").write_text("half")
    with pytest.raises(scoring.ScoringProblem, match="another run"):
        again(output)
    assert len(read(output)["id"]) == NUM_ROWS
    again(output, overwrite=True)
    names = {"_run.json", "_SUCCESS", ".lock", "notes.txt", "part-of-mine.csv"}
    names |= {"plots", "part-00000-00000.csv"}
    assert set(os.listdir(output)) == names
    assert (output / "plots" / "part-00000-00000.csv").read_text() == "mine"
    assert len((output / "part-00000-00000.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"model": 1}', "[" * 20_000, None])
def test_a_folder_that_is_no_output_is_not_touched(output, again, text):
    """The file that identifies a run is damaged, another program's, or missing."""
    (output / "_run.json").unlink()
    if text is not None:
        (output / "_run.json").write_text(text)
    before = contents(output)
    for overwrite in (False, True):
        with pytest.raises(scoring.ScoringProblem, match=str(output)):
            again(output, overwrite=overwrite)
    assert contents(output) == before


@pytest.mark.parametrize("linked", ["folder", "part", "proof"])
def test_nothing_is_deleted_through_a_link(output, again, tmp_path, linked):
    target = output
    if linked == "folder":
        target = tmp_path / "link.csv"
        target.symlink_to(output)
    else:
        name = {"part": "part-00000-00001.csv", "proof": "_run.json"}[linked]
        (output / name).rename(tmp_path / "elsewhere")
        (output / name).symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path)
    with pytest.raises(scoring.ScoringProblem, match=r"link|not written by a run"):
        again(target, overwrite=True)
    assert contents(tmp_path) == before


def test_what_a_killed_start_left_is_no_hindrance(tmp_path, again):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".77._run.json").touch()
    (tmp_path / "new" / ".lock").touch()
    assert again(tmp_path / "new").num_rows == 2


def test_an_empty_input_that_is_mended_is_scored(vectors, x, tmp_path):
    for ending, contents in (("npy", np.zeros([0, 4], "float32")), ("tfrecord", None)):
        path = tmp_path / f"x.{ending}"
        path.touch() if contents is None else np.save(path, contents)
    with pytest.raises(scoring.ScoringProblem, match="no rows"):
        score(vectors, [f"{tmp_path}/x.*"], tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    np.save(tmp_path / "x.npy", x)
    assert (
        score(vectors, [f"{tmp_path}/x.*"], tmp_path / "out.csv").num_rows == NUM_ROWS
    )


def test_the_proof_names_what_was_read(output, tmp_path):
    run = json.loads((output / "_run.json").read_text())
    assert run["input_names"] == [f"{tmp_path}/x.npy"] and run["batch_size"] == 4


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_run_into_an_output_is_refused(vectors, x, tmp_path, overwrite):
    np.save(tmp_path / "x.npy", x)
    arguments = (vectors, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")
    refused = []

    def second_run(done, total):
        before = contents(tmp_path / "out.csv")
        with pytest.raises(scoring.ScoringProblem, match="Another run scores into"):
            score(*arguments, overwrite=overwrite)
        assert contents(tmp_path / "out.csv") == before
        refused.append(done)

    assert score(*arguments, on_progress=second_run).num_rows == NUM_ROWS
    assert len(refused) == 6
    # Its lock ended with it, and a finished output needs no lock to be shown.
    assert score(*arguments).num_rows == 0
    os.unlink(tmp_path / "out.csv" / ".lock")
    assert score(*arguments).num_kept == 3
    assert not (tmp_path / "out.csv" / ".lock").exists()


def test_a_run_that_broke_off_leaves_no_lock(vectors, x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    arguments = (vectors, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")

    def breaks(done, total):
        if done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(*arguments, on_progress=breaks)
    summary = score(*arguments)
    assert (summary.num_kept, summary.num_rows) == (1, NUM_ROWS - 8)
    assert read(tmp_path / "out.csv")["id"] == [
        f"{tmp_path}/x.npy:{row}" for row in range(NUM_ROWS)
    ]
