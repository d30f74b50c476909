"""A run killed at random moments leaves the same as a run without kills."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(folder, *arguments, timeout):
    process = subprocess.run(
        [sys.executable, ROOT / "tests" / "trainers" / "killed.py", folder, *arguments],
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return process.stdout


def test_three_kills(tmp_path):
    assert "3 kills over" in run(tmp_path, "3", timeout=1200)
    # No temporary files, and no checkpoints but the last two.
    for folder in tmp_path.glob("killed-*/checkpoints"):
        assert len(list(folder.glob("*.keras"))) <= 2
        assert not [p for p in folder.iterdir() if p.name.startswith(".")]


@pytest.mark.slow
def test_twenty_kills_of_a_classification(tmp_path):
    found = run(tmp_path, "20", "classification", timeout=7200)
    assert "20 kills over" in found
