"""All workers of one run have the flags and the data of the chief."""

import dataclasses

import numpy as np
import pytest

from bhn_tf.models import workers
from trainers import worker_folder
from trainers.cluster import Task
from trainers.config import CommonConfig, UsageProblem
from trainers.run_folder import RunFolder

DATA = {"train": (np.zeros([3, 2]), np.arange(3))}


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration, in a process that asks no others."""
    monkeypatch.setattr(worker_folder, "strategy_of", lambda name: None)
    monkeypatch.setattr(workers, "all_say", lambda strategy, is_true: is_true)
    return CommonConfig(output_dir=str(tmp_path / "run"))


def started(chief, other, data=DATA):
    """The copy of another worker, which looks before the chief has begun."""
    copy = worker_folder._Copy(other, "name", Task("worker", 1, False))
    copy.learn_from(data)
    folder = RunFolder(chief, "name")
    folder.learn_from(DATA)
    with folder:
        (folder.path / "kept").write_text("by the chief")
    return copy


@pytest.mark.parametrize("flags", [{}, {"resume": False}, {"overwrite": True}])
def test_a_worker_copies_the_folder_of_the_chief(config, flags):
    config = dataclasses.replace(config, **flags)
    with started(config, config) as copy:
        assert str(copy.path) != config.output_dir
        assert (copy.path / "kept").read_text() == "by the chief"
    assert not copy.path.exists()


@pytest.mark.parametrize("flags", [{}, {"resume": False}, {"overwrite": True}])
def test_a_worker_with_other_flags_is_refused_on_a_first_start(config, flags):
    chief = dataclasses.replace(config, **flags)
    copy = started(chief, dataclasses.replace(chief, seed=config.seed + 1))
    message = (
        f"another configuration.*worker 1 .at the chief: --seed={config.seed} there"
    )
    with pytest.raises(UsageProblem, match=message):
        copy.__enter__()
    assert not copy.path.exists()


def test_a_worker_with_other_data_is_refused_on_a_first_start(config):
    copy = started(config, config, {"train": (np.ones([3, 2]), np.arange(3))})
    with pytest.raises(UsageProblem, match="other data.*train"):
        copy.__enter__()


@pytest.mark.parametrize("is_chief", [True, False])
def test_workers_hear_that_another_one_is_refused(config, monkeypatch, is_chief):
    copy = started(config, config)
    answers = iter([True, True, False])
    monkeypatch.setattr(workers, "all_say", lambda strategy, is_true: next(answers))
    chief = worker_folder._FolderOfChief(config, "name")
    with pytest.raises(UsageProblem, match="Another worker has other flags or"):
        (chief if is_chief else copy).__enter__()
