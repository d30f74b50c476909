"""Bad flags end a run before any work, naming the flag."""

import dataclasses
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from absl import app, flags

import trainers
from trainers import (
    classification,
    config,
    multimodal,
    score,
    serving_example,
    toy_regression,
    uci,
)
from trainers.config import UsageProblem

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", -1),
        ("output_dir", "gs://bucket/runs"),
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
        # NumPy's seeds end there.
        ("seed", 2**32),
    ],
)
def test_a_value_without_sense_is_refused_by_name(name, value):
    with pytest.raises(UsageProblem, match=f"--{name}="):
        classification.Config(**{name: value})


def test_numpys_numbers_are_written_as_json():
    numbers = dict(seed=np.int64(1), learning_rate=np.float32(0.5))
    found = classification.Config(**numbers, flow_units=(np.int64(8),))
    expected = classification.Config(seed=1, learning_rate=0.5, flow_units=(8,))
    assert json.dumps(dataclasses.asdict(found)) == json.dumps(
        dataclasses.asdict(expected)
    )


def run_with(*arguments):
    """Runs the main job with arguments, in this process."""
    values = flags.FlagValues()
    config.define_flags(classification.Config, values)
    left = values(["classification", *arguments])
    classification.run(config.read_flags(classification.Config, left, values))


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
def test_arguments_without_sense_are_named_and_nothing_written(
    arguments, message, tmp_path
):
    with pytest.raises((flags.Error, app.UsageError, UsageProblem), match=message):
        run_with(f"--output_dir={tmp_path / 'run'}", *arguments)
    assert not (tmp_path / "run").exists()


def test_a_path_may_begin_with_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    values = flags.FlagValues()
    config.define_flags(score.Config, values)
    left = values(["score", "--input=a.npy,~/b.npy", "--output=~/my scores.csv"])
    found = config.read_flags(score.Config, left, values)
    assert found.input == ("a.npy", f"{tmp_path}/b.npy")
    assert found.output == f"{tmp_path}/my scores.csv"


def test_flags_that_a_trainer_would_not_use_are_not_offered():
    unused = {
        multimodal: {"dataset", "data_dir", "batch_size"},
        toy_regression: {"dataset", "data_dir"},
        uci: {"dataset", "epochs", "batch_size", "hypernet", "strategy"},
        serving_example: {"dataset", "data_dir", "strategy", "resume", "overwrite"},
    }
    for trainer, names in unused.items():
        assert not names & {f.name for f in dataclasses.fields(trainer.Config)}
        with pytest.raises(TypeError, match="unexpected keyword"):
            trainer.Config(**dict.fromkeys(names, ""))


def test_a_flag_that_is_declared_again_keeps_its_check():
    common = {f.name: f for f in dataclasses.fields(config.CommonConfig)}
    for module in pkgutil.iter_modules(trainers.__path__, "trainers."):
        declared = getattr(importlib.import_module(module.name), "Config", None)
        for field in dataclasses.fields(declared) if declared else ():
            checked = field.name in common and common[field.name].metadata["check"]
            assert not checked or field.metadata["check"], (module.name, field.name)


# -- what a user sees ----------------------------------------------------------------


def screen(*arguments):
    """Starts the main job like a user; returns its status and output."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    process = subprocess.run(
        [sys.executable, "-m", "trainers.classification", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    return process.returncode, process.stdout, process.stderr


def test_the_first_screen_is_the_trainers_own(tmp_path):
    status, shown, errors = screen("--help")
    assert status == 1
    assert shown.startswith("Classification with a Bayesian hypernetwork")
    assert "--network: <mlp|cnn>: A perceptron" in shown
    assert errors == ""


def test_a_problem_ends_a_binary_with_one_sentence(tmp_path):
    status, shown, errors = screen(f"--output_dir={tmp_path / 'run'}", "--units=8,x")
    assert (status, shown) == (1, "")
    assert errors.startswith("--units=8,x makes no sense") and errors.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("trainer", "arguments", "shown"),
    [
        (classification, [], " The same command goes on where it stopped."),
        (
            score,
            ["--overwrite"],
            " The same command, without --overwrite, goes on where it stopped.",
        ),
        (serving_example, [], ""),
    ],
)
def test_ctrl_c_ends_a_binary_with_one_sentence(
    trainer, arguments, shown, monkeypatch, capsys
):
    def interrupted(config):
        raise KeyboardInterrupt

    values = flags.FlagValues()
    config.define_flags(trainer.Config, values)
    values(["trainer", *arguments])
    made = config.read_flags(trainer.Config, ["trainer"], values)
    # The process's own flags are left alone.
    monkeypatch.setattr(config, "define_flags", lambda config_class: None)
    monkeypatch.setattr(config, "read_flags", lambda *arguments: made)
    monkeypatch.setattr(config, "flags", mock.MagicMock())
    monkeypatch.setattr(app, "run", lambda main: main(["trainer"]))
    with pytest.raises(SystemExit) as ended:
        config.run_binary(trainer.Config, interrupted)
    assert ended.value.code == 130
    assert capsys.readouterr().err == f"\nInterrupted.{shown}\n"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("raise ImportError('no such library')", "ImportError: no such library"),
        ("import os; os.write(2, b'F0000 00:00:1 no AVX\\n'); os.abort()", "no AVX"),
    ],
)
def test_what_is_wrong_with_tensorflow_is_shown(content, shown, tmp_path):
    remark = "import os; os.write(2, b'I0000 00:00:1 a remark\\n')\n"
    (tmp_path / "tensorflow.py").write_text(remark + content)
    process = subprocess.run(
        [sys.executable, "-c", "import trainers"],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert process.returncode != 0
    assert shown in process.stderr and "remark" not in process.stderr


def test_importing_defines_no_flag():
    """From a notebook, or all trainers in one process."""
    for module in pkgutil.iter_modules(trainers.__path__, "trainers."):
        importlib.import_module(module.name)
    defined = flags.FLAGS.flags_by_module_dict()
    assert not [name for name in defined if name.startswith(("trainers", "bhn_tf"))]
