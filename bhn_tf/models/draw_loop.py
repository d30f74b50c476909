"""The loop over draws: one network at a time, with one update of state a step."""

import contextlib
from collections.abc import Callable

import keras
import tensorflow as tf

# How far apart draws start in the counter of a seed generator: within so many calls,
# two draws never share a count.
_COUNTS_PER_DRAW = 2**16


def over_draws(function: Callable, values, moving, seeds, metrics, dtypes):
    """Stacks what a function of one draw returns.

    Draws are taken one by one, so that memory does not grow with their number. Each
    starts from the network's present state (recurrent layers, moving averages) and
    leaves it unchanged; afterwards the state is set once, to the mean over the draws.

    Args:
        function: Maps one draw to tensors.
        values: Draws [S, ...].
        moving: Variables of the network that a call may change.
        seeds: States of seed generators; every draw has noise of its own.
        metrics: Variables of metrics that a call updates. They are treated like state,
            except in a frozen ensemble, where nobody reads them.
        dtypes: Dtypes of what `function` returns, in its structure.

    Returns:
        What `function` returns, each with a leading axis of S.
    """
    if values.shape[0] == 1:
        return keras.tree.map_structure(
            lambda t: tf.expand_dims(t, 0), function(values[0])
        )

    if _is_constant(values) and not (moving or seeds):
        return _over_frozen_draws(function, values)
    moving = [*moving, *metrics]

    def of_one(index_and_value):
        index, value = index_and_value
        shifted = [(seed, _of_draw(seed, index)) for seed in seeds]
        # Assignments inside this scope do not reach the network's variables.
        with keras.StatelessScope(shifted, collect_losses=True) as scope:
            result = function(value)
        moved = [scope.get_current_value(variable) for variable in moving]
        return result, [
            tf.convert_to_tensor(variable) if new is None else new
            for variable, new in zip(moving, moved, strict=True)
        ]

    num_draws = tf.shape(values)[0]
    with _caching_device_restored():
        results, states = tf.map_fn(
            of_one,
            (tf.range(num_draws), values),
            fn_output_signature=(dtypes, [variable.dtype for variable in moving]),
        )
    for variable, state in zip(moving, states, strict=True):
        variable.assign(_mean_state(state))
    for seed in seeds:
        seed.assign(_of_draw(seed, 0) + tf.constant([0, 1], seed.dtype))
    return results


@contextlib.contextmanager
def _caching_device_restored():
    """Undoes what `tf.map_fn` leaves in the graph's scope if its function fails.

    No strategy's scope could be entered afterwards.
    """
    scope = tf.compat.v1.get_variable_scope()
    device = scope.caching_device
    try:
        yield
    except BaseException:
        if not tf.executing_eagerly():
            scope.set_caching_device(device)
        raise


def _is_constant(values) -> bool:
    """Whether draws are constants of a graph, not inputs: a frozen ensemble."""
    return not tf.executing_eagerly() and hasattr(values, "numpy")


def _over_frozen_draws(function, values):
    """`over_draws` with a loop that LiteRT and ONNX support.

    They lack lists of tensors with an unknown number of rows, which `tf.map_fn` uses.
    Results are appended one by one to that of the first draw.
    """

    def appended(index, results):
        with keras.StatelessScope(collect_losses=True):
            new = function(values[index])
        pairs = zip(tf.nest.flatten(results), tf.nest.flatten(new), strict=True)
        joined = [tf.concat([old, tf.expand_dims(t, 0)], 0) for old, t in pairs]
        return index + 1, tf.nest.pack_sequence_as(results, joined)

    first = tf.nest.map_structure(lambda t: tf.expand_dims(t, 0), function(values[0]))
    shapes = tf.nest.map_structure(
        lambda t: tf.TensorShape([None, *t.shape[1:]]), first
    )
    _, results = tf.while_loop(
        lambda index, _: index < values.shape[0],
        appended,
        (tf.constant(1), first),
        shape_invariants=(tf.TensorShape([]), shapes),
    )
    return results


def _of_draw(seed, index):
    shift = tf.cast(index * _COUNTS_PER_DRAW, seed.dtype)
    return tf.convert_to_tensor(seed) + tf.stack([tf.zeros_like(shift), shift])


def _mean_state(states):
    """The mean of a state over draws.

    Counters and flags have no mean, but change alike in all draws: the first is taken.
    """
    if states.dtype.is_floating:
        return tf.reduce_mean(states, axis=0)
    return states[0]
