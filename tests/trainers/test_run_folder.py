"""A folder of results belongs to one configuration."""

import dataclasses

import keras
import pytest

from trainers.config import CommonConfig, UsageProblem
from trainers.run_folder import RunFolder


@pytest.fixture
def config(tmp_path):
    return CommonConfig(output_dir=str(tmp_path / "run"))


def test_the_same_configuration_enters_again(config):
    RunFolder(config, "name").write_json("results.json", {"a": 1})
    assert RunFolder(config, "name").read_results() == {"a": 1}


def test_another_configuration_is_refused_and_nothing_lost(config):
    RunFolder(config, "name").write_json("results.json", {"a": 1})
    other = dataclasses.replace(config, hypernet="iaf")
    with pytest.raises(UsageProblem, match="--hypernet=realnvp there, iaf now"):
        RunFolder(other, "name")
    assert RunFolder(config, "name").read_results() == {"a": 1}


def test_overwrite_begins_anew(config):
    RunFolder(config, "name").write_json("results.json", {"a": 1})
    other = dataclasses.replace(config, hypernet="iaf", overwrite=True)
    assert RunFolder(other, "name").read_results() is None


def test_a_folder_of_something_else_is_left_alone(config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter.txt").write_text("dear reader")
    with pytest.raises(UsageProblem, match="no run"):
        RunFolder(dataclasses.replace(config, overwrite=True), "name")
    assert (tmp_path / "run" / "letter.txt").exists()


def test_checkpoints_keep_the_latest_and_refuse_a_damaged_one(config):
    folder = RunFolder(config, "name")
    assert folder.load_checkpoint("model") is None
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    folder.save_checkpoint("model", 1, model)
    folder.save_checkpoint("model", 2, model)
    epoch, loaded = folder.load_checkpoint("model")
    assert epoch == 2
    assert (loaded.get_weights()[0] == model.get_weights()[0]).all()
    files = list(folder.checkpoints.iterdir())
    assert len(files) == 1
    files[0].write_bytes(files[0].read_bytes()[:100])
    with pytest.raises(UsageProblem, match="cannot be read"):
        folder.load_checkpoint("model")
    assert files[0].exists()


def test_epochs_of_a_method_are_replaced_and_others_kept(config):
    folder = RunFolder(config, "name")
    folder.log_epochs("a", [{"method": "a", "epoch": 1}])
    folder.log_epochs("b", [{"method": "b", "epoch": 1}])
    folder.log_epochs("a", [{"method": "a", "epoch": 1}, {"method": "a", "epoch": 2}])
    assert [e["epoch"] for e in folder.read_epochs("a")] == [1, 2]
    assert [e["epoch"] for e in folder.read_epochs("b")] == [1]
