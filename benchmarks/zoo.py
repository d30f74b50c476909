"""Converts networks that people bring, and uses them: `python -m benchmarks.zoo`.

Each network of `zoo_networks` is converted, compared with the original at the centre,
trained for a step, asked for its uncertainty, saved, loaded in another process and
exported; file and export have to give the answers from before. Measurements go to
`results/zoo.json` and `results/zoo.md` as soon as they are made, and rows of other
networks stay there.

    python -m benchmarks.zoo
    python -m benchmarks.zoo --networks=MobileNetV2@96,ResNet50 --batch_size=32
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import bhn_tf
from benchmarks import machine, timing, zoo_networks
from bhn_tf.files import written_atomically
from bhn_tf.tables import text_table

#: How much conversion may change outputs, relative to the largest raw output.
LARGEST_ERROR = 1e-5
_SETTINGS = {"num_samples": 2, "seed": 1}


def _define_flags():
    flags.DEFINE_list("networks", list(zoo_networks.NETWORKS), "Networks to visit.")
    flags.DEFINE_string("output_dir", "benchmarks/results", "Folder of results.")
    flags.DEFINE_integer("repeats", 3, "Measurements of each step.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 8, "Rows of a step.", lower_bound=1)


class Visit(NamedTuple):
    """What was found for one network.

    Attributes:
        network: Its name.
        num_layers: Layers in the report.
        num_weights: Weights of the original.
        num_random: D.
        hypernet: The class that was chosen.
        hypernet_weights: Its weights.
        convert_seconds: Seconds of `from_keras`.
        error: Largest difference of raw outputs at the centre, relative to the
            largest raw output.
        batch_size: Rows of a step.
        step_ratio: Time of a training step relative to the original's, or `None` if
            not measured.
    """

    network: str
    num_layers: int
    num_weights: int
    num_random: int
    hypernet: str
    hypernet_weights: int
    convert_seconds: float
    error: float
    batch_size: int
    step_ratio: float | None


def visit(name: str, folder: Path, batch_size: int, repeats: int) -> Visit:
    """Converts a network, uses it, and leaves a file and an export of it.

    Args:
        name: One of `zoo_networks.NETWORKS`.
        folder: Where `NAME.keras`, `NAME.npz` (inputs and answers) and the export
            `NAME/1` go, for `reloaded`.
        batch_size: Rows of a step.
        repeats: Measurements of the step; 0 for none.

    Raises:
        AssertionError: If the network fails a check that all have to pass.
    """
    network = zoo_networks.make(name)
    x, y = zoo_networks.data(network, batch_size)
    start = time.perf_counter()
    model = bhn_tf.from_keras(network, num_examples=batch_size)
    seconds = time.perf_counter() - start
    assert model.num_random == model.conversion_report.num_random
    raw = keras.ops.convert_to_numpy(network(x))
    found = keras.ops.convert_to_numpy(model(x, scales=model.hypernet.center()))
    error = float(np.abs(found - raw).max() / np.abs(raw).max())
    assert error <= LARGEST_ERROR, f"{name} differs at the centre by {error:.1e}"

    model.compile(keras.optimizers.Adam(1e-4), jit_compile=False)
    loss = model.fit(x, y, batch_size, verbose=0).history["loss"]
    assert np.isfinite(loss).all(), f"{name}: the loss of a step is {loss}"
    rows = _first_rows(x, 2)
    answers = model.predict_uncertainty(rows, verbose=0, **_SETTINGS)
    assert all(np.isfinite(values).all() for values in answers.values()), name
    model.save(folder / f"{name}.keras")
    inputs = {f"x_{k}": array for k, array in enumerate(keras.tree.flatten(rows))}
    np.savez(folder / f"{name}.npz", **inputs, **answers)
    path = model.export(folder / name, ensemble=True, **_SETTINGS)
    _check_export(name, path, rows, answers)
    ratio = None if not repeats else step_ratio(network, model, x, y, repeats)
    return Visit(
        name,
        len(model.conversion_report),
        network.count_params(),
        model.num_random,
        type(model.hypernet).__name__,
        model.hypernet.count_params(),
        seconds,
        error,
        batch_size,
        ratio,
    )


def _first_rows(x, num_rows):
    return keras.tree.map_structure(lambda array: array[:num_rows], x)


def _check_export(name, path, rows, answers):
    served = tf.saved_model.load(path).signatures["serving_default"]
    specs = served.structured_input_signature[1]
    arrays = keras.tree.flatten(rows)
    if isinstance(rows, dict):
        given = {key: tf.constant(rows[key], specs[key].dtype) for key in specs}
    else:
        # The names are in the order of the network's inputs.
        given = {
            key: tf.constant(array, specs[key].dtype)
            for key, array in zip(specs, arrays, strict=True)
        }
    np.testing.assert_allclose(
        served(**given)["mean"], answers["mean"], rtol=1e-3, atol=1e-5, err_msg=name
    )


def step_ratio(network, model, x, y, repeats: int) -> float:
    """The median ratio of a step's time to the original's, taken in turns."""
    is_logits = model.likelihood.from_logits
    network.compile(
        keras.optimizers.Adam(1e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=is_logits),
        jit_compile=False,
    )
    steps = {
        "original": lambda: network.train_on_batch(x, y),
        "converted": lambda: model.train_on_batch(x, y),
    }
    return timing.ratio(timing.in_turns(steps, repeats), "converted", "original")


_LOAD = """
import pathlib, sys
import keras, numpy as np
import bhn_tf

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.keras")):
    if path.stem.startswith("hub_"):
        import keras_hub
    saved = dict(np.load(path.with_suffix(".npz")))
    model = keras.saving.load_model(path)
    primary = model.primary
    is_sequential = isinstance(primary, keras.Sequential)
    structure = primary.inputs[0] if is_sequential else primary.input
    flat = [saved.pop(f"x_{k}") for k in range(len(primary.inputs))]
    x = keras.tree.pack_sequence_as(structure, flat)
    found = model.predict_uncertainty(x, num_samples=2, seed=1, verbose=0)
    for name, values in saved.items():
        np.testing.assert_allclose(
            found[name], values, rtol=1e-4, atol=1e-5, err_msg=f"{path.stem} {name}"
        )
    print(path.stem)
