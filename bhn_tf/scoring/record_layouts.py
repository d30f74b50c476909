"""What a TFRecord may hold, seen at its first record."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bhn_tf.scoring.encoded_images import check_takes_images, decode, is_image
from bhn_tf.scoring.rows import check_rows, only_input
from bhn_tf.serving.problems import ScoringProblem

#: Feature that names a row.
ID = "id"


def layout_of(record: bytes, specs: dict, name: str) -> Callable:
    """Returns a function from a record to its id, or `None`, and its inputs.

    Args:
        record: The first record of a file.
        specs: What the model takes; see `ServedModel.input_specs`.
        name: Name of the file, for messages.

    Returns:
        A function of a scalar string tensor for `tf.data`, to a dictionary of tensors
        by input, and `id` where the records have one.

    Raises:
        ScoringProblem: If the model does not take such records.
    """
    features = _features(record)
    if features:
        return _of_example(features, specs, name)
    proto = _tensor_proto(record)
    if proto is None:
        raise ScoringProblem(
            f"{name}: the first record is neither a tf.train.Example with features "
            "nor a tensor written by tf.io.serialize_tensor."
        )
    key, spec = only_input(specs, name, "a file of serialized tensors")
    read = _of_tensor(proto, spec, name)
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
    """How a feature is parsed, and what becomes of it."""
    dtype = _dtype(feature)
    shape = spec.shape[1:]
    if dtype != tf.string or spec.dtype == tf.string:
        if not shape.is_fully_defined():
            raise ScoringProblem(
                f"{where}: the model takes rows of the shape {tuple(shape)}, which "
                "values in a list do not tell. Write tf.io.serialize_tensor of them."
            )
        size = len(getattr(feature, feature.WhichOneof("kind")).value)
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
        check_rows(decode(contents, spec).shape, spec.dtype, spec, where)
        return one, lambda value: tf.ensure_shape(decode(value, spec), shape)
    proto = _tensor_proto(contents)
    if proto is None:
        raise ScoringProblem(
            f"{where}: the bytes are neither a PNG, JPEG, BMP or GIF image nor a "
            "tensor written by tf.io.serialize_tensor."
        )
    return one, _of_tensor(proto, spec, where)


def _of_tensor(proto, spec, where):
    dtype = tf.as_dtype(proto.dtype)
    check_rows(tf.TensorShape(proto.tensor_shape), dtype, spec, where)
    shape = spec.shape[1:]
    return lambda value: tf.ensure_shape(tf.io.parse_tensor(value, dtype), shape)


def _dtype(feature) -> tf.DType:
    kinds = {"float_list": tf.float32, "int64_list": tf.int64, "bytes_list": tf.string}
    # An empty feature has no kind; the number of its values will not fit.
    return kinds[feature.WhichOneof("kind") or "float_list"]


def _features(record):
    try:
        return dict(tf.train.Example.FromString(record).features.feature)
    except DecodeError:
        return {}


def _tensor_proto(contents):
    """The tensor that bytes hold, or `None`."""
    proto = tf.make_tensor_proto(np.float32(0))
    try:
        proto = type(proto).FromString(contents)
    except DecodeError:
        return None
    return proto if proto.dtype else None
