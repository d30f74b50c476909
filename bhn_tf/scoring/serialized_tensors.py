"""Tensors written by `tf.io.serialize_tensor`, from files that are not trusted."""

import functools
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bhn_tf.scoring.batches import check_rows, checked_bytes
from bhn_tf.serving.problems import ScoringProblem


def tensor_proto(contents: bytes):
    """The tensor message in bytes, or `None`; nothing is unpacked."""
    proto = tf.make_tensor_proto(np.float32(0))
    try:
        proto = type(proto).FromString(contents)
    except DecodeError:
        return None
    return proto if proto.dtype else None


def reader_of_tensors(proto, spec: tf.TensorSpec, where: str) -> Callable:
    """Returns a function, for graphs, from bytes to the tensor that they hold.

    Args:
        proto: The tensor of the first row; all others must be like it.
        spec: What the model takes, rows first.
        where: Name of the file, for messages.

    Raises:
        ScoringProblem: If the model does not take such tensors.
    """
    found = [dim.size for dim in proto.tensor_shape.dim]
    try:
        dtype = tf.as_dtype(proto.dtype)
    except TypeError:
        dtype = None
    if dtype is None or proto.tensor_shape.unknown_rank or min(found, default=0) < 0:
        raise ScoringProblem(
            f"{where}: the serialized tensor has a dtype ({proto.dtype}) or a shape "
            f"({found}) that no tensor has. Write it with tf.io.serialize_tensor."
        )
    check_rows(found, dtype, spec, where)
    shape = spec.shape[1:]
    check = functools.partial(_check_header, dtype=dtype, shape=shape)

    def read(value):
        value = checked_bytes(value, check)
        return tf.ensure_shape(tf.io.parse_tensor(value, dtype), shape)

    return read


def _check_header(contents, dtype, shape) -> None:
    """Refuses a tensor of another kind, before it is unpacked.

    Few bytes can represent any number of equal values, and so exhaust memory.
    """
    proto = tensor_proto(contents)
    if proto is None:
        raise ValueError("The bytes are no tensor written by tf.io.serialize_tensor.")
    found = [dim.size for dim in proto.tensor_shape.dim]
    if proto.dtype != dtype.as_datatype_enum:
        raise ValueError(f"The tensor is not {dtype.name}, as that of the first row.")
    if min(found, default=0) < 0 or not shape.is_compatible_with(found):
        raise ValueError(
            f"A tensor of the shape {tuple(found)}, and the model takes {tuple(shape)}."
        )
    if not shape.is_fully_defined() and math.prod(found) > len(contents):
        raise ValueError(
            f"A tensor of the shape {tuple(found)} in {len(contents)} bytes, which "
            "tf.io.serialize_tensor does not write."
        )
