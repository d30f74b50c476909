"""Rows as a model takes them, or an error that says why they do not fit."""

import dataclasses
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bhn_tf.serving.problems import ScoringProblem


@dataclasses.dataclass(frozen=True)
class Batch:
    """Consecutive rows of a source.

    Attributes:
        ids: The name of each row in the output.
        inputs: Arrays by name of the model's input, rows first.
        unreadable: Positions of rows that hold no data; their scores become NaN.
    """

    ids: list[str]
    inputs: dict[str, np.ndarray]
    unreadable: tuple[int, ...] = ()


def text_of(path) -> str:
    r"""Returns the name of a file as text for any file or terminal.

    Args:
        path: A path; bytes that are not UTF-8 are shown as `\xff`.

    Example:
        >>> text_of(os.fsdecode(b"caf\xe9.png"))
        'caf\\xe9.png'
    """
    return os.fsencode(path).decode(errors="backslashreplace")


def only_input(specs: dict, name: str, kind: str) -> tuple[str, tf.TensorSpec]:
    """Returns name and spec of the model's only input, for files that feed just one.

    Args:
        specs: What the model takes; see `ServedModel.input_specs`.
        name: Name of the file, for the message.
        kind: The kind of file, for the message.

    Raises:
        ScoringProblem: If the model has several inputs.
    """
    if len(specs) > 1:
        raise ScoringProblem(
            f"{name}: {kind} has one array a row, and the model has the inputs "
            f"{sorted(specs)}. Write TFRecord files of tf.train.Example with a "
            "feature for each."
        )
    return next(iter(specs.items()))


def checked_bytes(contents, check: Callable[[bytes], None]):
    """Returns bytes after a check, which precedes any unpacking.

    Args:
        contents: Bytes, or a scalar of a graph.
        check: Raises a `ValueError`, which in a graph is an `InvalidArgumentError`
            with the same message.
    """

    def checked(contents: bytes) -> bytes:
        check(contents)
        return contents

    if isinstance(contents, bytes):
        return checked(contents)
    looked_at = tf.numpy_function(checked, [contents], tf.string, stateful=False)
    return tf.ensure_shape(looked_at, [])


def check_rows(shape, dtype, spec: tf.TensorSpec, where: str) -> None:
    """Refuses rows of another shape or kind of number than the model was trained on.

    Floats of any width are interchangeable, and so are integers. An integer is never
    taken for a float: as 0 ... 255 or 0 ... 1, a picture is the same, but not as input.

    Args:
        shape: Shape of one row.
        dtype: Its dtype, of NumPy or TensorFlow.
        spec: What the model takes, rows first.
        where: Name of the file or the rows, for the message.

    Raises:
        ScoringProblem: If they do not fit.
    """
    try:
        dtype = tf.as_dtype(dtype)
    except TypeError as error:
        raise ScoringProblem(
            f"{where}: values are {dtype}, and the model was trained on "
            f"{spec.dtype.name} as {spec.name!r}. Convert them as for training."
        ) from error
    wanted = spec.shape[1:]
    if not wanted.is_compatible_with(shape):
        raise ScoringProblem(
            f"{where}: a row has the shape {tuple(shape)}, and the model takes "
            f"{tuple(wanted)} as {spec.name!r}."
        )
    if _kind(dtype) != _kind(spec.dtype):
        raise ScoringProblem(
            f"{where}: values are {dtype.name}, and the model was trained "
            f"on {spec.dtype.name} as {spec.name!r}. Convert them as for training."
        )


def as_rows(values: np.ndarray, spec: tf.TensorSpec, where: str) -> np.ndarray:
    """Returns values [rows, ...] in the dtype that the model takes.

    Args:
        values: Rows of the right or another shape and dtype.
        spec: What the model takes, rows first.
        where: Name of the file or the rows, for the message.

    Raises:
        ScoringProblem: If shape or kind does not fit, or a number is too large.

    Example:
        >>> spec = tf.TensorSpec([None, 2], tf.float32, name="inputs")
        >>> as_rows(np.zeros([3, 2]), spec, "x.npy").dtype
        dtype('float32')
    """
    values = np.asarray(values)
    check_rows(values.shape[1:], values.dtype, spec, where)
    if spec.dtype.is_floating:
        with np.errstate(over="ignore"):
            rows = values.astype(spec.dtype.as_numpy_dtype, copy=False)
        if rows.dtype.itemsize < values.dtype.itemsize:
            # A finite number that became infinite was too large.
            _check_range(values[np.isinf(rows) & np.isfinite(values)], spec, where)
        return rows
    if spec.dtype.is_integer:
        _check_range(values, spec, where)
    return values.astype(spec.dtype.as_numpy_dtype, copy=False)


def _check_range(values, spec, where) -> None:
    if not values.size:
        return
    smallest, largest = values.min(), values.max()
    if smallest < spec.dtype.min or largest > spec.dtype.max:
        raise ScoringProblem(
            f"{where}: values go from {smallest} to {largest}, which "
            f"{spec.dtype.name}, the dtype of {spec.name!r}, cannot hold."
        )


def _kind(dtype) -> str:
    if dtype.is_floating:
        return "float"
    return "integer" if dtype.is_integer else dtype.name