"""


def reloaded(folder: Path) -> list[str]:
    """Loads the files of a folder in another process, which compares the answers.

    Returns:
        Names of the networks that answered as they did before.

    Raises:
        AssertionError: If one of them did not; holds what the process wrote.
    """
    command = [sys.executable, "-c", _LOAD, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout.split()


def as_table(visits: list[Visit]) -> str:
    """The table of the results page, a row for each network."""
    header = (
        "| network | layers | weights | D | hypernet | its weights | share "
        "| s to convert | error at the centre | rows | step / original's |"
    )
    lines = [header, "|" + "---|" * 11]
    for each in visits:
        share = each.hypernet_weights / each.num_weights
        ratio = "-" if each.step_ratio is None else f"{each.step_ratio:.2f}"
        lines.append(
            f"| {each.network} | {each.num_layers} | {each.num_weights:,} "
            f"| {each.num_random:,} | {each.hypernet} | {each.hypernet_weights:,} "
            f"| {share:.1%} | {each.convert_seconds:.1f} | {each.error:.0e} "
            f"| {each.batch_size} | {ratio} |"
        )
    return "\n".join(lines)


def run(names, output_dir: str, batch_size: int, repeats: int) -> list[Visit]:
    """Visits the named networks and writes what was found, network by network."""
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    visits = _kept(folder)
    for name in names:
        if not zoo_networks.is_there(name):
            print(f"{name}: needs {zoo_networks.NETWORKS[name].requires}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as files:
            visits[name] = visit(name, Path(files), batch_size, repeats)
            assert reloaded(Path(files)) == [name]
        keras.backend.clear_session()
        print(text_table([Visit._fields, tuple(map(str, visits[name]))]), flush=True)
        _write(folder, visits)
    print(as_table(_in_order(visits)))
    return _in_order(visits)


def _kept(folder: Path) -> dict[str, Visit]:
    """The results of earlier runs, by network."""
    path = folder / "zoo.json"
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["networks"]
    return {row["network"]: Visit(**row) for row in rows}


def _in_order(visits: dict[str, Visit]) -> list[Visit]:
    return [visits[name] for name in zoo_networks.NETWORKS if name in visits]


def _write(folder: Path, visits: dict[str, Visit]) -> None:
    found = _in_order(visits)
    results = {
        "measured_on": machine.description(),
        "networks": [each._asdict() for each in found],
    }
    for path, text in (
        (folder / "zoo.json", json.dumps(results, indent=2)),
        (folder / "zoo.md", as_table(found)),
    ):
        with written_atomically(path) as temporary:
            temporary.write_text(text + "\n")


def main(arguments):
    """Runs what the flags say."""
    if len(arguments) > 1:
        raise app.UsageError(f"Unexpected argument {arguments[1]!r}.")
    unknown = set(flags.FLAGS.networks) - set(zoo_networks.NETWORKS)
    if unknown:
        raise app.UsageError(
            f"--networks: {sorted(unknown)} are none of {list(zoo_networks.NETWORKS)}."
        )
    given = flags.FLAGS
    run(given.networks, given.output_dir, given.batch_size, given.repeats)


if __name__ == "__main__":
    _define_flags()
    app.run(main)
