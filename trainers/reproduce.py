r"""Runs the paper's tables, row by row, and writes the page of results.

    python -m trainers.reproduce --scale=smoke
    python -m trainers.reproduce --scale=cpu --data_dir=... \
        --results_dir=docs/results --page=RESULTS.md
    python -m trainers.reproduce --notrain --results_dir=docs/results --page=RESULTS.md

Every row is a command of its own, printed before it starts; one runs at a time. Its
results are saved at once, so that a killed run goes on with the next row. Each --scale
has a folder of its own, and results that were made with other flags are refused.
`--notrain` trains nothing and writes the page anew from the results alone.
"""

import dataclasses
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

from bhn_tf import plots
from bhn_tf.files import FolderInUse, locked, write_text
from trainers.config import (
    CheckedConfig,
    UsageProblem,
    at_least,
    flag,
    local,
    one_of,
    run_binary,
)
from trainers.reproduction_rows import Table
from trainers.reproduction_tables import TABLES
from trainers.reproduction_tasks import PLACES, Task, found_by, scaled, tasks_of
from trainers.results_page import (
    page_with_tables,
    values_of,
    with_places,
    without_place,
)
from trainers.results_pictures import paired_boxes
from trainers.state_files import read_json, write_json


@dataclasses.dataclass(frozen=True)
class Config(CheckedConfig):
    """Configuration of `trainers.reproduce`."""

    # This is no flag: rows that have results are not run again.
    resume: ClassVar[bool] = True

    scale: str = flag(
        "cpu",
        "'smoke' shows in minutes that all parts work; 'cpu' is the budget of "
        "RESULTS.md; 'full' has, where that has fewer, all rows of CIFAR-10 in 100 "
        "epochs and three seeds.",
        **one_of("smoke", "cpu", "full"),
    )
    tables: tuple = flag(
        (), "Names of the tables to run; empty for all. See reproduction_tables.py."
    )
    data_dir: str = flag("", "Folder with prepared data sets; empty for TFDS's own.")
    output_dir: str = flag(
        "", "Folder of the rows' own runs; empty for runs/reproduce/<scale>.", **local()
    )
    results_dir: str = flag(
        "", "Folder of what they found; empty for one in the output.", **local()
    )
    page: str = flag(
        "", "Page with places for tables, to be filled; empty for one in the output."
    )
    train: bool = flag(True, "Run what has no results yet.")
    max_minutes: float = flag(
        float(10**6), "No row is begun after so many minutes.", **at_least(0)
    )


def run(config: Config) -> dict:
    """Runs all rows that have no results, and writes the page.

    Args:
        config: The flags.

    Returns:
        "done" and "failed": names of runs.

    Raises:
        UsageProblem: If a table is not known, a folder or page cannot be used, or
            results were made with other flags.
    """
    tables = _tables(config)
    output = Path(config.output_dir or Path("runs/reproduce") / config.scale)
    results_dir = Path(config.results_dir or output / "results")
    page = Path(config.page or output / "RESULTS.md")
    for task in tasks_of(tables):
        # Refuses results of other flags before anything runs, such as another scale's.
        found_by(task, results_dir)
    _require_places(config, tables)
    try:
        for folder in (output, results_dir):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(output):
            # Refuses a page that cannot be written before the hours of a run.
            _write_page(config, page, tables, results_dir)
            found = _run_all(config, tables, output, results_dir, page)
    except FolderInUse as error:
        raise UsageProblem(
            f"--output_dir={output}: another run works in it."
        ) from error
    except OSError as error:
        raise UsageProblem(f"A folder cannot be written to: {error}.") from error
    print(f"The tables are in {page}, from the results in {results_dir}/.")
    if found["failed"]:
        raise UsageProblem(
            f"No results of {', '.join(found['failed'])}: what went wrong is above; "
            "the same command tries them again."
        )
    return found


def _tables(config: Config) -> list[Table]:
    names = [table.name for table in TABLES]
    unknown = sorted(set(config.tables) - set(names))
    if unknown:
        raise UsageProblem(
            f"--tables={','.join(config.tables)}: there is no {', '.join(unknown)}. "
            f"There are {', '.join(names)}."
        )
    return [
        scaled(table, config.scale)
        for table in TABLES
        if not config.tables or table.name in config.tables
    ]


def _require_places(config: Config, tables) -> None:
    """Refuses a page of one's own in which the tables have no place."""
    page = Path(config.page)
    if not config.page or not page.exists():
        return
    missing = [table.name for table in without_place(_text_of(page), tables)]
    if len(missing) == len(tables):
        raise UsageProblem(
            f"--page={page} has no place for {', '.join(missing)}: put the lines "
            "`<!-- table: NAME -->` and `<!-- end of table -->` where a table is to "
            "stand."
        )
    if missing:
        print(f"{page} has no place for {', '.join(missing)}.")


# -- runs --------------------------------------------------------------------------


def _run_all(config, tables, output: Path, results_dir: Path, page: Path) -> dict:
    begun = time.monotonic()
    found = {"done": [], "failed": []}
    for task in tasks_of(tables):
        path = results_dir / f"{task.name}.json"
        if not path.exists() and config.train:
            if time.monotonic() - begun > 60 * config.max_minutes:
                continue
            _run_one(config, task, output / task.name, path)
            _write_page(config, page, tables, results_dir)
        if path.exists():
            found["done"].append(task.name)
        elif config.train:
            found["failed"].append(task.name)
    return found


def _run_one(config: Config, task: Task, folder: Path, path: Path) -> None:
    """Runs a trainer in a process of its own, and keeps what it found."""
    trainer = f"trainers.{task.table.trainer}"
    command = [sys.executable, "-m", trainer, *task.arguments]
    if config.data_dir:
        command.append(f"--data_dir={config.data_dir}")
    command.append(f"--output_dir={folder}")
    print(f"\n$ {shlex.join(['python', *command[1:]])}", flush=True)
    done = subprocess.run(command, check=False)
    results = folder / "results.json"
    if done.returncode or not results.exists():
        print(f"{task.name} ended with status {done.returncode}.", flush=True)
        return
    found = read_json(results, dict, "Delete it and run the row again.")
    for name in PLACES:
        found["config"].pop(name, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found)


def _write_page(config: Config, page: Path, tables, results_dir: Path) -> None:
    is_there = page.exists()
    text = _text_of(page) if is_there else "# Results\n"
    if not (config.page and is_there):
        text = with_places(text, tables)
    images = results_dir.parent / "images"
    for table in tables:
        values = values_of(table, results_dir)
        if values:
            images.mkdir(parents=True, exist_ok=True)
            plots.save(paired_boxes(values), images / f"{table.name}.png")
    relative = Path(os.path.relpath(images, page.parent)).as_posix()
    write_text(page, page_with_tables(text, tables, results_dir, relative))


def _text_of(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"--page={page} cannot be read: {error}.") from error


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
