"""Answers: what predictions compute from the raw outputs under S draws.

They are compiled and computed batch by batch; no state of a call is kept.

`p(y|x, D) ≈ 1/S Σ_s p(y|x, g_s)`, `g_s ~ q(g)` (paper, equation of the predictive
posterior): probabilities are averaged, not logits.
"""

import math
import threading
from collections.abc import Callable

import keras
import tensorflow as tf

from bhn_tf import keras_adapter

# Most numbers in the samples of one batch: 16 MB, which the scores copy several times.
_MOST_SAMPLES = 2**22


class Answers:
    """What a model answers under draws.

    Args:
        posterior: A `draws.Posterior`.
        likelihood: p(y|x, g), resolved for the network.
        outputs: A `RawOutputs`.
    """

    def __init__(self, posterior, likelihood, outputs):
        self._posterior = posterior
        self._likelihood = likelihood
        self._outputs = outputs

    def raws(self, x, values):
        """Returns raw outputs under every draw, in float32 or better.

        Args:
            x: Inputs, rows first.
            values: `Draws.values`.

        Returns:
            Raw outputs [S, B, ...] in their structure, and the outputs' masks.
        """
        outputs = self._outputs

        def of_one(raw, _):
            masks = [mask for mask in outputs.masks_of(raw) if mask is not None]
            return keras.tree.map_structure(outputs.as_result, raw), masks

        dtypes = (
            keras.tree.map_structure(lambda _: outputs.dtype, outputs.spec),
            [tf.bool] * outputs.num_masked,
        )
        raws, masks = self._posterior.over_draws(of_one, x, values, False, dtypes)
        masks = outputs.unpacked_masks([mask[0] for mask in masks])
        return _nan_where_unknown(raws, x, outputs.dtype), outputs.for_likelihood(masks)

    def mean(self, x, values):
        """The predictive mean, [B, C]."""
        raws, _ = self.raws(x, values)
        means = self._likelihood.mean(raws)
        return keras.tree.map_structure(lambda t: tf.reduce_mean(t, axis=0), means)

    def samples(self, x, values):
        """The mean of y under each draw, rows first, [B, S, ...]."""
        raws, _ = self.raws(x, values)
        return keras.tree.map_structure(
            lambda t: tf.experimental.numpy.moveaxis(t, 0, 1),
            self._likelihood.mean(raws),
        )

    def uncertainty(self, x, values):
        """The predictive mean and every score of the likelihood."""
        return self._likelihood.summarize(*self.raws(x, values))

    def interval(self, x, values, level):
        """Bounds of a central interval of y."""
        raws, _ = self.raws(x, values)
        return self._likelihood.interval(raws, level)

    def log_probs(self, x_and_y, values):
        """log p(y|x, g) of each row under every draw, never clipped, [B, S]."""
        x, y = x_and_y
        outputs = self._outputs

        def of_one(raw, _):
            mask = outputs.for_likelihood(outputs.masks_of(raw))
            return outputs.as_result(
                self._likelihood.measured_log_prob(y, raw, mask=mask)
            )

        log_probs = self._posterior.over_draws(of_one, x, values, False, outputs.dtype)
        return tf.transpose(log_probs)

    def rows_at_a_time(self, batch_size, num_draws: int) -> int:
        """Returns a batch size that bounds the samples of a batch, [B, S, C].

        The batch size affects only memory, never the answers.
        """
        samples_of_row = self._outputs.largest_row() * num_draws
        return max(min(batch_size or 32, _MOST_SAMPLES // samples_of_row), 1)

    def batches_of_arrays(self, batch_size, steps, num_draws: int) -> tuple:
        """Returns the batch size, the number of batches and the number of rows.

        The rows are those of `steps` batches of the requested size; smaller batches
        cover them in more steps. Both numbers are `None` for all rows.
        """
        size = self.rows_at_a_time(batch_size, num_draws)
        if steps is None:
            return size, None, None
        num_rows = steps * (batch_size or 32)
        return size, math.ceil(num_rows / size), num_rows


def _nan_where_unknown(raws, x, dtype):
    """Answers NaN to rows whose inputs are NaN or infinite, once cast as well.

    ReLU and pooling can turn NaN into a number, and a saturated tanh does so with
    infinity: the answer would be confident although the input is unknown.
    """
    # A float64 input may overflow in the dtype that the network computes with.
    most = dtype.max if dtype == tf.float64 else tf.float32.max
    # A comparison, because LiteRT lacks `is_finite`.
    known = [
        tf.reduce_all(
            tf.abs(leaf) <= min(most, leaf.dtype.max),
            axis=list(range(1, len(leaf.shape))),
        )
        for leaf in keras.tree.flatten(x)
        if isinstance(leaf, tf.Tensor | tf.Variable) and leaf.dtype.is_floating
    ]
    if not known:
        return raws
    is_known = tf.reduce_all(tf.stack(known), axis=0)
    return keras.tree.map_structure(
        lambda raw: tf.where(
            tf.reshape(is_known, [1, -1] + [1] * (len(raw.shape) - 2)),
            raw,
            tf.constant(math.nan, raw.dtype),
        ),
        raws,
    )


class CompiledAnswers:
    """Answers as compiled functions of a batch and of the draws of a call.

    No state of a call is kept, so any number of threads may ask at once, and so may
    callbacks and data generators in the middle of other calls.

    Args:
        strategy: The model's strategy; replicas answer their shares of a batch.
        run_eagerly: Whether not to compile.
        jit_compile: Whether to compile with XLA.
    """

    def __init__(self, strategy, run_eagerly: bool, jit_compile: bool):
        self._strategy = strategy
        self._run_eagerly, self._jit_compile = run_eagerly, jit_compile
        self._functions: dict[str, Callable] = {}
        self._tracing = threading.Lock()

    def function(self, name: str, answer: Callable) -> Callable:
        """Returns the compiled function of an answer, `(batch, values, *more)`."""
        if name not in self._functions:
            self._functions.setdefault(name, self._compiled(answer))
        return self._functions[name]

    def _compiled(self, answer):
        step = answer
        if self._jit_compile and not self._run_eagerly:
            step = tf.function(answer, jit_compile=True, autograph=False)
        if self._strategy.num_replicas_in_sync == 1:
            return step if self._run_eagerly else _ForAnyRows(step, self._tracing)

        def over_replicas(batch, *arguments):
            results = self._strategy.run(step, args=(batch, *arguments))
            return keras_adapter.joined_over_replicas(results, self._strategy)

        if self._run_eagerly:
            return over_replicas
        return tf.function(over_replicas, reduce_retracing=True, autograph=False)


class _ForAnyRows:
    """A compiled function that is traced once for every number of rows.

    Other axes, such as the length of sequences, are relaxed once they turn out to
    vary, so that the number of traces is bounded by the number of axes.

    Args:
        function: What is compiled.
        lock: Held while a network is traced, since layers store their added losses.
    """

    def __init__(self, function, lock):
        self._function, self._lock = function, lock
        self._traced = {}

    def __call__(self, batch, *arguments):
        # An optional input may be missing.
        is_given = tf.nest.map_structure(
            lambda leaf: leaf is not None, (batch, arguments)
        )
        leaves = [
            leaf for leaf in tf.nest.flatten((batch, arguments)) if leaf is not None
        ]
        specs = [_with_any_rows(tf.type_spec_from_value(leaf)) for leaf in leaves]
        # What no trace can be relaxed over: structure, types, dtypes and ranks.
        kind = repr(
            (
                is_given,
                [(type(spec).__name__, spec.dtype, spec.shape.rank) for spec in specs],
            )
        )
        with self._lock:
            known, traced = self._traced.get(kind, (specs, None))
            general = [
                spec.most_specific_common_supertype([other])
                for spec, other in zip(known, specs, strict=True)
            ]
            if traced is None or general != known:
                traced = self._trace(general, is_given)
                self._traced[kind] = general, traced
        return traced(*leaves)

    def _trace(self, specs, is_given):
        def function(*leaves):
            given = iter(leaves)
            batch, arguments = tf.nest.map_structure(
                lambda has_leaf: next(given) if has_leaf else None, is_given
            )
            return self._function(batch, *arguments)

        traced = tf.function(function, input_signature=specs, autograph=False)
        traced.get_concrete_function()
        return traced


def _with_any_rows(spec):
    if isinstance(spec, tf.TensorSpec) and spec.shape.rank:
        return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)
    return spec


def answer_batches(
    model,
    function,
    x,
    batch_size=None,
    verbose=0,
    steps=None,
    callbacks=None,
    num_rows=None,
):
    """Goes through data as Keras's `predict` does, with a function of our own.

    Args:
        model: The model, for callbacks and its strategy.
        function: Maps a batch of inputs to a structure of tensors, rows first.
        x, batch_size, verbose, steps, callbacks: As in Keras.
        num_rows: How many rows to return, where the batches may hold more; `None` for
            all.

    Returns:
        Arrays of these rows, in the structure that `function` returns.

    Raises:
        ValueError: If the data yield no batch.
    """
    batches = keras_adapter.batches_for_prediction(
        x, batch_size, steps, model.distribute_strategy
    )
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=1,
            steps=batches.num_batches,
            model=model,
        )
    model.stop_predicting = False
    callbacks.on_predict_begin()
    answers = []
    with batches.catch_stop_iteration():
        for first, last, iterator in batches:
            callbacks.on_predict_batch_begin(first)
            outputs = function(next(iterator))
            answers.append(outputs)
            callbacks.on_predict_batch_end(last, {"outputs": outputs})
            if model.stop_predicting:
                break
    callbacks.on_predict_end()
    if not answers:
        raise ValueError("The data set yields no batch to predict.")
    return keras.tree.map_structure(
        lambda *parts: keras_adapter.as_array(
            keras_adapter.joined_over_batches(list(parts))
        )[:num_rows],
        *answers,
    )
