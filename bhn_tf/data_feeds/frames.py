"""Frames and series of pandas as arrays of one dtype, as Keras needs them."""

import numpy as np


def array_of_frame(name: str, leaf):
    """Returns a frame or series of numbers as an array, and anything else as it is.

    Columns of several dtypes, also of Booleans, get the one that holds them all.

    Args:
        name: Name of the data, for the error.
        leaf: Any data.

    Raises:
        ValueError: If a column of a nullable dtype has missing values.
    """
    # Recognises pandas without importing it.
    if not (hasattr(leaf, "iloc") and hasattr(leaf, "isna")):
        return leaf
    is_frame = hasattr(leaf, "columns")
    columns = [leaf.iloc[:, i] for i in range(leaf.shape[1])] if is_frame else [leaf]
    # NumPy's dtypes for nullable ones such as `Int64` and `boolean`.
    dtypes = [getattr(c.dtype, "numpy_dtype", c.dtype) for c in columns]
    if not dtypes or any(getattr(d, "kind", "") not in tuple("biuf") for d in dtypes):
        return leaf
    for column, dtype in zip(columns, dtypes, strict=True):
        if column.dtype != dtype and column.isna().any():
            raise ValueError(
                f"`{name}` has missing values, of dtype {column.dtype}, in "
                f"{column.name!r}. Fill them in or leave these rows out; "
                "`.astype('float64')` makes them NaN, which labels of weight 0 may be."
            )
    return leaf.to_numpy(np.result_type(*dtypes))
