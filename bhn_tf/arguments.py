"""Checks of arguments, shared by the whole library."""

import numpy as np
import tensorflow as tf

# Numbers above it are infinite in float32.
_LARGEST_FLOAT32 = float(np.finfo("float32").max)


def asks_for_center(num_samples) -> bool:
    """Whether a number of draws, maybe a tensor, is 0 and so asks for the centre.

    A tensor comes from a request to a served model, which always draws.
    """
    return not tf.is_tensor(num_samples) and num_samples == 0


def check_given_counts(**counts) -> None:
    """Checks numbers such as `steps`, given by name; `None` passes.

    Raises:
        ValueError: If one is not an integer of at least 1.
    """
    for name, value in counts.items():
        if value is not None:
            check_count(name, value, minimum=1)


def check_count(name: str, value, minimum: int) -> int:
    """Returns `value` as a Python integer, which JSON can hold.

    Raises:
        ValueError: Unless it is an integer, also NumPy's, of at least `minimum`.
    """
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < minimum:
        raise ValueError(
            f"Expected `{name}` to be an integer of at least {minimum}, got {value!r}."
        )
    return int(value)


def check_amount(name: str, value, *, may_be_zero: bool = False) -> float:
    """Returns `value`, a number above 0 that float32 can hold, as a Python float.

    Raises:
        ValueError: Unless it is one real number, also NumPy's, and neither negative nor
            infinite in float32; nor 0, unless it may be.
    """
    is_number = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf"
    number = float(value) if is_number else float("nan")
    least_holds = number > 0 or (may_be_zero and number == 0)
    if not least_holds or number > _LARGEST_FLOAT32:
        wanted = "number of at least 0" if may_be_zero else "positive number"
        infinite = f" Above {_LARGEST_FLOAT32:.2g} it is infinite in float32."
        raise ValueError(
            f"Expected `{name}` to be a {wanted}, got {value!r}."
            + infinite * least_holds
        )
    return number


def fit_float32(numbers) -> bool:
    """Whether numbers, an array or one, are finite in float32."""
    # In float64, since the limit itself is infinite in float16.
    return bool(np.all(np.abs(np.asarray(numbers, "float64")) <= _LARGEST_FLOAT32))


def check_probability(name: str, value) -> float:
    """Returns `value`, a probability that is neither 0 nor 1, as a Python float.

    Raises:
        ValueError: Unless it is one real number, also NumPy's, above 0 and below 1.
    """
    is_several = np.ndim(value) > 0
    is_number = not is_several and np.asarray(value).dtype.kind == "f"
    if not is_number or not 0 < value < 1:
        raise ValueError(
            f"Expected `{name}` to be one probability between 0 and 1, both excluded, "
            f"got {value!r}." + " Call it once for each." * is_several
        )
    return float(value)


def refuse_masked(name: str, values) -> None:
    """Refuses masked entries, which Keras and scikit-learn would take for numbers.

    Raises:
        ValueError: If `values` is NumPy's masked array, and some entry is masked.
    """
    # What is no such array may have a column `_mask`, by which NumPy would go.
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        raise ValueError(
            f"`{name}` is a masked array with {np.ma.count_masked(values)} masked "
            "entries, and what is under a mask would be taken for numbers. Leave these "
            "rows out, or fill the entries: `.filled(...)`."
        )


def with_nan_for_masked(values):
    """Returns numbers with gaps as float64, NaN in the gaps, and all else as it is.

    Masked arrays of NumPy have gaps, and arrays and series of pandas' nullable dtypes.

    Example:
        >>> with_nan_for_masked(np.ma.masked_equal([1, 2], 2)).tolist()
        [1.0, nan]
    """
    if np.ma.isMaskedArray(values):
        return values.astype("float64").filled(np.nan)
    dtype = getattr(values, "dtype", None)
    if hasattr(dtype, "numpy_dtype") and dtype.kind in "biuf":
        return values.to_numpy("float64", na_value=np.nan)
    return values


def check_resolution(name: str, columns) -> None:
    """Refuses columns whose values float32, in which networks work, tells hardly apart.

    Time stamps are such: around 1.7e9, float32 has one number for 128 seconds. So are
    values below 1e-38, which are 0 on most devices.

    Args:
        name: Name of the data, for the error.
        columns: [rows, columns], float64; a masked array, if some entries do not count.

    Raises:
        ValueError: If a column varies by less than 64 steps of float32, but not only by
            the rounding of float64.
    """
    low, high = (np.ma.filled(f(columns, axis=0), 0.0) for f in (np.ma.min, np.ma.max))
    size = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(over="ignore", invalid="ignore"):
        step = np.spacing(size.astype("float32")).astype("float64")
        step = np.maximum(step, np.finfo("float32").tiny)
        is_coarse = (high - low < 64 * step) & (high - low > 1e-12 * size)
    if is_coarse.any():
        column = int(np.argmax(is_coarse))
        raise ValueError(
            f"`{name}` varies from {low[column]:.10g} to {high[column]:.10g} in column "
            f"{column}, where float32, in which networks work, has steps of "
            f"{step[column]:.3g}. Subtract an offset, such as the mean, or use a "
            "smaller unit, before."
        )
