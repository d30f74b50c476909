"""The `predict*` calls: averages, samples and scores over draws of the network."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.arguments import check_count, check_given_counts, check_probability
from bhn_tf.data_feeds import feed_of, inputs_of
from bhn_tf.likelihoods import Joint, Likelihood
from bhn_tf.models import workers
from bhn_tf.models.adapted_layers import AdaptedLayers
from bhn_tf.models.answer_loop import answer_batches
from bhn_tf.models.answers import Answers
from bhn_tf.models.compiled_answers import CompiledAnswers
from bhn_tf.models.draws import Posterior
from bhn_tf.models.raw_outputs import RawOutputs, in_structure_of
from bhn_tf.models.refused_data import refuse_unfit_inputs


class Prediction(keras.Model):
    """Part of `PredictiveModel`: the posterior predictive by Monte Carlo.

    The S draws are made once per call and are the same for all rows, so that a row's
    answer depends neither on its neighbours nor on the batch size. Calls keep no state
    and may run in several threads at once.
    """

    # Attributes of `PredictiveModel`.
    posterior: Posterior
    likelihood: Likelihood
    raw_outputs: RawOutputs | None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._adapted_layers = AdaptedLayers()
        self._forget_compiled_answers()

    def predict(
        self,
        x,
        batch_size=None,
        verbose="auto",
        steps=None,
        callbacks=None,
        *,
        num_samples: int = 32,
        seed: int | None = None,
    ):
        """Returns the posterior-predictive mean.

        Args:
            x, batch_size, verbose, steps, callbacks: As in Keras.
            num_samples: S, the number of draws; 0 for the centre, without noise.
            seed: A non-negative integer for the same draws every time; `None` for new
                ones in every call.

        Returns:
            Array [rows, C]: class probabilities, or means of a regression. It is at
            least float32, even if the network computes in half precision.

        Raises:
            ValueError: If there are no rows.

        Example:
        ```python
        probabilities = model.predict(x, num_samples=100, seed=1)
        ```
        """
        return self._predict(
            "mean", x, batch_size, verbose, steps, callbacks, num_samples, seed
        )

    def predict_samples(
        self,
        x,
        batch_size=None,
        verbose="auto",
        steps=None,
        callbacks=None,
        *,
        num_samples: int = 32,
        seed: int | None = None,
    ):
        """Returns the mean of y under each draw.

        Args:
            As `predict`.

        Returns:
            Array [rows, S, C]; [rows, 1, C] at the centre, or if nothing in the
            network is random (D = 0).

        Raises:
            ValueError: If there are no rows.

        Example:
        ```python
        samples = model.predict_samples(x, num_samples=100)
        bhn_tf.uncertainty.mutual_information(samples)
        ```
        """
        return self._predict(
            "samples", x, batch_size, verbose, steps, callbacks, num_samples, seed
        )

    def predict_uncertainty(
        self,
        x,
        batch_size=None,
        verbose="auto",
        steps=None,
        callbacks=None,
        *,
        num_samples: int = 32,
        seed: int | None = None,
    ) -> dict:
        """Returns the predictive mean and every score of the likelihood.

        Only one batch's samples are held at a time.

        Args:
            As `predict`.

        Returns:
            Dictionary of arrays: `mean` [rows, C] and, for classes, the scores of
            `bhn_tf.uncertainty.SCORES`, [rows] each; for a Gaussian `std`,
            `epistemic_std` and `aleatoric_std`, [rows, C] each.

        Raises:
            ValueError: If there are no rows.

        Example:
        ```python
        scores = model.predict_uncertainty(x)
        strangest = scores["mutual_information"].argmax()
        ```
        """
        return self._predict(
            "uncertainty", x, batch_size, verbose, steps, callbacks, num_samples, seed
        )

    def predict_interval(
        self,
        x,
        level: float = 0.9,
        batch_size=None,
        verbose="auto",
        steps=None,
        callbacks=None,
        *,
        num_samples: int = 32,
        seed: int | None = None,
    ):
        """Returns a central predictive interval of y, for regression.

        Args:
            level: Probability of the interval, between 0 and 1.
            Others as `predict`.

        Returns:
            Arrays `(lower, upper)`, [rows, C] each, in the units of y: quantiles of
            the mixture of the S predictive densities, noise included. For several
            outputs each of the two has their structure, without outputs of classes: a
            dictionary leaves these out, a list has `None` in their place.

        Raises:
            ValueError: If `level` is not a probability, there are no rows, or the
                likelihood is not one of real numbers, of any output.

        Example:
        ```python
        lower, upper = model.predict_interval(x, level=0.95)
        ```
        """
        level = check_probability("level", level)
        # It must not round to 1 in float32 either, the dtype of a served model's level.
        check_probability("level", np.float32(level))
        bounds = self._predict(
            "interval",
            x,
            batch_size,
            verbose,
            steps,
            callbacks,
            num_samples,
            seed,
            tf.constant(level, tf.float64),
        )
        if not isinstance(self.likelihood, Joint):
            return bounds
        parts = self.likelihood.parts
        outputs = self.raw_outputs.spec  # type: ignore[union-attr]
        return tuple(_of_all_outputs(each, parts, outputs) for each in bounds)

    def predict_on_batch(self, x, *, num_samples: int = 32, seed: int | None = None):
        """Returns the posterior-predictive mean of one batch; see `predict`."""
        feed = self.feed_to_answer(x)
        values = self._draws_of_call(num_samples, seed).values
        with workers.lost_workers_named(self.distribute_strategy):
            answers = self._function("mean")(feed.as_tensors().x, values)
        # Every replica answers the whole batch, and the answers are joined.
        return keras.tree.map_structure(
            lambda tensor: tensor.numpy()[: feed.num_rows], answers
        )

    def predictive(self, x, num_samples: int = 32, seed: int | None = None):
        """Returns the predictive mean as a differentiable function of `x`.

        Args:
            x: Tensor of inputs, rows first.
            num_samples: S; 0 for the centre.
            seed: A non-negative integer for the draws of `predict` with this seed.

        Returns:
            Tensor [B, C].

        Example:
        ```python
        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = -tf.math.log(model.predictive(x, num_samples=10)[:, 3])
        tape.gradient(loss, x)
        ```
        """
        feed = feed_of(x)
        self._build_from_feed(feed)
        values = self._draws_of_call(num_samples, seed).values
        return self.answers.mean(feed.as_tensors().x, values)

    @property
    def answers(self) -> Answers:
        """The answers of the model under given draws."""
        return Answers(self.posterior, self.likelihood, self.raw_outputs)

    def _draws_of_call(self, num_samples, seed):
        check_count("num_samples", num_samples, minimum=0)
        return self.posterior.draw(num_samples, seed)

    def _predict(
        self, answer, x, batch_size, verbose, steps, callbacks, num_samples, seed, *more
    ):
        check_given_counts(batch_size=batch_size, steps=steps)
        feed = self.feed_to_answer(x)
        self._begin_call()
        strategy = self.distribute_strategy
        seed = workers.agreed_seed(strategy, seed)
        values = self._draws_of_call(num_samples, seed).values
        num_rows = None
        if feed.num_rows is not None:
            batch_size, steps, num_rows = self.answers.batches_of_arrays(
                batch_size, steps, int(values.shape[0])
            )
        function = self._function(answer)

        def of_batch(data):
            return function(inputs_of(data), values, *more)

        x = workers.shared_out(feed.x, strategy)
        return answer_batches(
            self, of_batch, x, batch_size, verbose, steps, callbacks, num_rows
        )

    def _log_probs(self, x, y, batch_size, draws):
        """log p(y|x, g) of each row under every draw, [rows, S]."""
        feed = feed_of(x, y).as_tensors()
        # Tuples, since `from_tensor_slices` takes a list for one tensor.
        arrays = keras.tree.lists_to_tuples((feed.x, feed.y))
        size = batch_size or keras_adapter.DEFAULT_BATCH_SIZE
        batches = tf.data.Dataset.from_tensor_slices(arrays).batch(size)
        batches = workers.shared_out(batches, self.distribute_strategy)
        function = self._function("log_probs")
        return answer_batches(self, lambda data: function(data, draws.values), batches)

    def _function(self, answer):
        self._forget_answers_of_before()
        # Another thread may forget them between two lines.
        compiled = self._compiled_answers
        if compiled is None:
            compiled = self._compiled_answers = CompiledAnswers(
                self.distribute_strategy, self.run_eagerly, self.jit_compile
            )
        return compiled.function(answer, getattr(self.answers, answer))

    def compiled_once(self, name: str, function: Callable) -> Callable:
        """Returns a function of this model that is traced once for each kind of batch.

        It is for what differentiates answers, as attacks do: it runs on one device, and
        without XLA. `compile` forgets it.

        Args:
            name: Tells one function from another.
            function: Takes a batch and further tensors.

        Raises:
            RuntimeError: If the process is a fork in which it would never end.
        """
        self._forget_answers_of_before()
        return self._compiled_functions.function(name, function)

    def quantize(self, *args, **kwargs):
        """Quantises layers as in Keras; those with generated values stay as they are.

        Args:
            *args, **kwargs: As in Keras.
        """
        try:
            super().quantize(*args, **kwargs)
        finally:
            # They read the kernels that there were before.
            self._forget_compiled_answers()

    def _forget_answers_of_before(self):
        """Forgets answers that were compiled before layers were adapted to data."""
        if self._adapted_layers.have_changed(self.posterior.networks, "answers"):
            self._forget_compiled_answers()

    def _forget_compiled_answers(self):
        self._compiled_answers = None
        self._compiled_functions = CompiledAnswers()

    def feed_to_answer(self, x):
        """Returns a checked feed of inputs to predict; builds the model if needed."""
        feed = feed_of(x)
        feed.refuse_empty()
        self._build_from_feed(feed)
        refuse_unfit_inputs(feed, self.posterior.networks)
        if feed.num_rows is not None:
            self._checks().check_rows(feed.x)
        return feed


def _of_all_outputs(bounds: list, parts, outputs):
    """Bounds of the outputs that have intervals, in the structure of all outputs."""
    if len(bounds) == len(parts):
        return keras.tree.pack_sequence_as(outputs, bounds)
    given = iter(bounds)
    every = [next(given) if part.has_interval else None for part in parts]
    return in_structure_of(outputs, every)
