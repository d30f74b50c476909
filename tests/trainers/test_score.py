"""The command that scores files goes on after a kill, and names what it refuses."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from trainers import score
from trainers.config import UsageProblem

ROOT = pathlib.Path(__file__).parents[2]
MODEL = str(ROOT / "saved_models" / "digits")


@pytest.fixture
def digits(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (20, 28, 28, 1), "uint8")
    np.save(tmp_path / "x.npy", x)
    return str(tmp_path / "x.npy")


def test_digits_are_scored(digits, tmp_path, capsys):
    output = tmp_path / "out.csv"
    config = score.Config(MODEL, (digits,), str(output), batch_size=8, rows_per_part=16)
    summary = score.run(config)
    assert (summary["num_rows"], summary["num_parts"]) == (20, 2)
    assert "20 rows scored, in 2 parts" in capsys.readouterr().out
    head = (output / "part-00000-00000.csv").read_text().splitlines()[0].split(",")
    assert head[:3] == ["id", "mean_0", "mean_1"] and "mutual_information" in head
    assert score.run(config)["num_rows"] == 0
    assert "2 parts were there already" in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_command_goes_on(tmp_path):
    """After SIGKILL during work, files on disk are whole and are kept."""
    rows = 10_000
    path = tmp_path / "x.npy"
    array = np.lib.format.open_memmap(path, "w+", np.uint8, (rows, 28, 28, 1))
    array.flush()
    output = tmp_path / "out.csv"
    command = [
        sys.executable,
        "-m",
        "trainers.score",
        f"--saved_model={MODEL}",
        f"--input={path}",
        f"--output={output}",
        "--batch_size=200",
        "--rows_per_part=200",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not list(output.glob("part-*")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {part.name: part.stat().st_mtime_ns for part in output.glob("part-*")}
    assert kept and not (output / "_SUCCESS").exists()
    config = score.Config(
        MODEL, (str(path),), str(output), batch_size=200, rows_per_part=200
    )
    summary = score.run(config)
    assert summary["num_kept"] == len(kept)
    assert summary["num_rows"] == rows - 200 * len(kept)
    for name, time_ns in kept.items():
        assert os.stat(output / name).st_mtime_ns == time_ns
    lines = [len(p.read_text().splitlines()) - 1 for p in output.glob("part-*")]
    assert sum(lines) == rows


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"saved_model": ""}, "--saved_model="),
        ({"input": ()}, "--input="),
        ({"output": ""}, "--output="),
        ({"saved_model": "nowhere"}, "--saved_model=nowhere"),
        ({"input": ("nowhere-*.npy",)}, "nowhere-"),
        ({"batch_size": 0}, "--batch_size=0"),
        ({"format": "xml"}, "--format=xml"),
        ({"rows_per_part": 100}, "no whole number of batches"),
    ],
)
def test_what_makes_no_sense_is_named(digits, tmp_path, wrong, message):
    output = tmp_path / "out.csv"
    flags = {"saved_model": MODEL, "input": (digits,), "output": str(output), **wrong}
    with pytest.raises(UsageProblem, match=message):
        score.run(score.Config(**flags))
    assert not output.exists()
