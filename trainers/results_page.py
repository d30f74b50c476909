"""The page of results: tables of Markdown, made from saved `results.json` alone."""

import fnmatch
import functools
import re
import shlex
from pathlib import Path

import numpy as np

from trainers.reproduction_rows import Measure, Row, Table
from trainers.reproduction_tasks import Task, found_by


def page_with_tables(
    text: str, tables, results_dir: Path, images: str = "images"
) -> str:
    """Returns a page with the tables of the results.

    Args:
        text: The page as it is, with a place `<!-- table: name -->` ...
            `<!-- end of table -->` for each table.
        tables: The tables; those without a place in the page are left out.
        results_dir: Folder of `<table>/<row>-seed<k>.json`, or another unit of the
            table.
        images: Where the page finds `<table>.png`, of tables that have a picture.

    Raises:
        UsageProblem: If a file of results is damaged, or was made with other flags.
    """
    for table in tables:
        has_picture = bool(values_of(table, results_dir))
        picture = f"{images}/{table.name}.png" if has_picture else None
        content = _markdown(table, results_dir, picture)
        content = f"{_begin(table)}\n{content}\n{_END}"
        text = _place(table).sub(lambda _, content=content: content, text)
    return text


def with_places(text: str, tables) -> str:
    """Returns a page with a place at its end for each table that has none in it."""
    places = [
        f"\n## {t.title}\n\n{_begin(t)}\n{_END}\n" for t in without_place(text, tables)
    ]
    return "".join([text, *places])


def without_place(text: str, tables) -> list[Table]:
    """Returns the tables that have no place in a page."""
    return [table for table in tables if not _place(table).search(text)]


#: A picture of fewer runs would say nothing.
FEWEST_RUNS = 5
_END = "<!-- end of table -->"


def _begin(table: Table) -> str:
    return f"<!-- table: {table.name} -->"


def _place(table: Table) -> re.Pattern:
    return re.compile(f"{re.escape(_begin(table))}.*?{re.escape(_END)}", re.DOTALL)


def results_of(table: Table, row: Row, results_dir: Path) -> dict[int, dict]:
    """The results of a row's method, by the number of the run."""
    found = {
        number: found_by(Task(table, row, number), results_dir)
        for number in range(table.num_runs)
    }
    return {
        number: functools.reduce(
            dict.__getitem__, row.method.split("/"), results["methods"]
        )
        for number, results in found.items()
        if results is not None
    }


def values_of(table: Table, results_dir: Path) -> dict:
    """The values in the picture of a table: measures of test rows, of enough runs.

    Returns:
        `{label of the measure: {label of the row: {number: value}}}`, without measures
        that less than two rows have.
    """
    found = {row.label: results_of(table, row, results_dir) for row in table.rows}
    values = {
        measure.label: {
            label: {number: _value(measure, e) for number, e in by_number.items()}
            for label, by_number in found.items()
            if len(by_number) >= FEWEST_RUNS
        }
        for measure in table.measures
        if measure.is_compared and "/" not in measure.path
    }
    return {
        label: known
        for label, by_row in values.items()
        for known in [{r: v for r, v in by_row.items() if None not in v.values()}]
        if len(known) > 1
    }


def _markdown(table: Table, results_dir: Path, picture: str | None) -> str:
    found = {row: results_of(table, row, results_dir) for row in table.rows}
    entries = [entry for by_number in found.values() for entry in by_number.values()]
    shown = [
        measure
        for measure in table.measures
        if any(_value(measure, entry) is not None for entry in entries)
    ] or [table.measures[0]]
    has_paper = any(row.paper for row in table.rows)
    paper = ["paper"] if has_paper else []
    head = ["method", *paper, *(measure.label for measure in shown), f"{table.unit}s"]
    lines = [head, ["---"] * len(head)]
    for row, by_number in found.items():
        cells = [row.label, *([row.paper] if has_paper else [])]
        if by_number:
            cells += [_mean_cell(measure, by_number.values()) for measure in shown]
        else:
            needed = (
                ""
                if row.minutes is None
                else f", {row.minutes:.0f} minutes a {table.unit}"
            )
            cells += [f"not run{needed}", *[""] * (len(shown) - 1)]
        lines.append([*cells, str(len(by_number))])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    pairs = "".join(f"\n{sentence}" for sentence in _pairs(table, found))
    commands = "\n".join(["```bash", *_commands(table), "```"])
    shown_too = (
        f"\n\n![Every {table.unit} of each method]({picture})" if picture else ""
    )
    return f"\n{text}\n{pairs}{shown_too}\n\n{commands}\n"


def _value(measure: Measure, entry: dict) -> float | None:
    """The value of a measure in an entry, or `None`."""
    for pattern in measure.path.split("/"):
        keys = fnmatch.filter(entry, pattern) if isinstance(entry, dict) else []
        if len(keys) != 1 or entry[keys[0]] is None:
            return None
        entry = entry[keys[0]]
    return measure.factor * entry


def _mean_cell(measure: Measure, entries) -> str:
    """Mean and deviation over the runs; how many have a value, if not all do."""
    values = [v for v in (_value(measure, entry) for entry in entries) if v is not None]
    if not values:
        return ""
    cell = f"{np.mean(values):.{measure.digits}f}"
    if len(values) > 1 and measure.is_compared:
        cell += f" ± {np.std(values, ddof=1):.{measure.digits}f}"
    if len(values) < len(entries):
        cell += f" ({len(values)} of {len(entries)})"
    return cell


def _pairs(table: Table, found: dict) -> list[str]:
    """A sentence for each row: in how many runs it is better than the rival."""
    rival = next((row for row in found if row.label == table.rival), None)
    sentences = []
    for row, entries in found.items():
        numbers = sorted(set(entries) & set(found.get(rival, ())))
        counts = [
            f"{measure.label} in {won} of {len(pairs)}"
            for measure in table.measures
            if measure.is_compared
            for pairs in [_paired(measure, entries, found.get(rival, {}), numbers)]
            for won in [sum(ours > theirs for ours, theirs in pairs)]
            if pairs
        ]
        if row is not rival and counts:
            sentences.append(
                f"- {row.label}, {table.unit} by {table.unit} better than "
                f"{rival.label}: "
                f"{', '.join(counts)}."
            )
    return sentences


def _paired(measure: Measure, ours: dict, theirs: dict, numbers) -> list[tuple]:
    """Pairs of values in which more is better, of the runs that have both."""
    sign = -1 if measure.is_better_low else 1
    pairs = [(_value(measure, ours[n]), _value(measure, theirs[n])) for n in numbers]
    return [(sign * a, sign * b) for a, b in pairs if a is not None and b is not None]


def _commands(table: Table) -> list[str]:
    commands = []
    for row in table.rows:
        flags = [
            argument
            for argument in Task(table, row, 0).arguments
            if not argument.startswith(f"--{table.varied}=")
        ]
        command = ["python", "-m", f"trainers.{table.trainer}", *flags]
        commands.append(f"{shlex.join(command)} --{table.varied}=k")
    return list(dict.fromkeys(commands))
