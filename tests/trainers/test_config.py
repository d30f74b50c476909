"""Bad flags end a run before any work, naming the flag."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainers import classification
from trainers.config import UsageProblem

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", -1),
        ("batch_size", 0),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("learning_rate", -1.0),
        ("hypernet", "maf"),
        ("num_flow_layers", 0),
        ("flow_units", ()),
        ("units", (0,)),
        ("num_samples", 0),
        ("strategy", "everywhere"),
        ("max_error_rates", (0.1, 2.0)),
        ("seed", -1),
    ],
)
def test_a_value_without_sense_is_refused_by_name(name, value):
    with pytest.raises(UsageProblem, match=f"--{name}="):
        classification.Config(**{name: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epoch=3"], "epoch"),
        (["--resume", "false"], "false"),
        (["--batch_size=many"], "batch_size"),
        (["--units="], "--units="),
        (["--units=8,x"], "--units=8,x"),
        (["--max_error_rates=0.1,x"], "--max_error_rates=0.1,x"),
        (["--data_dir=/nowhere", "--dataset=mnist"], "/nowhere"),
    ],
)
def test_a_binary_says_what_is_wrong_and_writes_nothing(arguments, message, tmp_path):
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "trainers.classification",
            f"--output_dir={tmp_path / 'run'}",
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode != 0
    assert message in process.stderr + process.stdout
    assert "Traceback" not in process.stderr
    assert not (tmp_path / "run").exists()
