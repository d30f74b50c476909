"""Measures everything and writes the results: `python -m benchmarks.run`.

Prints the tables, writes them beside `results.json` and draws `growth.png`. Parts can
run alone; other parts that the folder holds from earlier runs are kept.
"""

import json
from pathlib import Path

from absl import app, flags

from benchmarks import (
    growth,
    machine,
    networks,
    predictions,
    processes,
    serving,
    training_steps,
)
from benchmarks.rows import Row, as_table
from bhn_tf.files import written_atomically

_PARTS = (
    "mlp_steps",
    "cnn_steps",
    "mlp_predict",
    "cnn_predict",
    "startup",
    "memory",
)
# Parts with tables of their own.
_OTHERS = ("serving", "growth")


def _define_flags():
    flags.DEFINE_list("parts", [*_PARTS, *_OTHERS], "What to measure.")
    flags.DEFINE_string("output_dir", "benchmarks/results", "Folder of results.")
    flags.DEFINE_integer("repeats", 7, "Measurements of each.", lower_bound=1)
    flags.DEFINE_enum(
        "scale", "full", ["smoke", "full"], "'smoke' only shows that all parts work."
    )


def measure(part: str, repeats: int, is_smoke: bool, rates: dict) -> list[Row]:
    """Measures one part of the table."""
    perceptron, convolutional = networks.PERCEPTRON, networks.CONVOLUTIONAL
    measurements = {
        "mlp_steps": lambda: training_steps.measure(
            perceptron, rates, repeats, calls=1 if is_smoke else 20
        ),
        "cnn_steps": lambda: training_steps.measure(
            convolutional, rates, repeats, calls=1
        ),
        "mlp_predict": lambda: predictions.measure(
            perceptron, *((200, 100, 2) if is_smoke else (10_000, 500, 100)), repeats
        ),
        "cnn_predict": lambda: predictions.measure(
            convolutional, *((20, 10, 2) if is_smoke else (200, 200, 100)), repeats
        ),
        "startup": lambda: processes.startup(repeats),
        "memory": lambda: processes.memory((1, 2) if is_smoke else (1, 100, 10_000)),
    }
    return measurements[part]()


def run(parts, output_dir: str, repeats: int, is_smoke: bool) -> dict:
    """Measures the named parts and writes all results, earlier ones included."""
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    empty = {"measured_on": {}, "parts": {}}
    results = json.loads(path.read_text()) if path.exists() else empty
    rates = machine.rates(repeats)
    for part in parts:
        print(f"Measuring {part} ...", flush=True)
        results["measured_on"][part] = {**machine.description(), "rates": rates}
        rows = []
        if part == "growth":
            results["growth"] = growth.measure(repeats, is_smoke)
            growth.draw(results["growth"], folder / "growth.png")
            _write_table(folder / "growth.md", growth.as_table(results["growth"]))
        elif part == "serving":
            rows, lines = serving.measure(repeats, calls=2 if is_smoke else 50)
            results["serving"] = lines
            _write_table(folder / "serving.md", serving.as_table(lines))
        else:
            rows = measure(part, repeats, is_smoke, rates)
        if rows:
            results["parts"][part] = [row._asdict() for row in rows]
            print(as_table(rows), flush=True)
        # Saves each part at once, in case a later one fails.
        with written_atomically(path) as temporary:
            temporary.write_text(json.dumps(results, indent=2) + "\n")
    in_order = (*_PARTS, *_OTHERS)
    rows = [Row(**row) for part in in_order for row in results["parts"].get(part, [])]
    _write_table(folder / "table.md", as_table(rows))
    return results


def _write_table(path: Path, table: str) -> None:
    print(table, flush=True)
    with written_atomically(path) as temporary:
        temporary.write_text(table + "\n")


def main(arguments):
    """Runs what the flags say."""
    if len(arguments) > 1:
        raise app.UsageError(f"Unexpected argument {arguments[1]!r}.")
    if flags.FLAGS.scale == "smoke" and not flags.FLAGS["output_dir"].present:
        raise app.UsageError(
            "--scale=smoke would replace the results of full runs: name another "
            "folder with --output_dir."
        )
    unknown = set(flags.FLAGS.parts) - {*_PARTS, *_OTHERS}
    if unknown:
        raise app.UsageError(
            f"--parts: {sorted(unknown)} are none of {(*_PARTS, *_OTHERS)}."
        )
    run(
        flags.FLAGS.parts,
        flags.FLAGS.output_dir,
        flags.FLAGS.repeats,
        flags.FLAGS.scale == "smoke",
    )


if __name__ == "__main__":
    _define_flags()
    app.run(main)
