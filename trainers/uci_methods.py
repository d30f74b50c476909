"""What `trainers.uci` compares: networks, their candidates, and how each is fitted."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import bhn_tf
from bhn_tf import baselines, callbacks, hypernets, likelihoods
from trainers import methods
from trainers.networks import Layers, perceptron
from trainers.refit import falling_rate, start_anew
from trainers.training import epochs_of_annealing
from trainers.uci_sets import Rows

_RANDOM = {"scale": "scale", "bias": "scale_and_bias", "weights": "kernel_and_bias"}
_RANDOM_NAMES = {
    "scale": "scales",
    "bias": "scales and biases",
    "weights": "whole weights",
}
#: What tables call each method.
METHOD_NAMES = {
    **{
        f"bhn_{kind}_{family}": f"BHN {what}, {methods.HYPERNET_NAMES[family]}"
        for kind, what in _RANDOM_NAMES.items()
        for family in ("realnvp", "iaf")
    },
    "bayes_by_backprop": "Bayes by Backprop",
    "mc_dropout": "MC dropout",
    "ensemble": "deep ensemble",
}
# Each is tried with noise that the network predicts for every row, and with one noise.
_STRENGTHS = {"mc_dropout": (0.01, 0.1), "ensemble": (0.3, 1.0), "bhn": (0.3, 1.0)}
_INITIAL_NOISE = 0.5
#: Level of all intervals.
LEVEL = 0.9
#: Steps of a part of a fit; learning rate and KL weight change between parts.
_STEPS_OF_PART = 100


class Candidate(NamedTuple):
    """What is chosen on the validation rows.

    Attributes:
        heteroscedastic: Whether the network predicts the noise of every row.
        strength: The prior's standard deviation, or the rate of MC dropout.
    """

    heteroscedastic: bool
    strength: float


def candidates(method: str) -> list[Candidate]:
    """The candidates of a method, as many for each."""
    strengths = _STRENGTHS.get(method, _STRENGTHS["bhn"])
    return [Candidate(*c) for c in itertools.product((False, True), strengths)]


class Budget(NamedTuple):
    """How long fits are.

    Attributes:
        steps: Steps of the fits that are measured.
        search_steps: Steps of the fits of candidates.
        steps_of_part: Steps that are executed at once; divides both.
        batch_size: Rows of a step.
    """

    steps: int
    search_steps: int
    steps_of_part: int
    batch_size: int

    @classmethod
    def of(cls, config, num_rows: int) -> "Budget":
        """More steps and larger batches for larger sets.

        Where rows are few, candidates are trained to the end: stopped earlier, they
        would not show how far they overfit.
        """
        if config.is_smoke:
            steps = config.steps or 12
            return cls(steps, steps, _largest_divisor(steps, 4), 32)
        if num_rows < 2_000:
            steps = config.steps or 2_000
            return cls(steps, steps, _largest_divisor(steps, _STEPS_OF_PART), 64)
        steps = config.steps or 6_000
        part = _largest_divisor(steps, _STEPS_OF_PART)
        return cls(steps, max(steps // 3 // part, 1) * part, part, 256)

    def num_parts(self, is_search: bool) -> int:
        """Parts of a fit."""
        steps = self.search_steps if is_search else self.steps
        return steps // self.steps_of_part


def _largest_divisor(steps: int, maximum: int) -> int:
    return max(each for each in range(1, maximum + 1) if steps % each == 0)


class Fitter:
    """Fits one method to one set of rows after another, and compiles it once.

    A model that was compiled for a candidate is reused with the weights of a fresh one;
    see `trainers.refit.start_anew`.

    Args:
        config: The flags.
        method: A name in `METHOD_NAMES`.
        num_features: Number of inputs.
        units: Hidden units.
        budget: How long a fit is.
    """

    def __init__(self, config, method, num_features, units, budget):
        self._config, self._method, self._budget = config, method, budget
        self._num_features, self._units = num_features, units
        self._models: dict = {}

    def fit(
        self, rows: Rows, candidate: Candidate, seed: int, is_search: bool = False
    ) -> "Fitted":
        """Fits a model to rows in standard units; it lasts until the next fit.

        Raises:
            Diverged: Of `bhn_tf.callbacks`, if training diverges.
        """
        parts = self._budget.num_parts(is_search)
        keras.utils.set_random_seed(seed)
        fresh = self._compiled(candidate, len(rows.x))
        # Constants of the graph. A Bayesian model has its prior's scale in a variable.
        constants = candidate.heteroscedastic, candidate.strength, len(rows.x)
        key = constants[:1] if self._is_bayesian else constants
        model, answer = self._models.setdefault(key, (fresh, _answer(fresh)))
        start_anew(model, fresh)
        rate = falling_rate(self._config.learning_rate, parts)
        changes = [rate, callbacks.DivergenceGuard()]
        if self._is_bayesian:
            model.num_examples, model.prior_stddev = len(rows.x), candidate.strength
            span = epochs_of_annealing(parts, 4)
            changes.append(callbacks.KLAnnealing(0.0, epochs=span))
        model.fit(
            _batches(rows, self._budget.batch_size, seed),
            steps_per_epoch=self._budget.steps_of_part,
            epochs=parts,
            verbose=0,
            callbacks=changes,
        )
        return Fitted(model, answer, self._config.num_samples, seed)

    @property
    def _is_bayesian(self) -> bool:
        return self._method.startswith("b")

    def _compiled(self, candidate, num_rows) -> keras.Model:
        config = self._config
        options = {}
        if self._is_bayesian:
            options = {"train_samples": config.train_samples}
        model = self._model(candidate, num_rows)
        model.compile(
            keras.optimizers.Adam(config.learning_rate, global_clipnorm=10.0),
            # Flows are many small operations, which XLA fuses.
            jit_compile=config.jit_compile and self._method.startswith("bhn"),
            steps_per_execution=self._budget.steps_of_part,
            **options,
        )
        return model

    def _model(self, candidate, num_rows) -> keras.Model:
        noise = likelihoods.Gaussian(
            _INITIAL_NOISE,
            trainable=not candidate.heteroscedastic,
            heteroscedastic=candidate.heteroscedastic,
        )
        if self._method == "mc_dropout":
            network = self._network(candidate, _penalised(1.0, num_rows))
            return baselines.MCDropout(network, noise)
        if self._method == "ensemble":
            members = [
                self._network(candidate, _penalised(candidate.strength, num_rows))
                for _ in range(self._config.ensemble_size)
            ]
            return baselines.DeepEnsemble(members, noise)
        random, flow = "kernel_and_bias", hypernets.MeanField(0.05)
        if self._method.startswith("bhn"):
            _, kind, family = self._method.split("_")
            random = _RANDOM[kind]
            flow = methods.hypernet(self._config, family, initial_stddev=0.05)
        network = self._network(candidate, Layers([random]))
        return bhn_tf.BayesianHypernet(network, flow, noise, num_examples=num_rows)

    def _network(self, candidate, make: Layers) -> keras.Sequential:
        rate = candidate.strength if self._method == "mc_dropout" else 0.0
        outputs = 2 if candidate.heteroscedastic else 1
        shape = (self._num_features,)
        return perceptron(shape, self._units, outputs, make, rate)


def _penalised(prior_stddev: float, num_rows: int) -> Layers:
    """Layers with a Gaussian prior as penalty: training finds the posterior's mode."""
    penalty = 1.0 / (2.0 * num_rows * prior_stddev**2)
    return Layers(kernel_regularizer=keras.regularizers.L2(penalty))


