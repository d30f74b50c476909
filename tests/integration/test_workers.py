"""Several processes on this machine do what one does; see `several_workers.py`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.models import workers
from tests.integration import several_workers, trained_by_workers
from tests.integration.conftest import ROOT


def cluster(num_workers):
    """TF_CONFIG of each of several workers on free ports of this machine."""
    sockets = [socket.socket() for _ in range(num_workers)]
    for one in sockets:
        one.bind(("localhost", 0))
    addresses = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return [
        json.dumps(
            {
                "cluster": {"worker": addresses},
                "task": {"type": "worker", "index": index},
            }
        )
        for index in range(num_workers)
    ]


def found_by(start, num_workers):
    """The results of each worker, followed by those of a single process."""
    processes = [
        start(several_workers.__file__, TF_CONFIG=config)
        for config in cluster(num_workers)
    ]
    alone = several_workers.found_with(tf.distribute.get_strategy())
    return [*(json.loads(output().splitlines()[-1]) for output in processes), alone]


def process_of(config, arguments):
    """Starts Python as the worker that TF_CONFIG describes."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={
            **os.environ,
            "TF_CONFIG": config,
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_as_one_process(found):
    *several, alone = found
    for worker in several:
        assert worker["without_noise"].keys() == alone["without_noise"].keys()
        for name, value in alone["without_noise"].items():
            np.testing.assert_allclose(
                flat(worker["without_noise"][name]),
                flat(value),
                rtol=1e-5,
                atol=1e-5,
                err_msg=name,
            )
        np.testing.assert_allclose(
            worker["seeded"]["samples"], alone["seeded"]["samples"], atol=1e-5
        )


def flat(values):
    return np.array(keras.tree.flatten(values))


def test_a_lost_worker_is_named():
    error = tf.errors.UnavailableError(
        None,
        None,
        "Graph execution error:\n\nCollective ops is aborted by: Error reported from "
        "/job:worker/task:0: The following tasks are unhealthy (stopped sending "
        "heartbeats):\n/job:worker/replica:0/task:1\nThe tasks have crashed.",
    )
    alone = tf.distribute.get_strategy()
    with pytest.raises(tf.errors.UnavailableError), workers.lost_workers_named(alone):
        raise error
    assert workers.cause_of(error) == "no heartbeat of /job:worker/replica:0/task:1."


@pytest.mark.parametrize(
    "stack",
    ["", "Detected at node Sum defined at (most recent call last):\n  File 'a.py'\n"],
)
def test_the_cause_is_not_a_heading(stack):
    message = "Collective ops is aborted by: Connection reset by peer"
    text = f"Graph execution error:\n\n{stack}{message}\nAdditional information:"
    error = tf.errors.UnavailableError(None, None, text)
    assert workers.cause_of(error) == f"{message}."
    error = tf.errors.UnavailableError(None, None, "Graph execution error:\n\n")
    assert workers.cause_of(error) == "UnavailableError."


def assert_rows_seen_once(found):
    *several, alone = found
    orders = []
    for epoch in range(2):
        rows = np.concatenate([worker["shuffled"]["seen"][epoch] for worker in several])
        np.testing.assert_array_equal(
            np.sort(rows), np.arange(several_workers.NUM_ROWS)
        )
        orders.append(rows.tolist())
    assert orders[0] != orders[1]
    for worker in several:
        assert worker["shuffled"]["num_examples"] == alone["shuffled"]["num_examples"]


@pytest.fixture(scope="module")
def found(run_python):
    return found_by(run_python, 2)


def test_two_workers_equal_one_process_where_nothing_is_random(found):
    assert_as_one_process(found)


def test_each_row_is_seen_once_an_epoch(found):
    assert_rows_seen_once(found)


def test_workers_agree_where_something_is_random(found):
    first, second, _ = found
    assert first["with_noise"] == second["with_noise"]
    assert np.isfinite(first["with_noise"]["loss"]).all()


@pytest.mark.slow
def test_a_chief_lost_outside_of_a_trainer_is_named():
    arguments = [several_workers.__file__, "lose"]
    chief, other = (process_of(config, arguments) for config in cluster(2))
    chief.communicate(timeout=600)
    _, errors = other.communicate(timeout=200)
    assert (chief.returncode, other.returncode) == (-signal.SIGKILL, 1)
    said = "WorkerLost: Another worker of this training is gone, or has not answered"
    *_, last = errors.strip().split("\n")
    assert said in last and "Graph execution error" not in last, errors


@pytest.mark.slow
def test_four_workers(run_python):
    found = found_by(run_python, 4)
    assert_as_one_process(found)
    assert_rows_seen_once(found)
    assert all(each["with_noise"] == found[0]["with_noise"] for each in found[1:4])


# -- a trainer -------------------------------------------------------------------------


def started(folder, *epochs):
    """Starts two workers of a trainer, each to be killed at an epoch, or `None`."""
    return [
        process_of(
            config,
            [trained_by_workers.__file__, str(folder)]
            + ([] if epoch is None else [str(epoch)]),
        )
        for config, epoch in zip(cluster(2), epochs, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["the chief", "another"])
def test_a_killed_worker_ends_the_others_and_all_go_on_together(victim, tmp_path):
    folder = tmp_path / "run"
    processes = started(folder, *(2 if victim == index else None for index in (0, 1)))
    processes[victim].communicate(timeout=600)
    assert processes[victim].returncode == -signal.SIGKILL
    killed_at = time.monotonic()
    _, errors = processes[1 - victim].communicate(timeout=120)
    print(f"The other one ended after {time.monotonic() - killed_at:.0f} s.")
    assert processes[1 - victim].returncode == 1
    assert "Another worker of this training is gone" in errors
    assert "Graph execution error" not in errors
    assert errors.strip().count("\n") == 0
    # The last checkpoint is that of two epochs; nothing is trained twice.
    processes = started(folder, None, None)
    (shown, errors), (nothing, no_errors) = (
        p.communicate(timeout=600) for p in processes
    )
    assert [p.returncode for p in processes] == [0, 0], errors + no_errors
    assert "Training deterministic, after 2 epochs" in shown and not nothing
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    found = [(entry["method"], entry["epoch"]) for entry in map(json.loads, lines)]
    methods = ("deterministic", "bhn")
    assert found == [(name, epoch) for name in methods for epoch in (1, 2, 3, 4)]
    assert {path.name for path in folder.iterdir()} >= {"model.keras", "results.json"}
