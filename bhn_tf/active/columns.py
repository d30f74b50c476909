"""Arrays of a pool, from anything that holds columns of numbers."""

import numpy as np
import tensorflow as tf

from bhn_tf.data_feeds import array_of_frame

_KINDS = (
    "an array [rows, ...] or a frame of numbers, a dictionary or list of such, or a "
    "finite `tf.data.Dataset` of batches of inputs (of a generator give "
    "`np.concatenate(list(batches))`)"
)


def as_array(leaf):
    """Returns one part of a pool as an array whose rows can be taken by index.

    Args:
        leaf: An array or a tensor, which stays as it is (a memory map is not read); a
            pandas or polars frame or series, whose index is ignored (a series of
            pandas is a column [rows, 1]); or what NumPy can convert, such as a PyTorch
            tensor.

    Raises:
        ValueError: If it is none of these, or a column holds no numbers.
    """
    leaf = array_of_frame("pool_x", leaf)
    if isinstance(leaf, tf.Tensor | tf.Variable) or type(leaf) is np.memmap:
        array = leaf
    elif hasattr(leaf, "to_numpy"):
        array = _of_frame(leaf)
    elif isinstance(leaf, np.ndarray) or hasattr(leaf, "__array__"):
        array = np.asarray(leaf)
    else:
        raise ValueError(
            f"`pool_x` is of type {type(leaf).__name__}. Expected {_KINDS}."
        )
    if not array.shape:
        raise ValueError(f"`pool_x` is a single number or object. Expected {_KINDS}.")
    return array


def _of_frame(frame) -> np.ndarray:
    names = getattr(frame, "columns", None)
    if names is None:
        return _of_column("its series", frame)
    columns = [_of_column(f"column {name!r}", frame[name]) for name in names]
    return np.stack(columns, axis=1)


def _of_column(name: str, column) -> np.ndarray:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"`pool_x` has no numbers in {name}, but {values.dtype}. Leave it out, "
            "or code it as numbers first, such as by `pandas.get_dummies`."
        )
    return values
