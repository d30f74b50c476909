"""How a layer takes its slice of g.

A model that draws g opens a scope in which some variables have a generated value. A
layer asks for the current value of a variable: inside such a scope it gets the
generated one, outside the variable's own. Nothing is passed through `call`, so that
nested models, subclassed models and layers used several times need no change.

Each thread has its own stack of scopes: replicas of a strategy trace in separate
threads, and graphs, XLA, loops and exports trace `call` in the thread that opened the
scope.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

_local = threading.local()


def _stack() -> list[Mapping[int, Any]]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


@contextlib.contextmanager
def generated_values(values: Mapping[int, Any]) -> Iterator[None]:
    """Gives variables a generated value within the scope, and layers what they share.

    Args:
        values: By `id` of what it is for. For a variable, a float32 tensor of its
            shape, or of that shape behind a leading axis of rows: one value for each
            row. For a dropout layer that is drawn, the seed of its mask; for a
            `WeightNorm` layer, its `shared_by_draws()`; for a recurrent cell, its
            `CellWeights`.

    Example:
    ```python
    from bhn_tf.layers.generated import generated_values

    layer = bhn_tf.layers.WeightNormDense(3)
    layer.build((None, 4))
    with generated_values({id(layer.scale): tf.constant([1.0, 2.0, 3.0])}):
        outputs = layer(np.ones((5, 4)))  # [5, 3]
    ```
    """
    _stack().append(values)
    try:
        yield
    finally:
        _stack().pop()


def generated_value(owner) -> Any:
    """Returns what the scope has for a variable, layer or cell, or `None`."""
    for values in reversed(_stack()):
        if id(owner) in values:
            return values[id(owner)]
    return None


def current_value(variable) -> tf.Tensor:
    """Returns the generated value of a variable, or its own outside a scope."""
    value = generated_value(variable)
    return tf.convert_to_tensor(variable) if value is None else value


def is_of_rows(value, variable) -> bool:
    """Whether a generated value has an axis of rows before its variable's axes."""
    return len(value.shape) > len(variable.shape)


def over_axes(variable, axes, outputs) -> tf.Tensor:
    """Reshapes the current values of a variable so that they broadcast over outputs.

    Args:
        variable: A variable with an axis for each of `axes`.
        axes: Axes of the outputs: a number, or several in order.
        outputs: A tensor, rows first.
    """
    values = current_value(variable)
    shape = [1] * len(outputs.shape)
    axes = axes if isinstance(axes, list | tuple) else [axes]
    for axis, size in zip(axes, variable.shape, strict=True):
        shape[axis] = size
    if is_of_rows(values, variable):
        shape[0] = -1
    return tf.cast(tf.reshape(values, shape), outputs.dtype)
