"""The runs behind the tables of `trainers.reproduce`, and what each has found."""

import dataclasses
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

from absl import flags

from trainers.config import CommonConfig, UsageProblem, define_flags, read_flags
from trainers.reproduction_rows import Row, Table
from trainers.state_files import read_json

#: Flags that say where files are, which may differ and are left out of results.
PLACES = ("data_dir", "output_dir")
_DELETE = "Delete it and run the row again."
# A row's own flags win over these.
_COMPARISON = {
    "scale": "smoke",
    "train_size": 0,
    "epochs": 1,
    "units": "16",
    "filters": "8,8",
    "flow_units": "8",
    "num_samples": 4,
}
_SMOKE = {
    "active_learning": {"scale": "smoke"},
    "classification": _COMPARISON,
    "anomaly_detection": {**_COMPARISON, "ensemble_size": 2},
    "adversarial_detection": {**_COMPARISON, "ensemble_size": 2},
    "finetune": {"scale": "smoke", "flow_units": "8", "num_samples": 4},
}


@dataclasses.dataclass(frozen=True)
class Task:
    """A run of a trainer: a row with a value of the flag that is varied."""

    table: Table
    row: Row
    number: int

    @property
    def name(self) -> str:
        """The name of the run, and of its file of results without the ending."""
        return f"{self.table.name}/{self.row.name}-{self.table.unit}{self.number}"

    @property
    def flags(self) -> dict:
        """The flags of the trainer that say what is computed."""
        varied = {self.table.varied: self.number}
        return {**self.table.common, **self.row.flags, **varied}

    @property
    def arguments(self) -> list[str]:
        """The flags as they are written after a command."""
        return [f"--{name}={value}" for name, value in self.flags.items()]

    @property
    def config(self) -> CommonConfig:
        """The configuration that the trainer makes from the flags.

        Raises:
            UsageProblem: If a value makes no sense.
            absl.flags.Error: If the trainer has no such flag.
        """
        trainer = importlib.import_module(f"trainers.{self.table.trainer}")
        values = flags.FlagValues()
        define_flags(trainer.Config, values)
        left = values([self.table.trainer, *self.arguments])
        return read_flags(trainer.Config, left, values)


def scaled(table: Table, scale: str) -> Table:
    """A table as --scale has it: 'smoke', 'cpu' or 'full'."""
    if scale == "smoke":
        common = {**table.common, **_SMOKE[table.trainer]}
        return dataclasses.replace(table, num_runs=1, common=common)
    return dataclasses.replace(table, **table.full) if scale == "full" else table


def tasks_of(tables) -> Iterator[Task]:
    """The first run of all rows, then the second: unfinished tables have pairs."""
    for table in tables:
        for number in range(table.num_runs):
            # Rows of one command share its run.
            for row in {row.name: row for row in table.rows}.values():
                yield Task(table, row, number)


def found_by(task: Task, results_dir: Path) -> dict | None:
    """The results of a run, or `None`.

    Args:
        task: The run.
        results_dir: Folder of `<table>/<row>-seed<k>.json`, or another unit of the
            table.

    Raises:
        UsageProblem: If its file is damaged, or was made with other flags.
    """
    path = results_dir / f"{task.name}.json"
    if not path.exists():
        return None
    found = read_json(
        path,
        dict,
        _DELETE,
        lambda found: (
            isinstance(found.get("config", {}), dict)
            and isinstance(found.get("methods"), dict)
        ),
    )
    config = json.loads(json.dumps(dataclasses.asdict(task.config)))
    # A flag that the file lacks came later: the run was as with its default.
    made_with = config | found.get("config", {})
    different = [
        f"--{name}={made_with[name]} there, {value} now"
        for name, value in config.items()
        if name not in PLACES and made_with[name] != value
    ]
    if different:
        raise UsageProblem(
            f"{path} was made with other flags ({'; '.join(different)}). {_DELETE} Or "
            "give another --results_dir."
        )
    return found
