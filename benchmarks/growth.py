"""How time and memory grow with D, L, batch, S and rows: curves and exponents."""

import functools

import keras
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from benchmarks import networks, processes
from benchmarks.timing import in_turns, milliseconds
from benchmarks.training_steps import step_of
from bhn_tf import hypernets

_SIZES = (200, 800, 3200, 12_800, 26_560)
_DEPTHS = (1, 2, 4, 8, 16)
_BATCH_SIZES = (32, 128, 512, 2048)
_DRAWS = (1, 4, 16, 64, 256)
_ROWS = (250, 1000, 4000, 16_000)


def hypernet_step(family: str, num_layers: int, event_size: int):
    """One draw, its density, the gradient and Adam: the hypernet's share of a step."""
    hypernet = {"RealNVP": hypernets.RealNVP, "IAF": hypernets.IAF}[family](num_layers)
    hypernet.build((None, event_size))
    optimizer = keras.optimizers.Adam(1e-3)
    weights = hypernet.trainable_variables
    optimizer.build(weights)

    @tf.function
    def step(seed):
        with tf.GradientTape() as tape:
            scales, log_prob = hypernet.sample_and_log_prob(1, seed)
            loss = tf.reduce_sum(log_prob) + 0.5 * tf.reduce_sum(scales**2)
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    return lambda: float(step(tf.constant([0, 1])))


def training_step(batch_size: int):
    """A step of the perceptron with RealNVP."""
    kind = networks.PERCEPTRON
    return step_of(networks.bayesian(kind, "realnvp", True), kind, batch_size)


def prediction(num_rows: int, num_samples: int):
    """A prediction by the perceptron, in batches of 250 rows."""
    x, _ = networks.data(networks.PERCEPTRON, num_rows)
    return lambda: _predictor().predict(
        x, batch_size=250, verbose=0, num_samples=num_samples, seed=0
    )


@functools.cache
def _predictor():
    return networks.bayesian(networks.PERCEPTRON, "realnvp", jit_compile=False)


def _works(is_smoke: bool) -> dict:
    """A function and its arguments for every size, by the title of its curves."""
    keep = slice(0, 2 if is_smoke else None)
    works = {}
    for family in ("RealNVP", "IAF"):
        works[f"hypernet step, {family}-8, against D"] = (
            hypernet_step,
            {size: (family, 8, size) for size in _SIZES[keep]},
        )
        works[f"hypernet step, {family}, D = 1,610, against L"] = (
            hypernet_step,
            {depth: (family, depth, 1610) for depth in _DEPTHS[keep]},
        )
    works["training step, MLP, RealNVP-8, against batch size"] = (
        training_step,
        {size: (size,) for size in _BATCH_SIZES[keep]},
    )
    works["predict, MLP, 1,000 rows, against S"] = (
        prediction,
        {draws: (1000, draws) for draws in _DRAWS[keep]},
    )
    works["predict, MLP, S = 16, against rows"] = (
        prediction,
        {rows: (rows, 16) for rows in _ROWS[keep]},
    )
    return works


def measure(repeats: int, is_smoke: bool) -> dict:
    """Returns the curves of each quantity, by title.

    An entry holds the sizes and, for time and for memory, values and fitted exponent.
    """
    curves = {}
    for title, (work, arguments) in _works(is_smoke).items():
        print(f"  {title}", flush=True)
        functions = {size: work(*given) for size, given in arguments.items()}
        seconds = in_turns(functions, repeats)
        sizes = list(functions)
        times = [milliseconds(seconds[size]) for size in sizes]
        memory = [_added_memory(work, given) for given in arguments.values()]
        curves[title] = {
            "sizes": sizes,
            "milliseconds": _fitted(sizes, times),
            "megabytes": _fitted(sizes, memory),
        }
    return curves


def _added_memory(work, arguments) -> float:
    """Peak memory that building and two calls add in a process of their own, in MB.

    It includes weights, moments, data and answers.
    """
    return processes.number_from(
        "from benchmarks import growth, processes\n"
        "before = processes.peak_memory()\n"
        f"work = growth.{work.__name__}(*{arguments!r})\n"
        "work(), work()\n"
        "print(processes.peak_memory() - before)\n"
    )


def _fitted(sizes, values) -> dict:
    # Fixed costs rule small sizes, so the exponent is fitted to the larger half.
    upper = slice(len(sizes) // 2, None)
    exponent = np.polyfit(np.log(sizes[upper]), np.log(values[upper]), 1)[0]
    return {"values": list(values), "exponent": float(exponent)}


def draw(curves: dict, path) -> None:
    """Draws time and, below it, memory on logarithmic axes, with a line of slope 1."""
    num_columns = 4
    num_rows = -(-len(curves) // num_columns)
    figure = Figure(figsize=(3.0 * num_columns, 5.4 * num_rows), layout="constrained")
    axes = figure.subplots(2 * num_rows, num_columns).ravel()
    halves = axes[: len(axes) // 2], axes[len(axes) // 2 :]
    for half, quantity in zip(halves, ("milliseconds", "megabytes"), strict=True):
        for axis, (title, curve) in zip(half, curves.items(), strict=False):
            _draw_curve(axis, title, curve["sizes"], quantity, curve[quantity])
        for axis in half[len(curves) :]:
            axis.set_visible(False)
    figure.savefig(path, dpi=120)


def _draw_curve(axis, title: str, sizes, quantity: str, fitted: dict) -> None:
    sizes, values = np.array(sizes), fitted["values"]
    axis.loglog(sizes, values, "o-", label=f"exponent {fitted['exponent']:.2f}")
    linear = values[-1] * sizes / sizes[-1]
    axis.loglog(sizes, linear, ":", c="grey", label="linear")
    work, variable = title.rsplit(", against ", 1)
    axis.set_title(work, fontsize=9)
    axis.set_xlabel(variable)
    axis.set_ylabel(quantity)
    axis.legend(fontsize=8)


def as_table(curves: dict) -> str:
    """The exponents as a Markdown table."""
    lines = ["| work | against | time | memory |", "|---|---|---|---|"]
    for title, curve in curves.items():
        work, variable = title.rsplit(", against ", 1)
        exponents = [
            f"{curve[quantity]['exponent']:.2f}"
            for quantity in ("milliseconds", "megabytes")
        ]
        lines.append(f"| {work} | {variable} | {' | '.join(exponents)} |")
    return "\n".join(lines)
