"""What a table of results is made of: rows, measures, and the trainer behind them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Measure:
    """A column of a table.

    Attributes:
        path: Keys into the entry of a method in `results.json`, joined by "/"; `*`
            stands for any text, as in names of files.
        label: Its name in the head of the table.
        digits: Digits after the point.
        is_compared: Whether rows are compared by it, seed by seed.
        is_better_low: Whether lower is better.
        factor: Values are multiplied by it: 100 for per cent.
    """

    path: str
    label: str
    digits: int = 4
    is_compared: bool = True
    is_better_low: bool = False
    factor: float = 1.0


MEASURES = (
    Measure("accuracy", "accuracy"),
    Measure("nll", "NLL", is_better_low=True),
    Measure("ece", "ECE", is_better_low=True),
)
BOUND = (
    Measure("kl", "KL", 0, is_compared=False),
    Measure("bound", "bound, nats a row", is_better_low=True),
)
SECONDS = Measure("seconds", "seconds", 0, is_compared=False)


# Compared by identity, since the dictionary of flags cannot be hashed.
@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One line of a table: one command, over several runs.

    Attributes:
        name: Name of its run in the folder of the table; rows of one run share it.
        label: What the table calls it.
        method: The entry of `results.json` that it shows, or keys to one inside of it
            that are joined by "/".
        flags: Flags of the trainer, besides the varied one and where files are.
        paper: The paper's number, as text.
        minutes: Measured minutes of one run on one core, or `None`.
    """

    name: str
    label: str
    method: str
    flags: dict
    paper: str = ""
    minutes: float | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows that stand beside one another, each run several times in the same ways.

    Attributes:
        name: Name of its folder, and of its place in the page.
        title: Its heading in a new page.
        trainer: The binary, as in `python -m trainers.<trainer>`.
        rows: The rows.
        num_runs: Runs of each row.
        common: Flags of all rows.
        rival: The label of the row that the others are compared with, run by run.
        measures: The columns; those that no row has are left out.
        full: Values of the attributes above for `--scale=full`, by name.
        varied: The flag that is 0 in the first run of each row, 1 in the second, ...
        unit: What the page calls one run, such as "seed".
    """

    name: str
    title: str
    trainer: str
    rows: tuple[Row, ...]
    num_runs: int
    common: dict
    rival: str = ""
    measures: tuple[Measure, ...] = (
        *MEASURES,
        *BOUND,
        SECONDS,
    )
    full: dict = dataclasses.field(default_factory=dict)
    varied: str = "seed"
    unit: str = "seed"


def rows_of_one_run(methods: dict[str, str]) -> tuple[Row, ...]:
    """A row for each method of a trainer that compares them in one run."""
    return tuple(Row("all", label, method, {}) for method, label in methods.items())
