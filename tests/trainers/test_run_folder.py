"""A folder of results belongs to one configuration, and to one run at a time."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from absl import logging

from trainers import epoch_log, experiment
from trainers.config import CommonConfig, UsageProblem
from trainers.kept_rows import KeptRows
from trainers.run_folder import RunFolder


@pytest.fixture
def config(tmp_path):
    return CommonConfig(output_dir=str(tmp_path / "run"))


@pytest.fixture
def warned(monkeypatch):
    """The warnings, as text."""
    messages = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *values: messages.append(text % values)
    )
    return messages


def finish(config, results=None):
    with RunFolder(config, "name") as folder:
        folder.write_results(results or {"a": 1})
    return folder


# -- whose folder it is --------------------------------------------------------------


def test_the_same_configuration_enters_again(config):
    finish(config)
    with RunFolder(config, "name") as folder:
        assert folder.read_results() == {"a": 1}


def test_another_configuration_is_refused_and_nothing_lost(config):
    finish(config)
    other = dataclasses.replace(config, hypernet="iaf")
    with pytest.raises(UsageProblem, match="--hypernet=realnvp there, iaf now"):
        RunFolder(other, "name")
    assert RunFolder(config, "name").read_results() == {"a": 1}


def test_two_words_for_a_short_run_are_one_configuration(config):
    finish(dataclasses.replace(config, smoke=True))
    again = RunFolder(dataclasses.replace(config, scale="smoke"), "name")
    assert again.read_results() == {"a": 1}
    with pytest.raises(UsageProblem, match="--scale=smoke there, full now"):
        RunFolder(config, "name")


def test_a_flag_that_came_later_had_its_default_before(config):
    path = finish(config).path / "config.json"
    written = json.loads(path.read_text())
    del written["hypernet"]
    path.write_text(json.dumps(written))
    assert RunFolder(config, "name").read_results() == {"a": 1}
    with pytest.raises(UsageProblem, match="--hypernet=realnvp there, iaf now"):
        RunFolder(dataclasses.replace(config, hypernet="iaf"), "name")


@pytest.mark.parametrize("overwrite", [False, True])
def test_another_trainers_folder_is_refused(config, overwrite):
    finish(config)
    config = dataclasses.replace(config, overwrite=overwrite)
    with pytest.raises(UsageProblem, match="no run of trainers.other but name"):
        RunFolder(config, "other")
    assert RunFolder(config, "name").read_results() == {"a": 1}


def test_a_folder_that_cannot_be_looked_at_is_named(config):
    long = dataclasses.replace(config, output_dir=config.output_dir + 300 * "x")
    with pytest.raises(UsageProblem, match="--output_dir=.* cannot be looked at"):
        RunFolder(long, "name")


def test_looking_writes_nothing(config, tmp_path):
    assert RunFolder(config, "name").read_results() is None
    assert not list(tmp_path.iterdir())


def test_a_second_run_in_a_folder_is_refused(config):
    with RunFolder(config, "name"):
        for overwrite in (False, True):
            second = dataclasses.replace(config, overwrite=overwrite)
            with pytest.raises(UsageProblem, match="Another run works in"):
                RunFolder(second, "name")
    with RunFolder(config, "name"):
        pass


def test_a_folder_that_a_run_was_killed_in_at_once_is_new(config, tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    (tmp_path / "run" / f".{'0' * 32}.config.json").touch()
    with RunFolder(config, "name") as folder:
        names = {path.name for path in folder.path.iterdir()}
    assert names == {".lock", "config.json", "checkpoints"}


class Measured:
    """An experiment that finds the mean of its data."""

    name = "name"

    def __init__(self, config, data):
        self.config, self._data = config, data

    def load(self):
        if self._data is None:
            raise UsageProblem("--data_dir= is gone.")
        return self._data

    def compute(self, folder, data):
        return {"mean": float(np.mean(data["train"][0]))}

    def table(self, results):
        return f"mean {results['mean']}"

    def where_to_look(self, folder):
        return ""


def some_data(mean=0.0, label=0, others=0.0, num_others=4):
    pair = np.full((300, 2), mean), np.arange(300) + label
    return {"train": pair, "anomalies": {"others": np.full((num_others, 2), others)}}


@pytest.mark.parametrize("is_finished", [True, False])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mean": 1.0}, "train: 300 rows, checksum .* there"),
        ({"label": 1}, "train: 300 rows, checksum .* there"),
        ({"others": 1.0}, "anomalies/others: 4 rows, mean 0.000 there"),
        ({"num_others": 5}, "anomalies/others: 4 rows, .* there, 5 rows"),
    ],
)
def test_a_folder_answers_for_no_other_data_of_the_same_names(
    config, changed, message, is_finished, capsys
):
    expected = experiment.run(Measured(config, some_data()))
    path = RunFolder(config, "name").path
    if not is_finished:
        (path / "results.json").unlink()
    before = {p: p.read_bytes() for p in path.iterdir() if p.is_file()}
    with pytest.raises(UsageProblem, match=f"on other data .*{message}"):
        experiment.run(Measured(config, some_data(**changed)))
    assert {p: p.read_bytes() for p in path.iterdir() if p.is_file()} == before
    assert experiment.run(Measured(config, some_data())) == expected
    again = dataclasses.replace(config, overwrite=True)
    experiment.run(Measured(again, some_data(**changed)))
    experiment.run(Measured(config, some_data(**changed)))
    # If the data are gone, the results can still be shown.
    capsys.readouterr()
    experiment.run(Measured(config, None))
    shown = capsys.readouterr().out
    assert "--data_dir= is gone." in shown and "mean" in shown


def test_a_folder_that_knows_no_data_yet_goes_on_and_learns_them(config):
    experiment.run(Measured(config, some_data()))
    path = RunFolder(config, "name").path
    written = json.loads((path / "config.json").read_text())
    del written["data"]
    (path / "config.json").write_text(json.dumps(written))
    assert experiment.run(Measured(config, some_data()))["mean"] == 0.0
    (path / "results.json").unlink()
    experiment.run(Measured(config, some_data()))
    # The same holds for what is asked for later.
    more = {**some_data(), "more": np.zeros(3)}
    (path / "results.json").unlink()
    experiment.run(Measured(config, more))
    for data in (some_data(mean=1.0), {**more, "more": np.ones(3)}):
        with pytest.raises(UsageProblem, match="on other data"):
            experiment.run(Measured(config, data))


# -- what is a run's to delete -------------------------------------------------------


def test_overwrite_removes_what_the_run_wrote_and_nothing_else(
    config, tmp_path, warned
):
    folder = tmp_path / "run"
    with RunFolder(config, "name") as run:
        for name in ("picture.png", "br[1].png"):
            run.file(name).touch()
        run.checkpoints.save_arrays("draws", {"x": np.zeros(2)})
        learner = run.learner_directory("learner")
        learner.mkdir()
        (learner / "state.json").touch()
        run.write_results({"a": 1})
    foreign = [
        folder / name
        for name in ("notes.png", "br1.png", "checkpoints/mine.npz", "mine/a.txt")
    ]
    foreign.append(learner / "notes.txt")
    (folder / "mine").mkdir()
    for path in foreign:
        path.write_text("dear reader")
    other = dataclasses.replace(config, hypernet="iaf", overwrite=True)
    with RunFolder(other, "name") as run:
        assert run.read_results() is None
        assert run.checkpoints.load_arrays("draws") is None
    left = {path for path in folder.rglob("*") if path.is_file()}
    assert left - set(foreign) == {
        folder / name for name in ("config.json", ".lock", ".files.json")
    }
    assert all(path.read_text() == "dear reader" for path in foreign)
    (message,) = warned
    assert all(str(path.relative_to(folder)) in message for path in foreign)
    written = json.loads((folder / "config.json").read_text())
    assert (written["trainer"], written["hypernet"]) == ("name", "iaf")


def test_overwrite_makes_room_for_the_first_version_of_an_export(config):
    class Model:
        def export(self, folder, metrics):
            version = folder / "1"
            (version / "assets").mkdir(parents=True)
            (version / "saved_model.pb").write_text(json.dumps(metrics))
            return str(version)

    for overwrite in (False, True):
        again = dataclasses.replace(config, overwrite=overwrite)
        with RunFolder(again, "name") as folder:
            folder.export(Model(), {"nll": 1.0})
            # Only once: a killed run finds it.
            folder.export(Model(), {"nll": 2.0})
        written = folder.path / "saved_model" / "1" / "saved_model.pb"
        assert json.loads(written.read_text()) == {"nll": 1.0}


def test_a_folder_of_something_else_is_left_alone(config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter.txt").write_text("dear reader")
    for overwrite in (False, True):
        with pytest.raises(UsageProblem, match="no run"):
            RunFolder(dataclasses.replace(config, overwrite=overwrite), "name")
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["letter.txt"]


def test_a_file_that_the_run_did_not_write_is_not_replaced(config):
    with RunFolder(config, "name") as folder:
        (folder.path / "entropy.png").write_text("mine")
        with pytest.raises(UsageProblem, match="entropy.png was not written by this"):
            folder.file("entropy.png")
        assert folder.file("other.png") == folder.path / "other.png"
        (folder.path / "other.png").touch()
        assert folder.file("other.png").exists()


@pytest.mark.parametrize("link", ["", "checkpoints", "picture.png"])
def test_overwrite_follows_no_links(config, tmp_path, link):
    with RunFolder(config, "name") as folder:
        folder.file("picture.png").touch()
        folder.checkpoints.save_arrays("draws", {"x": np.zeros(2)})
    elsewhere = tmp_path / "elsewhere"
    (folder.path / link).rename(elsewhere)
    (folder.path / link).symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*[!k]")}
    config = dataclasses.replace(config, overwrite=True)
    with (
        pytest.raises(UsageProblem, match="is a symbolic link"),
        RunFolder(config, "name"),
    ):
        pass
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*[!k]")} == before


# -- broken files --------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", '{"a": ', "[1]", "\xff"])
@pytest.mark.parametrize("name", ["config.json", "results.json"])
def test_a_broken_file_is_named_with_its_mend(config, name, content):
    path = finish(config).path / name
    path.write_bytes(content.encode("latin-1"))
    mend = {"config.json": "Give another --output_dir", "results.json": "Delete it"}
    with pytest.raises(UsageProblem, match=f"{name} .*{mend[name]}"):
        RunFolder(config, "name").read_results()


def test_a_run_goes_on_from_the_whole_lines_of_a_log_that_was_cut(config, warned):
    with RunFolder(config, "name") as folder:
        lines = [{"method": "a", "epoch": 1}, {"method": "a", "epoch": 2}]
        folder.epochs.replace("a", lines)
    path = folder.path / "metrics.jsonl"
    path.write_text(path.read_text()[:-5])
    with RunFolder(config, "name") as folder:
        assert folder.epochs.read("a") == lines[:1]
    assert len(warned) == 1 and "metrics.jsonl: line 2 is cut" in warned[0]
    with RunFolder(config, "name"):
        assert len(warned) == 1


@pytest.mark.parametrize("line", ["", "{}", '{"epoch": 1}', "[]", '{"method": "a'])
def test_a_broken_line_in_a_log_is_named(config, line):
    with RunFolder(config, "name") as folder:
        folder.epochs.replace("a", [{"method": "a", "epoch": 1}])
        path = folder.path / "metrics.jsonl"
        path.write_text(line + "\n" + path.read_text())
        with pytest.raises(UsageProblem, match="metrics.jsonl: line 1 .*Delete that"):
            folder.epochs.read()


def test_damaged_arrays_are_named(config):
    with RunFolder(config, "name") as folder:
        folder.checkpoints.save_arrays("draws", {"x": np.arange(3)})
        assert folder.checkpoints.load_arrays("draws")["x"].tolist() == [0, 1, 2]
        path = folder.path / "checkpoints" / "draws.npz"
        path.write_bytes(path.read_bytes()[:50])
        with pytest.raises(UsageProblem, match="draws.npz cannot be read .*Delete it"):
            folder.checkpoints.load_arrays("draws")


@pytest.mark.parametrize("write", ["write_text", "save_arrays"])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_kill_between_the_two_files_of_a_row_loses_neither(config, write, is_done):
    def killed(*args):
        if is_done:
            usual(*args)
        raise KeyboardInterrupt

    with RunFolder(config, "name") as folder:
        kept = KeptRows(folder, "set")
        owner = folder.checkpoints if write == "save_arrays" else epoch_log
        usual = getattr(owner, write)
        kept.add({"split": 0})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, write, killed)
            with pytest.raises(KeyboardInterrupt):
                kept.add({"split": 1})
        # As when a trainer goes on with what is not kept.
        for split in sorted({0, 1} - {row["split"] for row in kept.read()}):
            kept.add({"split": split})
        assert [row["split"] for row in kept.read()] == [0, 1]
        assert [line["row"]["split"] for line in folder.epochs.read("set")] == [0, 1]


# -- checkpoints and logs ------------------------------------------------------------


@pytest.fixture
def model():
    return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])


def damage(path):
    path.write_bytes(path.read_bytes()[:100])


def test_the_last_two_checkpoints_are_kept_and_the_latest_loads(config, model):
    with RunFolder(config, "name") as folder:
        kept = folder.checkpoints
        assert kept.load("model") is None
        for epoch in (1, 2, 3):
            kept.save("model", epoch, model)
        kept.save("model-2", 1, model)
        epoch, loaded = kept.load("model")
        names = sorted(path.name for path in kept.path.iterdir())
    assert epoch == 3
    np.testing.assert_array_equal(loaded.get_weights()[0], model.get_weights()[0])
    assert names == ["model-00002.keras", "model-00003.keras", "model-2-00001.keras"]


def test_a_damaged_checkpoint_falls_back_and_is_named(config, model, warned):
    with RunFolder(config, "name") as folder:
        for epoch in (1, 2):
            folder.checkpoints.save("model", epoch, model)
    first, second = sorted(folder.checkpoints.path.iterdir())
    damage(second)
    with RunFolder(config, "name") as folder:
        assert folder.checkpoints.load("model")[0] == 1
        assert len(warned) == 1 and str(second) in warned[0]
        # The good one stays beside the next, not the damaged one.
        folder.checkpoints.save("model", 3, model)
        assert first.exists() and not second.exists()
    for path in folder.checkpoints.path.iterdir():
        damage(path)
    with RunFolder(config, "name") as folder:
        with pytest.raises(UsageProblem, match="00003.keras and .*Delete all"):
            folder.checkpoints.load("model")
        assert len(list(folder.checkpoints.path.iterdir())) == 2


def test_checkpoints_of_others_are_not_gone_on_from(config, model):
    with RunFolder(config, "name") as folder:
        path = folder.checkpoints.path / "model-00009.keras"
        model.save(path)
        assert folder.checkpoints.load("model") is None
        with pytest.raises(UsageProblem, match="00009.keras was not written by this"):
            folder.checkpoints.save("model", 1, model)


def test_epochs_of_a_method_are_replaced_and_others_kept(config):
    with RunFolder(config, "name") as folder:
        log = folder.epochs
        log.replace("a", [{"method": "a", "epoch": 1}])
        log.replace("b", [{"method": "b", "epoch": 1}])
        log.replace("a", [{"method": "a", "epoch": 1}, {"method": "a", "epoch": 2}])
        assert [entry["epoch"] for entry in log.read("a")] == [1, 2]
        assert [entry["epoch"] for entry in log.read("b")] == [1]
