"""Rows of a TFRecord file, read once from its beginning to its end."""

import re
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from bhn_tf.scoring.record_layouts import ID, layout_of
from bhn_tf.scoring.rows import Batch, as_rows
from bhn_tf.serving.problems import ScoringProblem

_NAME = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz)?$")


def is_record_file(path: Path) -> bool:
    """Whether a name is that of a TFRecord file.

    Example:
        >>> is_record_file(Path("x.tfrecord-00000-of-00004"))
        True
    """
    return _NAME.search(path.name) is not None


class RecordFile:
    """A TFRecord file; one whose name ends with .gz is decompressed.

    Each record is one row: a `tf.train.Example` with a feature for each input of the
    model, named as the input, or, for a model of one input, a tensor written by
    `tf.io.serialize_tensor`. A feature holds the values of the row in a list
    (`float_list` or `int64_list`, the last axis fastest), or one byte string: an
    encoded image, or a serialized tensor. A feature `id`, a text or an integer, names
    the row; else it is called `<file>:<row>`.

    Args:
        path: The file.
    """

    # A TFRecord does not tell.
    num_rows = None

    def __init__(self, path: Path):
        self.name = str(path)
        self.files = [Path(path)]
        compression = "GZIP" if self.name.endswith(".gz") else ""
        self._records = tf.data.TFRecordDataset(self.name, compression)

    def check(self, specs: dict) -> None:
        """Refuses records that the model does not take, by the first one."""
        self._layout(specs)

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the records from `start` on, `size` at a time."""
        layout = self._layout(specs)
        if layout is None:
            return
        rows = self._records.skip(start).map(layout, tf.data.AUTOTUNE)
        first = start
        for values in self._read(rows.batch(size).prefetch(2), first, size):
            names = values.pop(ID, None) if ID not in specs else None
            where = f"{self.name}, rows from {first}"
            inputs = {key: as_rows(values[key], specs[key], where) for key in specs}
            count = len(next(iter(inputs.values())))
            if names is None:
                ids = [f"{self.name}:{first + row}" for row in range(count)]
            else:
                ids = [_text(name) for name in names]
            yield Batch(ids, inputs)
            first += count

    def _layout(self, specs):
        """How records are read; `None` for a file without any."""
        for record in self._read(self._records.take(1), 0, 1):
            return layout_of(record, specs, self.name)
        return None

    def _read(self, rows, first, size):
        """Elements as NumPy, with the file named where one cannot be read."""
        elements = rows.as_numpy_iterator()
        while True:
            try:
                element = next(elements, None)
            except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
                raise ScoringProblem(
                    f"{self.name}: a record from row {first} on cannot be read: "
                    f"{error.message.splitlines()[0][:300]} Records have to be like "
                    "the first one, and the file whole."
                ) from error
            if element is None:
                return
            yield element
            first += size


def _text(name) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
