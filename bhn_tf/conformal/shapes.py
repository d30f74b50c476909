"""The shape of scores that a function of a user's own returns."""

import tensorflow as tf


def require_shape(scores, shape, one_for_each: str) -> tf.Tensor:
    """Returns scores as a tensor, if there is one for each.

    Args:
        scores: What the function returned.
        shape: The shape that they should have.
        one_for_each: What each score is of, for the error.

    Raises:
        ValueError: If they have another shape.
    """
    scores = tf.convert_to_tensor(scores)
    if not scores.shape.is_compatible_with(shape):
        raise ValueError(
            f"The function given as `score` returned the shape {scores.shape}: "
            f"expected {shape}, a score for each {one_for_each}."
        )
    return scores
