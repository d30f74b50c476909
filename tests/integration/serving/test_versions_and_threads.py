"""Versions appear whole, and one loaded model answers many threads."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from bhn_tf.serving.versions import new_version
from tests import networks
from tests.integration.conftest import ROOT
from tests.integration.serving import killed_export


def visible(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_killed_export_is_never_a_version(tmp_path):
    process = subprocess.Popen(
        [sys.executable, killed_export.__file__, str(tmp_path)],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert line == "half written\n" and process.returncode == -signal.SIGKILL
    # Graph and weights were there, but under a name that servers ignore.
    (unfinished,) = tmp_path.iterdir()
    assert unfinished.name.startswith(".") and (unfinished / "saved_model.pb").exists()
    path = networks.bayesian(hypernet="mean_field").export(tmp_path)
    assert path == str(tmp_path / "1") and visible(tmp_path) == {"1"}


def test_no_version_is_written_over(tmp_path):
    for name in ("1", "007"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "mine").touch()
    (tmp_path / "9-draft").mkdir()
    for expected in ("8", "9"):
        with new_version(tmp_path) as version:
            (version.path / "model").touch()
            assert expected not in visible(tmp_path)
        assert version.path == tmp_path / expected
    assert (tmp_path / "1" / "mine").exists() and (tmp_path / "007" / "mine").exists()


def test_a_failed_version_leaves_nothing(tmp_path):
    try:
        with new_version(tmp_path):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert list(tmp_path.iterdir()) == []


def test_exports_at_once_get_a_version_each(tmp_path):
    def write(index):
        with new_version(tmp_path) as version:
            (version.path / str(index)).touch()
        return version.path.name

    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(write, range(40)))
    assert sorted(map(int, versions)) == list(range(1, 41))
    for index, version in enumerate(versions):
        assert [path.name for path in (tmp_path / version).iterdir()] == [str(index)]


def test_200_threads_each_get_draws_of_their_own(tmp_path):
    loaded = tf.saved_model.load(networks.bayesian().export(tmp_path, num_samples=2))
    served = loaded.signatures["serving_default"]
    x = tf.constant(networks.data(1)[0])
    with ThreadPoolExecutor(200) as threads:
        futures = [threads.submit(served, inputs=x) for _ in range(200)]
    means = np.concatenate([future.result()["mean"] for future in futures])
    assert means.shape == (200, networks.NUM_CLASSES) and np.isfinite(means).all()
    assert len(np.unique(means, axis=0)) == 200
