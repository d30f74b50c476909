"""How time and memory grow with D, L, batch, S and rows: curves and exponents."""

import keras
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from benchmarks import networks
from benchmarks.timing import in_turns, milliseconds
from benchmarks.training_steps import step_of
from bhn_tf import hypernets

_SIZES = (200, 800, 3200, 12_800, 26_560)
_DEPTHS = (1, 2, 4, 8, 16)
_BATCH_SIZES = (32, 128, 512, 2048)
_DRAWS = (1, 4, 16, 64, 256)
_ROWS = (250, 1000, 4000, 16_000)


def measure(repeats: int, is_smoke: bool) -> dict:
    """Returns, for each quantity, sizes, milliseconds and the fitted exponent."""
    keep = slice(0, 2 if is_smoke else None)
    curves = {}
    for name, family in (("RealNVP-8", hypernets.RealNVP), ("IAF-8", hypernets.IAF)):
        curves[f"hypernet step, {name}, against D"] = _curve(
            {size: _hypernet_step(family(), size) for size in _SIZES[keep]}, repeats
        )
        curves[f"hypernet step, {name[:-2]}, D = 1,610, against L"] = _curve(
            {depth: _hypernet_step(family(depth), 1610) for depth in _DEPTHS[keep]},
            repeats,
        )
    kind = networks.PERCEPTRON
    curves["training step, MLP, RealNVP-8, against batch size"] = _curve(
        {
            size: step_of(networks.bayesian(kind, "realnvp", True), kind, size)
            for size in _BATCH_SIZES[keep]
        },
        repeats,
    )
    model = networks.bayesian(kind, "realnvp", jit_compile=False)
    x, _ = networks.data(kind, max(_ROWS[keep]))
    curves["predict, MLP, 1,000 rows, against S"] = _curve(
        {draws: _prediction(model, x[:1000], draws) for draws in _DRAWS[keep]}, repeats
    )
    curves["predict, MLP, S = 16, against rows"] = _curve(
        {rows: _prediction(model, x[:rows], 16) for rows in _ROWS[keep]}, repeats
    )
    return curves


def _hypernet_step(hypernet, event_size: int):
    """One draw, its density, the gradient and Adam: the hypernet's share of a step."""
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


def _prediction(model, x, num_samples: int):
    return lambda: model.predict(
        x, batch_size=250, verbose=0, num_samples=num_samples, seed=0
    )


def _curve(functions: dict, repeats: int) -> dict:
    seconds = in_turns(functions, repeats)
    sizes = list(functions)
    times = [milliseconds(seconds[size]) for size in sizes]
    # Fixed costs rule where sizes are small: the exponent is that of the upper half.
    upper = slice(len(sizes) // 2 - 1, None)
    exponent = np.polyfit(np.log(sizes[upper]), np.log(times[upper]), 1)[0]
    return {"sizes": sizes, "milliseconds": times, "exponent": float(exponent)}


def draw(curves: dict, path) -> None:
    """Draws all curves on logarithmic axes, with a line of slope 1 beside each."""
    columns = 4
    num_rows = -(-len(curves) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.9 * num_rows), layout="constrained")
    axes = figure.subplots(num_rows, columns, squeeze=False).ravel()
    for axis, (name, curve) in zip(axes, curves.items(), strict=False):
        sizes, values = np.array(curve["sizes"]), np.array(curve["milliseconds"])
        title, variable = name.rsplit(", against ", 1)
        axis.loglog(sizes, values, "o-", label=f"exponent {curve['exponent']:.2f}")
        axis.loglog(
            sizes, values[-1] * sizes / sizes[-1], ":", c="grey", label="linear"
        )
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(variable)
        axis.set_ylabel("milliseconds")
        axis.legend(fontsize=8)
    for axis in axes[len(curves) :]:
        axis.set_visible(False)
    figure.savefig(path, dpi=120)
