"""How steady the KL of small networks is in training.

A flow multiplies the noise layer by layer, so the bounds of a layer's log-scale and
shift decide how far a rare draw can go. Every run is made under the bounds of version
0.1 and under today's; the KL of each step's draw is compared with the run's median.

    python -m benchmarks.stability
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags, logging

import bhn_tf
from benchmarks import machine
from bhn_tf.files import written_atomically

#: Bounds of log-scale and shift: those of version 0.1, and the defaults.
BOUNDS = {"before": {"max_log_scale": 2.0, "max_shift": None}, "now": {}}
_RATES = (1e-2, 1e-3)
_BATCH_SIZE = 32
# A spike is a draw whose KL is this many times the median of its run.
_SPIKE = 5.0


class Problem(NamedTuple):
    """Data and a network with D = 10 for it."""

    x: np.ndarray
    y: np.ndarray
    outputs: int
    likelihood: bhn_tf.likelihoods.Likelihood


def classification() -> Problem:
    """Three well separated classes.

    The gradient of the likelihood soon vanishes, and each of the 20,000 rows bears
    little of the KL.
    """
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 20_000)
    centres = np.array([[0.0, 2.0], [-2.0, -1.0], [2.0, -1.0]])
    x = centres[y] + random.normal(scale=0.5, size=(len(y), 2))
    likelihood = bhn_tf.likelihoods.Categorical(from_logits=True)
    return Problem(x.astype("float32"), y, 3, likelihood)


def regression() -> Problem:
    """A sine with little noise and few rows."""
    random = np.random.default_rng(0)
    x = random.uniform(-2.0, 2.0, size=(256, 1))
    y = np.sin(2.0 * x) + random.normal(scale=0.1, size=x.shape)
    likelihood = bhn_tf.likelihoods.Gaussian(stddev=0.1)
    return Problem(x.astype("float32"), y.astype("float32"), 1, likelihood)


#: Problem, flow, and steps that share an update, by the name of a line.
WORKS = {
    "classification, RealNVP": (classification, bhn_tf.hypernets.RealNVP, None),
    "classification, RealNVP, 4 steps an update": (
        classification,
        bhn_tf.hypernets.RealNVP,
        4,
    ),
    "classification, IAF": (classification, bhn_tf.hypernets.IAF, None),
    "regression, RealNVP": (regression, bhn_tf.hypernets.RealNVP, None),
}


def bayesian(problem: Problem, flow, bounds: dict) -> bhn_tf.BayesianHypernet:
    """A fresh model with one hidden layer and D = 10."""
    dense = bhn_tf.layers.WeightNormDense
    primary = keras.Sequential(
        [
            keras.Input(problem.x.shape[1:]),
            dense(10 - problem.outputs, activation="relu"),
            dense(problem.outputs),
        ]
    )
    hypernet = flow(**bounds)
    return bhn_tf.BayesianHypernet(primary, hypernet, problem.likelihood)


class Runs:
    """Runs of one model from several seeds and at several rates, compiled once.

    Args:
        make_model: Returns a fresh model.
        problem: What to learn.
        steps_per_update: Steps whose gradients are averaged, or `None`.
    """

    def __init__(self, make_model, problem: Problem, steps_per_update: int | None):
        self._make_model, self._problem = make_model, problem
        self._model = make_model()
        self._optimizer = keras.optimizers.Adam(
            gradient_accumulation_steps=steps_per_update
        )
        self._optimizer.build(self._model.trainable_variables)
        self._step = tf.function(self._take_step, jit_compile=True)

    def _take_step(self, x, y, seed):
        """A step as `fit` takes it; returns KL, nll and loss of its draw."""
        model = self._model
        weights = model.trainable_variables
        with tf.GradientTape() as tape:
            scales, log_prob = model.hypernet.sample_and_log_prob(1, seed)
            kl = (log_prob - model.prior.log_prob(scales))[0]
            raw = model(x, scales=scales[0], training=True)
            nll = -tf.reduce_mean(model.likelihood.log_prob(y, raw))
            loss = nll + kl / len(self._problem.x)
        self._optimizer.apply(tape.gradient(loss, weights), weights)
        return tf.stack([kl, nll, loss])

    def run(self, seed: int, rate: float, num_steps: int) -> np.ndarray:
        """Trains from the initial weights of a seed; returns the terms, [steps, 3]."""
        keras.utils.set_random_seed(seed)
        self._model.set_weights(self._make_model().get_weights())
        for variable in self._optimizer.variables:
            variable.assign(tf.zeros_like(variable))
        self._optimizer.learning_rate = rate
        x, y = self._problem.x, self._problem.y
        batches = np.random.default_rng(seed).integers(
            0, len(x), (num_steps, _BATCH_SIZE)
        )
        terms = [
            self._step(x[rows], y[rows], tf.constant([seed, index]))
            for index, rows in enumerate(batches)
        ]
        return np.stack(terms)


def statistics(terms: np.ndarray) -> dict[str, float]:
    """Numbers of the table for runs [runs, steps, 3], without their first tenth."""
    kl = terms[:, terms.shape[1] // 10 :, 0]
    ratios = kl / np.median(kl, axis=1, keepdims=True)
    last = terms[:, -terms.shape[1] // 10 :]
    return {
        "median_kl": float(np.median(kl)),
        "largest_kl": float(kl.max()),
        "largest_over_median": float(ratios.max()),
        "spikes": int((ratios > _SPIKE).sum()),
        "final_loss": float(last[..., 2].mean()),
    }


def measure(num_seeds: int, num_steps: int) -> list[dict]:
    """Makes all runs; returns one line of statistics for each work, rate and bound."""
    lines = []
    for work, (make_problem, flow, steps_per_update) in WORKS.items():
        problem = make_problem()
        for name, bounds in BOUNDS.items():
            make_model = functools.partial(bayesian, problem, flow, bounds)
            runs = Runs(make_model, problem, steps_per_update)
            for rate in _RATES:
                terms = [runs.run(seed, rate, num_steps) for seed in range(num_seeds)]
                line = {"work": work, "rate": rate, "bounds": name}
                lines.append({**line, **statistics(np.stack(terms))})
                logging.info("%s", lines[-1])
    return lines


def as_table(lines: list[dict]) -> str:
    """The lines in Markdown, with "now" below "before"."""
    rows = [
        "| work | rate | bounds | median KL | largest KL | largest / "
        f"median of its run | draws beyond {_SPIKE:g} medians | final loss |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in sorted(
        lines, key=lambda line: (list(WORKS).index(line["work"]), -line["rate"])
    ):
        rows.append(
            "| {work} | {rate:g} | {bounds} | {median_kl:.1f} | {largest_kl:.0f} | "
            "{largest_over_median:.1f} | {spikes} | {final_loss:.4f} |".format(**line)
        )
    return "\n".join(rows)


def main(arguments):
    """Runs what the flags say, prints the table and saves it."""
    if len(arguments) > 1:
        raise app.UsageError(f"Unexpected argument {arguments[1]!r}.")
    settings = {"num_seeds": flags.FLAGS.seeds, "num_steps": flags.FLAGS.steps}
    lines = measure(**settings)
    table = as_table(lines)
    print(table, flush=True)
    folder = Path(flags.FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    results = {"measured_on": machine.description(), **settings, "lines": lines}
    for name, text in (
        ("stability.json", json.dumps(results, indent=2)),
        ("stability.md", table),
    ):
        with written_atomically(folder / name) as temporary:
            temporary.write_text(text + "\n")


if __name__ == "__main__":
    flags.DEFINE_integer("seeds", 3, "Runs of each.", lower_bound=1)
    flags.DEFINE_integer("steps", 500, "Steps of a run.", lower_bound=20)
    flags.DEFINE_string("output_dir", "benchmarks/results", "Folder of results.")
    app.run(main)
