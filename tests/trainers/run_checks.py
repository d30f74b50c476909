"""Checks of what every trainer promises about its runs."""

import dataclasses
import json
import shutil
from typing import Any, NamedTuple

import pytest

from trainers.config import UsageProblem

ALWAYS = {"config.json", "metrics.jsonl", "results.json", "checkpoints"}


class Finished(NamedTuple):
    """A run, its folder and what it returned."""

    trainer: Any
    config: Any
    folder: Any
    results: dict


def finish(trainer, tmp_path_factory, **flags) -> Finished:
    """Runs a trainer, small, in a folder of its own."""
    folder = tmp_path_factory.mktemp(trainer.__name__.rpartition(".")[2]) / "run"
    config = trainer.Config(output_dir=str(folder), smoke=True, **flags)
    return Finished(trainer, config, folder, trainer.run(config))


def check_folder(run: Finished, files, capsys, is_exported=False) -> None:
    """All files are there, and the same command again changes none of them."""
    names = {path.name for path in run.folder.iterdir()}
    assert names >= ALWAYS | set(files)
    assert (run.folder / "saved_model/1/saved_model.pb").exists() == is_exported
    assert json.loads((run.folder / "results.json").read_text()) == run.results
    for line in (run.folder / "metrics.jsonl").read_text().splitlines():
        assert {"method", "epoch"} <= set(json.loads(line))
    # No temporary files are left.
    assert not [p for p in run.folder.rglob(".*") if p.name.count(".") > 2]
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    assert run.trainer.run(run.config) == run.results
    assert "finished" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in run.folder.rglob("*")} == before


def repeat_without_results(run: Finished, folder, capsys) -> dict:
    """The results that a copy of a run finds again, killed before writing them."""
    shutil.copytree(run.folder, folder)
    (folder / "results.json").unlink()
    capsys.readouterr()
    again = run.trainer.run(dataclasses.replace(run.config, output_dir=str(folder)))
    printed = capsys.readouterr().out
    assert "Training" not in printed and "Hamiltonian" not in printed
    return again


def check_refused(trainer, message: str, folder, flags: dict) -> None:
    """Senseless flags end a run that names them and writes nothing."""
    with pytest.raises(UsageProblem, match=message):
        trainer.run(trainer.Config(output_dir=str(folder), **flags))
    assert not folder.exists()
