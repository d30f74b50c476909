"""Rows of a TFRecord file, whose layout is taken from its first record."""

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError

from bhn_tf.image_headers import is_image
from bhn_tf.scoring.batches import Batch, as_rows, check_rows, only_input, text_of
from bhn_tf.scoring.image_files import check_takes_images, decode
from bhn_tf.scoring.serialized_tensors import reader_of_tensors, tensor_proto
from bhn_tf.serving.problems import ScoringProblem

#: Feature that names a row.
ID = "id"

# What TensorFlow adds to an error: its place in the graph, and its type.
_NODE = re.compile(
    r"Error in user-defined function passed to .*? iterator: \S+: |"
    r"\{\{\w+ [^}]*\}\}\s*|ValueError: "
)
_NAME = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz)?$")


def is_record_file(path: Path) -> bool:
    """Whether a file is named like a TFRecord file.

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
    the row; otherwise its name is `<file>:<row>`.

    Args:
        path: The file.
    """

    def __init__(self, path: Path):
        self.name = text_of(path)
        self.files = [Path(path)]
        # Unknown: a TFRecord does not record it.
        self.num_rows: int | None = None
        compression = "GZIP" if self.name.endswith(".gz") else ""
        self._records = tf.data.TFRecordDataset([os.fsencode(path)], compression)

    def check(self, specs: dict) -> None:
        """Refuses records that the model does not take, judging by the first one."""
        self.num_rows = 0 if self._layout(specs) is None else None

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the records from `start` on, `size` at a time."""
        layout = self._layout(specs)
        if layout is None:
            return
        rows = self._records.skip(start).map(layout, tf.data.AUTOTUNE)
        first = start
        for values in _batched(rows, self.name, start, size):
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
        for record in elements(self._records.take(1), self.name):
            return layout_of(record, specs, self.name)
        return None


def elements(rows: tf.data.Dataset, where: str) -> Iterator:
    """Yields the elements of a data set as NumPy; errors name what cannot be read.

    Args:
        rows: Parsed records, or batches of them.
        where: Name of the file or the rows, for the message.

    Raises:
        ScoringProblem: If a record is not like the first one, or damaged.
    """
    iterator = rows.as_numpy_iterator()
    while (element := _next(iterator, where)) is not None:
        yield element


def _batched(rows: tf.data.Dataset, where: str, first: int, size: int) -> Iterator:
    """Yields batches of rows; an error names the row that cannot be read."""
    batches = rows.batch(size).prefetch(2).as_numpy_iterator()
    for number in itertools.count():
        start = first + number * size
        try:
            batch = _next(batches, f"{where}, rows from {start}")
        except ScoringProblem:
            # Rows one by one find the broken one; batches fail also if shapes differ.
            alone = rows.skip(number * size).take(size).as_numpy_iterator()
            for row in range(start, start + size):
                _next(alone, f"{where}, row {row}")
            raise
        if batch is None:
            return
        yield batch


def _next(iterator, where: str):
    try:
        return next(iterator, None)
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        # TensorFlow's messages may quote bytes that are not text.
        reason = getattr(error, "message", str(error)).partition("\n")[0]
        reason = _NODE.sub("", reason)[:300]
        raise ScoringProblem(
            f"{where}: the record cannot be read: {reason} Records have to be like the "
            "first one, and the file whole."
        ) from error


def _text(name) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def layout_of(record: bytes, specs: dict, name: str) -> Callable:
    """Returns a function from a record to its id, or `None`, and its inputs.

    Args:
        record: The first record of a file.
        specs: What the model takes; see `ServedModel.input_specs`.
        name: Name of the file, for messages.

    Returns:
        A function for `tf.data` from a scalar string tensor to a dictionary of tensors
        by input, with `id` if the records have one.

    Raises:
        ScoringProblem: If the model does not take such records.
    """
    features = _features(record)
    if features:
        return _of_example(features, specs, name)
    proto = tensor_proto(record)
    if proto is None:
        raise ScoringProblem(
            f"{name}: the first record is neither a tf.train.Example with features "
            "nor a tensor written by tf.io.serialize_tensor."
        )
    key, spec = only_input(specs, name, "a file of serialized tensors")
    read = reader_of_tensors(proto, spec, name)
    return lambda record: {key: read(record)}


def _of_example(features, specs, name):
    missing = sorted(set(specs) - set(features))
    if missing:
        raise ScoringProblem(
            f"{name}: the first record has the features {sorted(features)}, and the "
            f"model takes {sorted(specs)}: {missing} missing. Features have to be "
            "named as the inputs."
        )
    parsers, readers = {}, {}
    for key, spec in specs.items():
        where = f"{name}, feature {key!r}"
        parsers[key], readers[key] = _of_feature(features[key], spec, where)
    if ID in features and ID not in specs:
        parsers[ID] = tf.io.FixedLenFeature([], _dtype(features[ID]))
        readers[ID] = tf.identity

    def read(record):
        parsed = tf.io.parse_single_example(record, parsers)
        return {key: reader(parsed[key]) for key, reader in readers.items()}

    return read


def _of_feature(feature, spec, where):
    """How a feature is parsed, and how it is then converted."""
    dtype = _dtype(feature)
    shape = spec.shape[1:]
    if dtype != tf.string or spec.dtype == tf.string:
        if not shape.is_fully_defined():
            raise ScoringProblem(
                f"{where}: the model takes rows of the shape {tuple(shape)}, which "
                "values in a list do not tell. Write tf.io.serialize_tensor of them."
            )
        size = len(getattr(feature, _kind(feature)).value)
        if size != shape.num_elements():
            raise ScoringProblem(
                f"{where}: a row has {size} values, and the model takes "
                f"{shape.num_elements()}, of the shape {tuple(shape)}."
            )
        check_rows(shape, dtype, spec, where)
        return tf.io.FixedLenFeature(shape, dtype), tf.identity
    (contents, *more) = feature.bytes_list.value or [b""]
    if more:
        raise ScoringProblem(
            f"{where}: {1 + len(more)} byte strings, where one encoded image or one "
            "serialized tensor is expected."
        )
    one = tf.io.FixedLenFeature([], tf.string)
    if is_image(contents):
        check_takes_images(spec, where)
        try:
            decode(contents, spec)
        except ValueError as error:
            raise ScoringProblem(f"{where}: {error}") from error
        return one, lambda value: tf.ensure_shape(decode(value, spec), shape)
    proto = tensor_proto(contents)
    if proto is None:
        raise ScoringProblem(
            f"{where}: the bytes are neither a PNG, JPEG, BMP or GIF image nor a "
            "tensor written by tf.io.serialize_tensor."
        )
    return one, reader_of_tensors(proto, spec, where)


def _dtype(feature) -> tf.DType:
    kinds = {"float_list": tf.float32, "int64_list": tf.int64, "bytes_list": tf.string}
    return kinds[_kind(feature)]


def _kind(feature) -> str:
    # An empty feature has no kind; its number of values fails later.
    return feature.WhichOneof("kind") or "float_list"


def _features(record):
    try:
        return dict(tf.train.Example.FromString(record).features.feature)
    except DecodeError:
        return {}
