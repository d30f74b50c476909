"""Frames and series of pandas as arrays of one dtype, as Keras needs them.

A series is a frame of one column, [rows, 1]: Keras gives it this axis, too.
"""

import functools

import keras
import numpy as np

from bhn_tf.arguments import refuse_masked


def batch_of_arrays(batch):
    """Returns a batch as Keras needs it: arrays for frames, and no `None` at the end.

    Args:
        batch: What a `PyDataset` or generator yields: inputs alone, or a tuple or list
            of inputs, labels and weights. Keras takes no lists from generators.

    Returns:
        The inputs, or a tuple.

    Raises:
        ValueError: As `array_of_frame`.
    """
    if not isinstance(batch, tuple | list):
        return arrays_of_frames("x", batch)
    while len(batch) > 1 and batch[-1] is None:
        batch = batch[:-1]
    # Keras refuses a batch of more parts.
    names = ("x", "y", "sample_weight", *["batch"] * len(batch))
    return tuple(map(arrays_of_frames, names, batch))


def arrays_of_frames(name: str, values):
    """`array_of_frame` of every array in a structure."""
    return keras.tree.map_structure(functools.partial(array_of_frame, name), values)


def array_of_frame(name: str, leaf):
    """Returns a frame or series of numbers as an array, and anything else as it is.

    Columns of several dtypes, also of Booleans, get the one that holds them all. Text
    and objects stay as they are.

    Args:
        name: Name of the data, for the error.
        leaf: Any data.

    Returns:
        An array [rows, columns], the frame or series itself if it holds text or
        objects, a series as a frame of one column, or `leaf` if it is neither.

    Raises:
        ValueError: If a column of a nullable dtype has missing values or a column holds
            categories or times, if there is no column, or if entries are masked.
    """
    refuse_masked(name, leaf)
    # Recognises pandas without importing it.
    if not (hasattr(leaf, "iloc") and hasattr(leaf, "isna")):
        return leaf
    if not hasattr(leaf, "columns"):
        leaf = leaf.to_frame()
    columns = [leaf.iloc[:, i] for i in range(leaf.shape[1])]
    if not columns:
        raise ValueError(f"`{name}` is a frame without columns.")
    dtypes = [_numpy_dtype(name, column) for column in columns]
    if any(dtype.kind not in "biuf" for dtype in dtypes):
        return leaf
    for column in columns:
        if hasattr(column.dtype, "numpy_dtype") and column.isna().any():
            raise ValueError(
                f"`{name}` has missing values, of dtype {column.dtype}, in "
                f"{column.name!r}. Fill them in or leave these rows out; "
                "`.astype('float64')` makes them NaN, which labels of weight 0 may be."
            )
    return leaf.to_numpy(np.result_type(*dtypes))


def _numpy_dtype(name: str, column) -> np.dtype:
    """NumPy's dtype for what a column holds, which is object for text."""
    # `Sparse[float64, 0]` has a subtype, as intervals have, and `Int64` the name of
    # NumPy's dtype.
    dtype = column.dtype
    if hasattr(dtype, "fill_value"):
        dtype = dtype.subtype
    dtype = getattr(dtype, "numpy_dtype", dtype)
    if getattr(dtype, "type", None) is str:
        return np.dtype(object)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biufOSU":
        raise ValueError(
            f"`{name}` has no numbers in {column.name!r}, but {column.dtype}. Leave it "
            "out, or code it as numbers first, such as by `pandas.get_dummies` or "
            "`.cat.codes`."
        )
    return dtype
