"""Answers as compiled functions, each traced once per kind of batch."""

import threading
from collections.abc import Callable

import tensorflow as tf

from bhn_tf import keras_adapter, tensorflow_adapter


class CompiledAnswers:
    """Answers as compiled functions of a batch and the draws of a call.

    Calls leave no state behind, so that threads, and callbacks and data generators of
    other calls, may call them at any time.

    Args:
        strategy: The model's strategy, each replica of which answers its share of a
            batch; `None` for one device.
        run_eagerly: Whether to run without compiling.
        jit_compile: Whether to compile with XLA.
    """

    def __init__(
        self, strategy=None, run_eagerly: bool = False, jit_compile: bool = False
    ):
        self._strategy = strategy
        self._run_eagerly, self._jit_compile = run_eagerly, jit_compile
        self._functions: dict[str, Callable] = {}
        self._tracing = threading.Lock()

    def function(self, name: str, answer: Callable) -> Callable:
        """Returns the compiled function `(batch, values, *more)` of an answer.

        Raises:
            RuntimeError: If the process is a fork in which it would never end.
        """
        tensorflow_adapter.require_threads()
        if name not in self._functions:
            self._functions.setdefault(name, self._compiled(answer))
        return self._functions[name]

    def _compiled(self, answer):
        step = tensorflow_adapter.custom_gradients_go_with_their_graph()(answer)
        if self._jit_compile and not self._run_eagerly:
            step = tf.function(step, jit_compile=True, autograph=False)
        if self._strategy is None or self._strategy.num_replicas_in_sync == 1:
            return step if self._run_eagerly else _ForAnyRows(step, self._tracing)

        def over_replicas(batch, *arguments):
            results = self._strategy.run(step, args=(batch, *arguments))
            return keras_adapter.joined_over_replicas(results, self._strategy)

        if self._run_eagerly:
            return over_replicas
        return tf.function(over_replicas, reduce_retracing=True, autograph=False)


class _ForAnyRows:
    """A compiled function with one trace for all numbers of rows.

    Other axes, such as the length of sequences, are relaxed when they turn out to
    differ, so that the number of traces is bounded by the number of axes.

    Args:
        function: The function to compile.
        lock: Held while a network is traced, since layers store what they add to the
            loss.
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
        # Differences that no relaxed trace can cover.
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
