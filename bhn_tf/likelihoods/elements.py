"""Elements of an example, and the weights and masks that say which of them count.

Each element has its own log-probability: a token, a pixel, an output.
"""

import tensorflow as tf


def align(values, element_shape, name: str) -> tf.Tensor:
    """Gives weights or a mask the axes of the elements, so that they broadcast.

    Args:
        values: Have the elements' shape or its leading axes ([B] at least), with or
            without a further axis of 1.
        element_shape: Shape of the elements, [B, ...]; entries may be `None`.
        name: What the values are, for the error.

    Returns:
        The values, with an axis of 1 for each missing axis.

    Raises:
        ValueError: If the shape is none of these.

    Example:
        >>> align([2.0, 0.0], (2, 5), "weight").shape
        TensorShape([2, 1])
    """
    values, element_shape = tf.convert_to_tensor(values), tf.TensorShape(element_shape)
    given, rank = values.shape, element_shape.rank

    def is_leading(shape):
        return 1 <= shape.rank <= rank and shape.is_compatible_with(
            element_shape[: shape.rank]
        )

    if given.rank and is_leading(given):
        return values[(..., *[None] * (rank - given.rank))]
    if given.rank and given[-1] == 1 and is_leading(given[:-1]):
        return align(values[..., 0], element_shape, name)
    fitting = [tuple(element_shape[: axes + 1]) for axes in range(rank)]
    raise ValueError(
        f"`{name}` of shape {given} does not fit the labels, which have elements of "
        f"shape {tuple(element_shape)}: give one of the shapes "
        f"{', '.join(map(str, fitting))}, with or without a further axis of 1."
    )


def both(first, second):
    """Where both are true; `None` is true everywhere."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def neutral_where_uncounted(values, counted, element_shape, neutral) -> tf.Tensor:
    """Replaces the values of elements that do not count, NaN included.

    This has to precede all computation: the gradient of a branch that is not taken is
    multiplied by 0, and 0 · NaN is NaN.

    Args:
        values: Have the elements' shape, or a further axis (classes), or several blocks
            of the elements side by side on the last axis (means and spreads).
        counted: Booleans with the elements' axes; see `align`.
        element_shape: Shape of the elements.
        neutral: The replacement.
    """
    neutral = tf.cast(neutral, values.dtype)
    if values.shape.rank > len(element_shape):
        return tf.where(counted[..., None], values, neutral)
    if values.shape[-1] == element_shape[-1]:
        return tf.where(counted, values, neutral)
    if values.shape[-1] % element_shape[-1]:
        # Not blocks of elements: replaced only where no element counts.
        return tf.where(tf.reduce_any(counted, axis=-1, keepdims=True), values, neutral)
    blocks = tf.split(values, values.shape[-1] // element_shape[-1], axis=-1)
    return tf.concat([tf.where(counted, block, neutral) for block in blocks], axis=-1)


def nan_where_padded(values, mask) -> tf.Tensor:
    """Puts NaN in place of values of padding."""
    if mask is None:
        return values
    mask = tf.cast(align(mask, values.shape, "mask"), tf.bool)
    return tf.where(mask, values, tf.constant(float("nan"), values.dtype))
