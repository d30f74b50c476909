"""Reads labels, predictive probabilities and weights into one checked form."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from bhn_tf.arguments import with_nan_for_masked

# Softmax in half precision over many classes sums to 1 within this.
_TOLERANCE = 1e-2


class LabelledItems(NamedTuple):
    """Items (rows, pixels, tokens) in one axis, all of one floating dtype.

    Attributes:
        target: [n, C], one-hot or soft labels. For C = 1 the label itself, 0 or 1.
        probabilities: [n, C]. For C = 1 that of class 1.
        weight: [n]. 0 for absent items; NaN for items that are NaN, or invalid where no
            error can be raised, so that every sum they enter becomes NaN.
    """

    target: tf.Tensor
    probabilities: tf.Tensor
    weight: tf.Tensor


def labelled_items(
    labels: ArrayLike,
    probabilities: ArrayLike,
    sample_weight: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> LabelledItems:
    """Brings every coding of labels into one form and checks it.

    Args:
        labels: integers [B, ...] or [B, ..., 1], also as floats, or one-hot or soft
            labels [B, ..., C].
        probabilities: [B, ..., C]; C = 1, or [B], is binary: that of class 1.
        sample_weight: [B], [B, 1] or [B, ...]; by default 1 each. Items of weight 0
            are neither checked nor counted.
        mask: [B, ...], False for items that shall have weight 0.

    Returns:
        `LabelledItems(target, probabilities, weight)`.

    Raises:
        ValueError: shapes that do not fit; labels out of range; predictions that are
            not probabilities. In a graph, wrong values raise `InvalidArgumentError`;
            under XLA, which drops assertions, they get weight NaN.

    Example:
        >>> items = labelled_items([2, 0], [[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
        >>> items.target.numpy().tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    p = tf.convert_to_tensor(with_nan_for_masked(probabilities))
    p = p if p.dtype == tf.float64 else tf.cast(p, tf.float32)
    given = tf.convert_to_tensor(with_nan_for_masked(labels))
    if given.dtype == tf.string:
        raise ValueError(
            "Got labels that are text: give the numbers of the classes, in the order "
            "of the probabilities."
        )
    if p.shape.rank == 1:
        p = p[:, tf.newaxis]
    if not p.shape.rank or not p.shape[-1] or given.shape.rank is None:
        raise ValueError(
            f"Probabilities of shape {p.shape} and labels of shape {given.shape}: "
            "expected [B, ..., C] and [B, ...], with C >= 1 and the number of axes "
            "known. Inside `tf.function` or `tf.data`, set them with "
            "`tf.ensure_shape`."
        )
    num_classes = p.shape[-1]
    target, valid = _target(given, p)
    valid &= tf.reduce_all((p >= -_TOLERANCE) & (p <= 1 + _TOLERANCE), axis=-1)
    # A sum below 1 is allowed: a class may have been left out, and no measure rewards
    # that.
    valid &= tf.reduce_sum(p, axis=-1) < 1 + _TOLERANCE
    weight = _weight(p, sample_weight, mask)
    absent = weight == 0
    unknown = tf.reduce_any(tf.math.is_nan(p), axis=-1)
    _raise_unless(tf.reduce_all(valid | unknown | absent), num_classes)
    not_a_number = tf.constant(np.nan, p.dtype)
    weight = tf.where(absent | (valid & ~unknown), weight, not_a_number)
    return LabelledItems(
        tf.reshape(target, (-1, num_classes)),
        tf.reshape(p, (-1, num_classes)),
        tf.reshape(weight, (-1,)),
    )


def _target(labels: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Labels as [B, ..., C], and which of them are valid, [B, ...]."""
    num_classes = p.shape[-1]
    if labels.shape.rank == p.shape.rank and labels.shape[-1] == 1:
        labels = labels[..., 0]
    # Reshaped, not broadcast: [B, 1] against [B] would pair every row with all others.
    if labels.shape.is_compatible_with(p.shape):
        target = tf.cast(tf.reshape(labels, tf.shape(p)), p.dtype)
        sums_to_one = tf.abs(tf.reduce_sum(target, axis=-1) - 1) < _TOLERANCE
        return target, sums_to_one & tf.reduce_all(target >= 0, axis=-1)
    if labels.shape.is_compatible_with(p.shape[:-1]):
        labels = tf.reshape(labels, tf.shape(p)[:-1])
        classes = tf.cast(labels, tf.int64)
        valid = (classes >= 0) & (classes < max(num_classes, 2))
        valid &= tf.cast(classes, labels.dtype) == labels
        target = tf.one_hot(classes, max(num_classes, 2), dtype=p.dtype)
        return target[..., 1:] if num_classes == 1 else target, valid
    raise ValueError(
        f"Labels of shape {labels.shape} do not fit probabilities of shape {p.shape}. "
        f"Expected integers {p.shape[:-1]} or one-hot labels {p.shape}."
    )


def _weight(p: tf.Tensor, sample_weight, mask) -> tf.Tensor:
    """Weights [B, ...]; weights of rows, [B], apply to all items of a row."""
    weight = tf.ones(tf.shape(p)[:-1], p.dtype)
    if sample_weight is not None:
        given = tf.cast(tf.convert_to_tensor(sample_weight), p.dtype)
        if given.shape.rank == p.shape.rank and given.shape[-1] == 1:
            given = given[..., 0]
        shape = given.shape
        for _ in range(p.shape.rank - 1 - (shape.rank or 0)):
            given = given[..., tf.newaxis]
        if shape.rank is None or not _broadcasts(given.shape, p.shape[:-1]):
            raise ValueError(
                f"Sample weights of shape {shape} do not fit probabilities of shape "
                f"{p.shape}. Expected one a row or one an item, {p.shape[:-1]}."
            )
        weight = tf.broadcast_to(given, tf.shape(weight))
    if mask is not None:
        weight = tf.where(tf.cast(mask, tf.bool), weight, tf.zeros_like(weight))
    return weight


def _broadcasts(shape: tf.TensorShape, to: tf.TensorShape) -> bool:
    return shape.rank == to.rank and all(
        None in sizes or sizes[0] in (1, sizes[1])
        for sizes in zip(shape, to, strict=True)
    )


def _raise_unless(condition: tf.Tensor, num_classes: int) -> None:
    message = (
        "Labels or predictions that cannot be measured. Labels must be integers in "
        f"0..{max(num_classes, 2) - 1} or one-hot rows that sum to 1; predictions must "
        "be probabilities that sum to 1 over the last axis (apply `softmax`, or "
        "`sigmoid` for C = 1, to logits). Give items to be left out a sample weight "
        "of 0. For several independent binary outputs use one metric each."
    )
    if not tf.executing_eagerly():
        tf.debugging.Assert(condition, [message])
    elif not condition:
        raise ValueError(message)
