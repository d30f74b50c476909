"""What `trainers.reproduce` runs: a row for every command, with the paper's number."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Measure:
    """A column of a table.

    Attributes:
        path: Keys into the entry of a method in `results.json`, joined by "/".
        label: What the head calls it.
        digits: Behind the point.
        is_compared: Whether rows are compared by it, seed by seed.
        is_better_low: Whether less is better.
        factor: What values are multiplied by: 100 for per cent.
    """

    path: str
    label: str
    digits: int = 4
    is_compared: bool = True
    is_better_low: bool = False
    factor: float = 1.0


# Compared by identity: flags are no value that can be hashed.
@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One line of a table: one command, over several seeds.

    Attributes:
        name: Of its run in the folder of the table; rows of one run share it.
        label: What the table calls it.
        method: The entry of `results.json` that it shows.
        flags: Of the trainer, besides the seed and where files are.
        paper: What the paper has in its place, as text.
        minutes: Of one seed on one core, measured; `None` where it has not been.
    """

    name: str
    label: str
    method: str
    flags: dict
    paper: str = ""
    minutes: float | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows that stand beside one another, run with the same seeds.

    Attributes:
        name: Of its folder, and of its place in the page.
        title: Its heading in a new page.
        trainer: The binary, as in `python -m trainers.<trainer>`.
        rows: The rows.
        num_seeds: Seeds of each row, from 0 on.
        common: Flags of all rows.
        rival: The label of the row that the others are compared with, seed by seed.
        measures: The columns; those that no row has are left out.
    """

    name: str
    title: str
    trainer: str
    rows: tuple[Row, ...]
    num_seeds: int
    common: dict
    rival: str = ""
    measures: tuple[Measure, ...] = (
        Measure("accuracy", "accuracy"),
        Measure("nll", "NLL", is_better_low=True),
        Measure("ece", "ECE", is_better_low=True),
        Measure("kl", "KL", 0, is_compared=False),
        Measure("loss", "bound, nats a row", 4, is_better_low=True),
        Measure("seconds", "seconds", 0, is_compared=False),
    )


@dataclasses.dataclass(frozen=True)
class Task:
    """A run of a trainer: a row with a seed."""

    table: Table
    row: Row
    seed: int

    @property
    def name(self) -> str:
        """Of the run, and of its file of results without the ending."""
        return f"{self.table.name}/{self.row.name}-seed{self.seed}"

    @property
    def flags(self) -> dict:
        """The flags of the trainer that say what is computed."""
        return {**self.table.common, **self.row.flags, "seed": self.seed}


def tasks_of(tables) -> Iterator[Task]:
    """All runs, seed by seed, so that whatever is there can be compared in pairs."""
    for table in tables:
        for seed in range(table.num_seeds):
            # Rows of one command share its run.
            for row in {row.name: row for row in table.rows}.values():
                yield Task(table, row, seed)


# A network of the first layer's inputs and of all outputs: noise on the inputs that is
# learned, beside the paper's scales.
_INPUTS_TOO = {"random": "rank_one,scale", "initial_stddev": 0.5}
_TUNED_DROPOUT = {"methods": "mc_dropout", "input_dropout": 0.2}
_MNIST = {"dataset": "mnist", "anomalies": "uniform,font_letters"}


def _hypernet(num_layers: int, family: str = "realnvp", **flags) -> dict:
    if not num_layers:
        return {"methods": "bhn", "hypernet": "mean_field", **flags}
    return {
        "methods": "bhn",
        "hypernet": family,
        "num_flow_layers": num_layers,
        **flags,
    }


_MAIN_JOB = Table(
    name="main_job",
    title="The main job",
    trainer="classification",
    num_seeds=5,
    common={},
    rival="MC dropout",
    rows=(
        Row("all", "Bayesian hypernet", "bhn", {}),
        Row("all", "MC dropout", "mc_dropout", {}),
        Row("all", "deterministic", "deterministic", {}),
    ),
)

_MNIST_5000 = Table(
    name="mnist_5000",
    title="MNIST, 5,000 training digits (A)",
    trainer="classification",
    num_seeds=10,
    common={**_MNIST, "train_size": 5000, "epochs": 100},
    rival="dropout, tuned",
    rows=(
        Row(
            "bhn_inputs_l2",
            "BHN, inputs too, L = 2",
            "bhn",
            _hypernet(2, **_INPUTS_TOO),
        ),
        Row("dropout_tuned", "dropout, tuned", "mc_dropout", _TUNED_DROPOUT, "95.58"),
        Row(
            "bhn_inputs_l0",
            "BHN, inputs too, L = 0",
            "bhn",
            _hypernet(0, **_INPUTS_TOO),
        ),
    ),
)

TABLES = (_MAIN_JOB, _MNIST_5000)
