"""A row of the table: a measurement, its bound and its floor."""

from typing import NamedTuple

import numpy as np

from benchmarks import timing


class Row(NamedTuple):
    """One line of the results.

    Attributes:
        work: What is measured.
        against: What it is compared with; empty for an absolute measurement.
        measured: The ratio, or the number in `unit`.
        bound: What it should stay below.
        floor: What no implementation could undercut, where that is known.
        unit: "x" for a ratio.
        spread: Half the distance between the quartiles of the repeats; `None` for a
            single measurement.
        detail: Milliseconds and circumstances, for the JSON file.
    """

    work: str
    against: str
    measured: float
    bound: float
    floor: float | None = None
    unit: str = "x"
    spread: float | None = None
    # All rows without a detail share this dictionary: do not add to it.
    detail: dict = {}  # noqa: RUF012

    @property
    def is_met(self) -> bool:
        """Whether the measurement is within its bound."""
        return self.measured <= self.bound


def of_seconds(
    work: str, against: str, bound: float, floor: float | None, seconds, names
) -> Row:
    """A row from times taken in turns; `names` are the two functions to compare."""
    name, other = names
    low, high = np.percentile(timing.ratios(seconds, name, other), [25, 75])
    detail = {key: timing.milliseconds(seconds[key]) for key in names}
    return Row(
        work,
        against,
        timing.ratio(seconds, name, other),
        bound,
        floor,
        spread=float((high - low) / 2),
        detail={"milliseconds": detail, "repeats": len(seconds[name])},
    )


def as_table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| work | measured against | measured | at most | floor | met |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        floor = "" if row.floor is None else f"{row.floor:.2f}"
        unit = " ×" if row.unit == "x" else f" {row.unit}"
        spread = "" if row.spread is None else f" ± {row.spread:.2f}"
        met = "yes" if row.is_met else "no"
        lines.append(
            f"| {row.work} | {row.against} | {row.measured:.2f}{spread}"
            f"{unit} | {row.bound:g}{unit} | {floor} | {met} |"
        )
    return "\n".join(lines)
