"""TF_CONFIG says who is the chief; without it, a run of workers is refused."""

import json

import pytest

from trainers import classification
from trainers.cluster import chief_alone_prints, task_of
from trainers.config import CommonConfig, UsageProblem

WORKERS = CommonConfig(strategy="multi_worker")


@pytest.fixture
def set_task(monkeypatch):
    def set_task(cluster, job, index):
        content = {"cluster": cluster, "task": {"type": job, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(content))

    return set_task


@pytest.mark.parametrize(
    ("cluster", "job", "index", "is_chief"),
    [
        ({"worker": ["a:1", "b:1"]}, "worker", 0, True),
        ({"worker": ["a:1", "b:1"]}, "worker", 1, False),
        ({"chief": ["a:1"], "worker": ["b:1"]}, "chief", 0, True),
        ({"chief": ["a:1"], "worker": ["b:1"]}, "worker", 0, False),
    ],
)
def test_the_chief_alone_prints(cluster, job, index, is_chief, set_task, capsys):
    set_task(cluster, job, index)
    assert task_of(WORKERS) == (job, index, is_chief)
    with chief_alone_prints(WORKERS):
        print("a table")
    assert capsys.readouterr().out == ("a table\n" if is_chief else "")


def test_without_the_strategy_there_is_no_task(set_task):
    set_task({"worker": ["a:1", "b:1"]}, "worker", 1)
    assert task_of(CommonConfig()) is None


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": 1}', "[]"])
def test_workers_without_tf_config_are_refused(text, monkeypatch, tmp_path):
    monkeypatch.setenv("TF_CONFIG", text)
    config = classification.Config(
        strategy="multi_worker", output_dir=str(tmp_path / "run")
    )
    with pytest.raises(UsageProblem, match="TF_CONFIG has to list the workers"):
        classification.run(config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("cluster", "job", "index"),
    [
        ({"worker": ["a:1"]}, "worker", 1),
        ({"worker": "a:1"}, "worker", 0),
        ({"worker": ["a"]}, "worker", 0),
        ({"worker": [1]}, "worker", 0),
        ({"chief": [], "worker": ["a:1"]}, "worker", 0),
        ({"chief": ["a:1", "b:1"], "worker": ["c:1"]}, "chief", 1),
        ([["a:1"]], 0, 0),
    ],
)
def test_a_task_that_the_cluster_has_not_is_refused(cluster, job, index, set_task):
    set_task(cluster, job, index)
    with pytest.raises(UsageProblem, match="which of them this process is"):
        task_of(WORKERS)
