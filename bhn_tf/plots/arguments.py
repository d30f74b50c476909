"""Checks of the values to be drawn."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.arguments import with_nan_for_masked


def row(values: ArrayLike, name: str, length: int | None = None) -> np.ndarray:
    """Returns values as [rows], checked; `name` is their name in errors."""
    array = np.asarray(with_nan_for_masked(values), dtype=float)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not len(array) or length not in (None, len(array)):
        wanted = "at least one" if length is None else str(length)
        raise ValueError(
            f"Expected {name} to have the shape [rows] or [rows, 1] with {wanted} "
            f"rows, got shape {list(array.shape)}."
        )
    return array


def require_finite(values: np.ndarray, name: str) -> None:
    """Raises `ValueError` unless there are numbers, all of them finite."""
    if not values.size or not np.isfinite(values).all():
        raise ValueError(
            f"Expected {name} to be finite numbers, at least one, got {values.size} "
            f"numbers, {np.count_nonzero(~np.isfinite(values))} of them NaN or "
            "infinite."
        )


def require_no_negative_std(std: np.ndarray, name: str) -> None:
    """Raises `ValueError` if a standard deviation is negative; NaN passes."""
    if (std < 0).any():
        raise ValueError(
            f"`{name}` must not be negative; its smallest entry is {np.nanmin(std):g}. "
            "A log variance, for example, becomes one by `np.exp(0.5 * log_variance)`."
        )


def require_entries(entries: Mapping, name: str) -> None:
    """Raises `ValueError` unless `entries` maps at least one name to something."""
    if not isinstance(entries, Mapping) or not entries:
        raise ValueError(
            f"Expected `{name}` to be a dictionary from name to values with at least "
            f"one entry, such as {{'model': ...}}, got {entries!r:.100}."
        )


def require_same_names(panels: Mapping[str, Mapping], name: str) -> None:
    """Raises `ValueError` unless all panels have the same names in the same order.

    They share one legend, and the place of a name decides its colour.
    """
    title, first = next(iter(panels.items()))
    for other, entries in panels.items():
        if list(entries) != list(first):
            raise ValueError(
                f"The panels of `{name}` share one legend, and {title!r} has "
                f"{list(first)}, but {other!r} has {list(entries)}. Give each the same "
                "names in the same order."
            )