def _batches(rows: Rows, batch_size: int, seed: int) -> tf.data.Dataset:
    """Batches without end, all of one size: XLA compiles for each size."""
    num_rows = len(rows.x)
    batch_size = min(batch_size, num_rows)
    num_batches = num_rows // batch_size
    x, y = tf.constant(rows.x), tf.constant(rows.y)

    def of_epoch(epoch):
        order = tf.random.experimental.stateless_shuffle(
            tf.range(num_rows), tf.stack([tf.constant(seed, tf.int64), epoch])
        )
        order = tf.reshape(order[: num_batches * batch_size], [num_batches, batch_size])
        return tf.data.Dataset.from_tensor_slices(order)

    return (
        tf.data.Dataset.range(2**40)
        .flat_map(of_epoch)
        .map(lambda order: (tf.gather(x, order), tf.gather(y, order)))
        .prefetch(8)
    )


# -- what a fitted model says ---------------------------------------------------------


class Predictive(NamedTuple):
    """A mixture of S Gaussians for each row, and its central interval of `LEVEL`.

    Attributes:
        mean, std: [S, rows].
        lower, upper: [rows].
    """

    mean: np.ndarray
    std: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Fitted(NamedTuple):
    """A fitted model, and number and seed of the draws behind all its answers."""

    model: keras.Model
    answer: tf.types.experimental.GenericFunction
    num_samples: int
    seed: int

    def predict(self, x) -> Predictive:
        """The predictive distribution of rows, in standard units."""
        draws = self.model.posterior.draw(self.num_samples, self.seed).values
        parts = list(self._of_parts(x, draws))
        whole = [np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)]
        return Predictive(*whole)

    def _of_parts(self, x, draws) -> Iterator:
        for start in range(0, len(x), 1_000):
            part = tf.constant(x[start : start + 1_000])
            yield [t.numpy().astype("float64") for t in self.answer(part, draws)]


def _answer(model):
    """Mean, standard deviation and interval bounds of rows under draws, compiled."""

    @tf.function(reduce_retracing=True, autograph=False)
    def answer(x, draws):
        raws, _ = model.answers.raws(x, draws)
        noise = model.likelihood.distribution(raws)
        std = noise.stddev() + tf.zeros_like(noise.mean())
        bounds = model.likelihood.interval(raws, LEVEL)
        return [t[..., 0] for t in (noise.mean(), std, *bounds)]

    return answer
