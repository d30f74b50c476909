"""What is given to an estimator, and scikit-learn would take for something else."""

import numpy as np

from bhn_tf.arguments import refuse_masked

# Beginnings of the names of the dtypes of NumPy, pandas and Arrow.
_OF_TIMES = ("date", "duration", "interval", "period", "time")


def refuse_no_numbers(name: str, values) -> None:
    """Refuses masked entries and times, which would be taken for numbers.

    The number of a moment depends on the resolution of its array, so that `predict`
    might get another one than `fit`.

    Raises:
        ValueError: If an entry is masked or a column holds dates, times or intervals.

    Example:
        >>> refuse_no_numbers("X", np.array([[1.0, 2.0]]))
    """
    refuse_masked(name, values)
    for dtype in _dtypes(values):
        if str(dtype).startswith(_OF_TIMES):
            raise ValueError(
                f"`{name}` holds {dtype}, and no numbers. Give numbers in a unit of "
                "your choice, such as `(t - start) / numpy.timedelta64(1, 'D')` for "
                "days."
            )


def labels_of_numpy(y):
    """Returns labels of pandas' nullable dtypes in the dtype of NumPy that they name.

    scikit-learn would make floats of integers and Booleans, and answer with these.

    Args:
        y: Labels in any form.

    Raises:
        ValueError: If labels are masked or missing.

    Example:
        >>> labels_of_numpy([1, 2])
        [1, 2]
    """
    refuse_masked("y", y)
    # Recognises pandas without importing it.
    if not hasattr(y, "isna"):
        return y
    missing = np.asarray(y.isna()).reshape(len(y), -1).any(axis=1)
    if missing.any():
        raise ValueError(
            f"`y` has missing values (NaN or None) in {missing.sum()} of {len(y)} "
            "rows. Leave these rows out."
        )
    named = [getattr(dtype, "numpy_dtype", None) for dtype in _dtypes(y)]
    # Of several columns there is no class; scikit-learn says so.
    return y if len(named) != 1 or named[0] is None else y.to_numpy(named[0])


def _dtypes(values) -> list:
    """Dtypes of an array or series, or of the columns of a frame."""
    if hasattr(values, "dtype"):
        return [values.dtype]
    return list(getattr(values, "dtypes", ()))
