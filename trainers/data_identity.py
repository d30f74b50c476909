"""How a run recognises its data: by numbers of rows, and checksums of some rows."""

import zlib

import numpy as np

# About so many rows of a set are read: sets may be large.
_MOST_ROWS = 100


def identity_of(data) -> dict[str, str]:
    """What tells data of the same names apart, by names joined with "/".

    Pairs `(x, y)` are as they were read, to the last bit, and have a checksum. Images
    without labels have been resized, which differs a little between machines, and have
    their mean. Whole numbers stand for themselves; anything else is left out.

    Args:
        data: What an experiment's `load` returned: a dictionary, which may hold others,
            named tuples and lists, whose entries are named by their numbers.
    """
    found = {}
    for name, value in data.items() if isinstance(data, dict) else ():
        if isinstance(value, int | np.integer):
            found[name] = str(value)
        elif isinstance(value, np.ndarray):
            mean = np.mean(_some(value), dtype="float64")
            found[name] = f"{len(value)} rows, mean {mean:.3f}"
        elif _is_pair(value):
            found[name] = f"{len(value[0])} rows, checksum {_checksum(*value):08x}"
        else:
            inner = value._asdict() if hasattr(value, "_asdict") else value
            inner = dict(enumerate(inner)) if isinstance(inner, list) else inner
            found |= {f"{name}/{key}": v for key, v in identity_of(inner).items()}
    return found


def _is_pair(value) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(part, np.ndarray) for part in value)
    )


def _checksum(x: np.ndarray, y: np.ndarray) -> int:
    """The checksum of all labels and some rows."""
    return zlib.crc32(_some(x).tobytes(), zlib.crc32(np.ascontiguousarray(y).tobytes()))


def _some(x: np.ndarray) -> np.ndarray:
    """Rows at equal distances, since those of a folder are ordered by class."""
    return x[:: max(len(x) // _MOST_ROWS, 1)]
