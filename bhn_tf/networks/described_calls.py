"""How graphs call a layer, in numbers and strings that a file can hold."""

from collections.abc import Callable

import keras

from bhn_tf import keras_adapter


class CannotBeEntered(Exception):
    """Says for a report why the layers inside a layer cannot be replaced."""


def arguments_of_calls(layer) -> list[dict]:
    """Returns the ways in which graphs call a layer, the first one first.

    Each is its arguments, in which tensors are shapes and dtypes, and dictionaries are
    marked as such.

    Raises:
        CannotBeEntered: If an argument is not a tensor, number or string.
    """
    calls: list[dict] = []
    for args, kwargs in keras_adapter.calls_of(layer):
        call = {
            "args": [_described(value) for value in args],
            "kwargs": {name: _described(value) for name, value in kwargs.items()},
        }
        if call not in calls:
            calls.append(call)
    if not calls:
        raise CannotBeEntered("no graph calls it, but another layer does")
    return calls


def _described(value):
    if isinstance(value, keras.KerasTensor):
        return {"shape": list(value.shape), "dtype": value.dtype}
    if isinstance(value, list | tuple):
        return [_described(each) for each in value]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"items": {name: _described(each) for name, each in value.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CannotBeEntered(f"it is called with a {type(value).__name__}")


def build_by_call(layer, called) -> None:
    """Builds a layer and the layers inside by a call, as a graph would."""

    def placeholder(shape, dtype):
        return keras.Input(batch_shape=shape, dtype=dtype)

    call_as_described(layer, called, placeholder)


def call_as_described(layer, called, placeholder: Callable, **more):
    """Calls a layer as described, with placeholders made from shapes and dtypes."""

    def filled(value):
        if isinstance(value, dict) and "items" in value:
            return {name: filled(each) for name, each in value["items"].items()}
        if isinstance(value, dict):
            return placeholder(value["shape"], value["dtype"])
        return [filled(each) for each in value] if isinstance(value, list) else value

    args = [filled(value) for value in called["args"]]
    kwargs = {name: filled(value) for name, value in called["kwargs"].items()}
    return layer(*args, **{**kwargs, **more})
