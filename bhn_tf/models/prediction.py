"""Prediction: averages, samples and scores over draws of the network."""

import math

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.data_feeds.num_examples import num_rows

# Numbers in the samples of one batch; 16 MB, of which the scores make several copies.
_MOST_SAMPLES = 2**22


class Prediction:
    """Mixin of `PredictiveModel`: the posterior predictive by Monte Carlo.

    `p(y|x, D) ≈ 1/S Σ_s p(y|x, g_s)`, `g_s ~ q(g)` (paper, equation of the predictive
    posterior): probabilities are averaged, not logits. The S draws are made once a
    call and are the same for all rows, so that a row's answer depends neither on its
    neighbours nor on the batch size.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._answer = "mean"
        self._predict_functions = {}

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
            seed: A non-negative integer for the same draws every time; without one
                every call differs.

        Returns:
            Array [rows, C]: class probabilities, or means of a regression. It is at
            least float32, also where the network computes in half precision.

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
            Array [rows, S, C]; [rows, 1, C] at the centre.

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
            the mixture of the S predictive densities, noise included.

        Raises:
            ValueError: If `level` is not a probability, there are no rows, or the
                likelihood is not one of real numbers.

        Example:
        ```python
        lower, upper = model.predict_interval(x, level=0.95)
        ```
        """
        # As the graph has it: a level that rounds to 1 has no finite bounds.
        if not 0 < np.float32(level) < 1:
            raise ValueError(
                f"Expected `level` to be a probability such as 0.9, got {level!r}."
            )
        self._interval_level.assign(level)
        return self._predict(
            "interval", x, batch_size, verbose, steps, callbacks, num_samples, seed
        )

    def predict_on_batch(self, x, *, num_samples: int = 32, seed: int | None = None):
        """Returns the posterior-predictive mean of one batch; see `predict`."""
        with self._answering("mean", x, num_samples, seed):
            return super().predict_on_batch(x)

    def predictive(self, x, num_samples: int = 32, seed: int | None = None):
        """Returns the predictive mean as a differentiable function of `x`.

        Args:
            x: Tensor of inputs, rows first.
            num_samples: S; 0 for the centre.
            seed: A non-negative integer for the draws that `predict` makes from it.

        Returns:
            Tensor [B, C].

        Example:
        ```python
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = -tf.math.log(model.predictive(x, num_samples=10)[:, 3])
        tape.gradient(loss, x)
        ```
        """
        check_count("num_samples", num_samples, minimum=0)
        self._build_from_data(x)
        draws, _ = self._draw(num_samples, seed)
        return self._mean_over_draws(self._raws(x, draws))

    def _mean_over_draws(self, raws):
        means = self.likelihood.mean(raws)
        return keras.tree.map_structure(lambda t: tf.reduce_mean(t, axis=0), means)

    def _samples(self, raws):
        """The mean of y under each draw, rows first: [B, S, ...]."""
        means = self.likelihood.mean(raws)
        return keras.tree.map_structure(
            lambda t: tf.experimental.numpy.moveaxis(t, 0, 1), means
        )

    def _raws(self, x, draws):
        """Raw outputs under every draw, [S, B, ...], at least float32."""
        raws = self._over_draws(
            lambda raw, _: keras.tree.map_structure(self._as_result, raw),
            x,
            draws,
            training=False,
            structure=self._raw_structure,
        )
        has_nan = _rows_with_nan(x)
        if has_nan is None:
            return raws
        # ReLU and pooling may make a number of NaN, and a confident answer of that.
        return keras.tree.map_structure(
            lambda raw: tf.where(
                tf.reshape(has_nan, [1, -1] + [1] * (len(raw.shape) - 2)),
                tf.constant(math.nan, raw.dtype),
                raw,
            ),
            raws,
        )

    def _log_probs(self, x, y, draws):
        """log p(y|x, g) of each row under every draw, [S, B]."""

        def score(raw, _):
            return self._as_result(self.likelihood.unweighted_log_prob(y, raw))

        return self._over_draws(score, x, draws, training=False, structure=0)

    def _predict(
        self, answer, x, batch_size, verbose, steps, callbacks, num_samples, seed
    ):
        with self._answering(answer, x, num_samples, seed):
            return super().predict(
                x,
                batch_size=self._rows_at_a_time(x, batch_size),
                verbose=verbose,
                steps=steps,
                callbacks=callbacks,
            )

    def _rows_at_a_time(self, x, batch_size):
        """Keeps the samples of a batch of arrays, [B, S, C], within bounds.

        An answer does not depend on the batch size, only the memory does.
        """
        if num_rows(x) is None:
            return batch_size
        largest = max(
            math.prod(size or 1 for size in spec.shape[1:])
            for spec in keras.tree.flatten(self._raw_spec)
        )
        samples_of_row = largest * int(tf.shape(self._draws)[0])
        return max(min(batch_size or 32, _MOST_SAMPLES // samples_of_row), 1)

    def make_predict_function(self, force=False):
        super().make_predict_function(force)
        is_plain = self.distribute_strategy.num_replicas_in_sync == 1
        if is_plain and self.steps_per_execution == 1 and not self.run_eagerly:
            self.predict_function = _ForAnyRows.of(self.predict_function)

    def predict_step(self, data):
        """Answers for a batch under the draws that the call has made."""
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        if self._answer == "log_probs":
            return tf.transpose(self._log_probs(x, y, self._draws.value()))
        raws = self._raws(x, self._draws.value())
        if self._answer == "samples":
            return self._samples(raws)
        if self._answer == "uncertainty":
            return self.likelihood.summarize(raws)
        if self._answer == "interval":
            return self.likelihood.interval(raws, self._interval_level.value())
        return self._mean_over_draws(raws)


def _rows_with_nan(x):
    """Whether each row of the inputs has a NaN, [B]; `None` where none could have."""
    found = [
        tf.reduce_any(tf.math.is_nan(leaf), axis=list(range(1, len(leaf.shape))))
        for leaf in map(tf.convert_to_tensor, keras.tree.flatten(x))
        if leaf.dtype.is_floating
    ]
    return tf.reduce_any(tf.stack(found), axis=0) if found else None


class _ForAnyRows:
    """A compiled function that is traced once for every number of rows.

    Keras traces a function again for a last batch of fewer rows, which costs time and,
    with several models in a process, brings up a warning about tracing.
    """

    def __init__(self, function):
        self._function = function.python_function
        self._compiled = {}

    @classmethod
    def of(cls, function):
        return function if isinstance(function, cls) else cls(function)

    def __call__(self, batches):
        spec = keras.tree.map_structure(
            lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype), batches
        )
        key = str(spec)
        if key not in self._compiled:
            self._compiled[key] = tf.function(self._function, input_signature=[spec])
        return self._compiled[key](batches)
