"""The range of values that y can take, as far as TFP's distributions show it."""

import tensorflow as tf

# A bijector maps numbers as large as `_FAR` to the ends of its range; an end beyond
# `_ENDLESS` counts as infinite.
_FAR = 1e30
_ENDLESS = 1e29


def support(distribution) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the least and the greatest value of a distribution.

    Args:
        distribution: A TFP distribution of single numbers.

    Returns:
        Two tensors of its batch shape; infinite where there is no end, or no known one.

    Example:
        >>> import tensorflow_probability as tfp
        >>> low, high = support(tfp.distributions.LogNormal(0.0, 1.0))
        >>> float(low), float(high)
        (0.0, inf)
    """
    infinity = tf.constant(float("inf"), distribution.dtype)
    try:
        bijector = distribution.experimental_default_event_space_bijector()
    except NotImplementedError:
        bijector = None
    low, high = -infinity, infinity
    if bijector is not None:
        far = tf.constant(_FAR, distribution.dtype)
        ends = bijector.forward(-far), bijector.forward(far)
        # A bijector may be decreasing, such as a reciprocal.
        low, high = tf.minimum(*ends), tf.maximum(*ends)
        low = tf.where(low > -_ENDLESS, low, -infinity)
        high = tf.where(high < _ENDLESS, high, infinity)
    zeros = tf.zeros(distribution.batch_shape_tensor(), distribution.dtype)
    return low + zeros, high + zeros


def kept_possible(bounds, distribution) -> list[tf.Tensor]:
    """Returns bounds of a mixture over the first axis, moved into its support.

    A search ends within a tolerance, so that a bound may lie outside.

    Args:
        bounds: Bounds of y, [B, ...] each.
        distribution: A distribution for each draw, [S, B, ...].
    """
    low, high = support(distribution)
    low, high = tf.reduce_min(low, axis=0), tf.reduce_max(high, axis=0)
    # These comparisons keep NaN.
    bounds = [tf.where(bound < low, low, bound) for bound in bounds]
    return [tf.where(bound > high, high, bound) for bound in bounds]


def outside(distribution, y, probability) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns where y is below, and where above, the support.

    There TFP's functions may give NaN, or anything.

    Args:
        distribution: A TFP distribution of single numbers, with a mean.
        y: Values.
        probability: TFP's probability of them, or its logarithm. Where it is NaN, y is
            taken to be outside, on its side of the mean.

    Returns:
        Two tensors of booleans.
    """
    low, high = support(distribution)
    is_unknown, mean = tf.math.is_nan(probability), distribution.mean()
    is_below = (y < low) | (is_unknown & (y < mean))
    return is_below, (y > high) | (is_unknown & (y > mean))
