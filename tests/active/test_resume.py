"""A learner that was killed goes on as if it had not been."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.active.learners import learner, pool

ROOT = pathlib.Path(__file__).parents[2]


def start(*args):
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "active" / "learners.py", *args],
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_killed_twice_it_asks_for_the_same_ids(tmp_path):
    expected = learner("bhn")
    history = expected.run(3, validation_data=pool(20))
    # In the middle of the second training, and while a human is asked.
    for place in ("train 2", "label 2"):
        process = start(tmp_path, "bhn", place)
        assert process.returncode == -signal.SIGKILL, process.stderr[-2000:]
    last = start(tmp_path, "bhn")
    assert last.returncode == 0, last.stderr[-2000:]
    found = json.loads(last.stdout.splitlines()[-1])
    assert found["ids"] == expected.labelled_ids.tolist()
    assert found["metrics"] == [entry["metrics"] for entry in history]
    # The other labels were on disk before the kills, and are not asked for again.
    assert found["asked"] == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("method", ["bhn", "dropout"])
def test_a_new_learner_goes_on_where_the_folder_stands(method, tmp_path):
    expected = learner(method)
    whole = expected.run(2, validation_data=pool(20))
    learner(method, directory=tmp_path).run(1, validation_data=pool(20))
    second = learner(method, directory=tmp_path, seed=None)
    assert second.run(1) == whole[:1]
    assert second.run(1, validation_data=pool(20)) == whole[1:]
    np.testing.assert_array_equal(second.labels, expected.labels)
    for a, b in zip(
        expected.model.get_weights(), second.model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"state.json", "labels.npy", "model-00012.keras"}
    third = learner(method, directory=tmp_path)
    assert third.run(2) == whole
    np.testing.assert_array_equal(
        third.model.predict(pool()[0], num_samples=3, seed=0, verbose=0),
        second.model.predict(pool()[0], num_samples=3, seed=0, verbose=0),
    )


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"query_size": 5}, "query_size is 4 there and 5 now"),
        ({"acquisition": "random"}, "acquisition is 'bald' there"),
        ({"seed": 2}, "seed is 1 there and 2 now"),
        ({"warm_start": False}, "warm_start"),
        ({"initial_ids": [0, 1]}, "initial_ids"),
        ({"fit_kwargs": {"epochs": 4}}, "fit_kwargs"),
        ({"num_rows": 39}, "pool_size is 40 there and 39 now"),
        ({"pool_x": pool()[0] + 1}, "checksum_of_initial_rows"),
    ],
)
def test_a_folder_of_another_configuration_is_refused(kwargs, message, folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=message):
        learner(directory=folder, **kwargs)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("active")
    learner(directory=folder).run(0)
    return folder


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="'thesis.tex' but no state"):
        learner(directory=tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        learner(directory=tmp_path / "thesis.tex")
