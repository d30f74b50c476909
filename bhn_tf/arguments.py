"""Checks of arguments that several places share."""

import numpy as np


def check_count(name: str, value, minimum: int) -> None:
    """Raises `ValueError` unless `value` is an integer of at least `minimum`."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < minimum:
        raise ValueError(
            f"Expected `{name}` to be an integer of at least {minimum}, got {value!r}."
        )
