"""One small Bayesian network, fitted to one set of rows after another."""

import math
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bhn_tf import callbacks
from bhn_tf.data_feeds.epochs import batches_of_epochs
from trainers.training import epochs_of_annealing

#: Parts of a fit, between which the learning rate and the weight of the KL change.
_PARTS = 20

#: What to do if a fit diverges; there is no flag to lower its learning rate.
MEND = "the rows before it are kept; give another --seed and another --output_dir."


def start_anew(model: keras.Model, fresh: keras.Model) -> None:
    """Gives a compiled model the weights and the optimizer's state of a fresh one.

    Compiling the fresh one would take most of the time of a small fit.
    """
    for part, start in ((model, fresh), (model.optimizer, fresh.optimizer)):
        for variable, value in zip(part.variables, start.variables, strict=True):
            variable.assign(value)


def falling_rate(first_rate: float, parts: int) -> keras.callbacks.Callback:
    """Lets the learning rate fall to zero by a cosine over the parts of a fit."""

    def rate(part):
        return first_rate * (1.0 + math.cos(math.pi * part / parts)) / 2.0

    return keras.callbacks.LearningRateScheduler(rate)


class Refitter:
    """Fits a network to one set of rows after another, and compiles it once.

    Every fit gives the model that was compiled first the weights of a fresh one; see
    `start_anew`.

    Args:
        make_model: Returns a built `BayesianHypernet`, not compiled.
        steps: Steps of each fit; above 20, a multiple of 20.
        batch_size: Rows of a step.
        learning_rate: Adam's first learning rate; it falls to zero over the fit.

    Raises:
        ValueError: If `steps` cannot be divided so.
    """

    def __init__(
        self,
        make_model: Callable[[], keras.Model],
        steps: int,
        batch_size: int,
        learning_rate: float,
    ):
        if steps > _PARTS and steps % _PARTS:
            raise ValueError(
                f"Expected `steps` above {_PARTS} to be a multiple of it, the number "
                f"of parts of a fit, got {steps}."
            )
        self._make_model = make_model
        self._parts = min(_PARTS, steps)
        self._steps_of_part = steps // self._parts
        self._batch_size, self._learning_rate = batch_size, learning_rate
        self._model: keras.Model | None = None
        self._log_probs: Callable | None = None

    def fit(self, x, y, seed: int) -> keras.Model:
        """Returns a model that is fitted to these rows; it lasts until the next fit.

        Args:
            x, y: Arrays of rows.
            seed: Seed of first weights, noise and the order of the rows.

        Raises:
            Diverged: Of `bhn_tf.callbacks`, if training diverges.
        """
        keras.utils.set_random_seed(seed)
        fresh = self._compiled()
        model = self._model = self._model or fresh
        start_anew(model, fresh)
        model.num_examples = len(x)
        model.fit(
            batches_of_epochs(
                (tf.constant(x), tf.constant(y)), self._batch_size, seed, 0, 2**40
            ),
            steps_per_epoch=self._steps_of_part,
            epochs=self._parts,
            verbose=0,
            callbacks=[
                falling_rate(self._learning_rate, self._parts),
                callbacks.DivergenceGuard(),
                callbacks.KLAnnealing(0.0, epochs=epochs_of_annealing(self._parts, 4)),
            ],
        )
        return model

    def log_density(self, x, y, num_samples: int, seed: int) -> np.ndarray:
        """The log of each row's mean density over draws, [rows]."""
        model = self._model
        if self._log_probs is None:
            self._log_probs = tf.function(
                model.answers.log_probs, reduce_retracing=True
            )
        values = model.posterior.draw(num_samples, seed).values
        log_probs = self._log_probs((tf.constant(x), tf.constant(y)), values)
        log_probs = tf.cast(log_probs, tf.float64)
        return (tf.reduce_logsumexp(log_probs, axis=1) - math.log(num_samples)).numpy()

    def _compiled(self) -> keras.Model:
        model = self._make_model()
        model.compile(
            keras.optimizers.Adam(self._learning_rate, global_clipnorm=10.0),
            steps_per_execution=self._steps_of_part,
            train_samples=2,
        )
        return model
