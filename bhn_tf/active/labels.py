"""The file of labels, which also holds the ids of their rows.

A `.npy` file may hold several arrays in sequence; `numpy.load` of its path reads the
first, the labels. The ids of their rows and a description of the run follow. Thus a
kill cannot separate labels from ids, and one such file is enough to resume.
"""

import dataclasses
import json
import os
import zlib
from pathlib import Path

import numpy as np

from bhn_tf.files import NO_ARRAY, written_atomically

_VERSION = 1


class DamagedFileError(ValueError):
    """A file exists, but its content is not what was written."""


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels in the order in which they were given.

    Attributes:
        values: The labels, [n, ...].
        ids: The rows of the pool that they belong to, [n]; `None` if the file does not
            say.
        round_sizes: Number of labels in each round; their sum is n.
        configuration: That of the learner.
    """

    values: np.ndarray
    ids: np.ndarray | None = None
    round_sizes: list[int] | None = None
    configuration: dict | None = None


def write_labels(path: Path, labels: Labels) -> None:
    """Writes labels so that neither a kill nor a power cut leaves half of them."""
    # Only files written by people lack them.
    assert labels.ids is not None
    about = {
        "version": _VERSION,
        "round_sizes": labels.round_sizes,
        "configuration": labels.configuration,
    }
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    arrays = [labels.values, labels.ids, text]
    with written_atomically(path) as temporary, open(temporary, "wb") as file:
        for array in (*arrays, _checksum(arrays)):
            np.save(file, array, allow_pickle=False)


def read_labels(path: Path) -> Labels:
    """Reads what `write_labels` wrote, or an array of labels alone.

    Raises:
        FileNotFoundError: If there is no file.
        DamagedFileError: If it is truncated or altered, or holds no labels.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            arrays = [_next_array(file)]
            while file.tell() < size:
                arrays.append(_next_array(file))
            labels = _labels(*arrays)
        # A damaged header may ask for more memory than there is.
        except (*NO_ARRAY, MemoryError, RecursionError) as error:
            reason = str(error) or type(error).__name__
            raise DamagedFileError(f"{path} is damaged ({reason})") from error
    return labels


def _next_array(file) -> np.ndarray:
    return np.lib.format.read_array(file, allow_pickle=False)


def _labels(values, *rest) -> Labels:
    if values.ndim == 0 or values.dtype.kind not in "biuf":
        raise ValueError(f"no labels, but shape {list(values.shape)} of {values.dtype}")
    if not rest:
        return Labels(values)
    if len(rest) != 3 or rest[-1] != _checksum([values, *rest[:-1]]):
        raise ValueError("its checksum is another")
    ids, about = rest[0], json.loads(rest[1].tobytes())
    if about["version"] != _VERSION:
        raise ValueError(f"it is of version {about['version']}, not {_VERSION}")
    return Labels(values, ids, about["round_sizes"], about["configuration"])


def _checksum(arrays: list[np.ndarray]) -> np.ndarray:
    checksum = 0
    for array in arrays:
        text = f"{array.dtype}{array.shape}".encode()
        content = np.ascontiguousarray(array).tobytes()
        checksum = zlib.crc32(content, zlib.crc32(text, checksum))
    return np.array([checksum], np.uint32)
