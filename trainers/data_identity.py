"""By what a run knows its data again: numbers of rows, and checksums of some."""

import zlib

import numpy as np

# Sets may be large.
_MOST_ROWS = 100


def identity_of(data) -> dict[str, str]:
    """What tells data of the same names apart, by their names joined by "/".

    Args:
        data: What an experiment's `load` returned: a dictionary, whose named tuples and
            dictionaries are entered. Pairs `(x, y)` are as they were read, to the last
            bit. Images without labels have been resized, which is not the same on every
            machine: these are known by their mean. Nothing else is looked at, besides
            whole numbers.
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
            found |= {f"{name}/{key}": v for key, v in identity_of(inner).items()}
    return found


def _is_pair(value) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(part, np.ndarray) for part in value)
    )


def _checksum(x: np.ndarray, y: np.ndarray) -> int:
    """Of all labels and some rows."""
    return zlib.crc32(_some(x).tobytes(), zlib.crc32(np.ascontiguousarray(y).tobytes()))


def _some(x: np.ndarray) -> np.ndarray:
    """Rows at equal distances: those of a folder are in the order of their classes."""
    return x[:: max(len(x) // _MOST_ROWS, 1)]
