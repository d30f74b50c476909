"""How `load` sees every data set: named splits and a way to read them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray]


class Source(NamedTuple):
    """A data set that has been found but not yet read.

    Args:
        splits: the names of its splits.
        read: turns a sequence of splits into a dictionary split -> (x, y). It gets
            all wanted splits at once, so that a file they share is parsed once.
        allows_slices: whether `read` also understands slices of a split, such as
            `"train[:500]"`.
    """

    splits: tuple[str, ...]
    read: Callable[[Sequence[str]], dict[str, Arrays]]
    allows_slices: bool = False


def unlabelled(x: np.ndarray) -> dict[str, Arrays]:
    """Wraps images without classes as the only split `"all"`, with labels of 0."""
    return {"all": (x, np.zeros(len(x), np.int32))}
