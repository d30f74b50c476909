"""Between which numbers y lies, where TFP's distributions can tell."""

import tensorflow as tf

# What a bijector makes of numbers as large as these is the end of its range; a range
# that reaches as far has no end.
_FAR = 1e30
_ENDLESS = 1e29


def support(distribution) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the least and the greatest value of a distribution.

    Args:
        distribution: A TFP distribution of single numbers.

    Returns:
        Two tensors of its batch shape; infinite where there is no end, or none that
        the distribution tells.

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
        # A bijector may fall, such as a reciprocal.
        low, high = tf.minimum(*ends), tf.maximum(*ends)
        low = tf.where(low > -_ENDLESS, low, -infinity)
        high = tf.where(high < _ENDLESS, high, infinity)
    zeros = tf.zeros(distribution.batch_shape_tensor(), distribution.dtype)
    return low + zeros, high + zeros


def kept_possible(bounds, distribution) -> list[tf.Tensor]:
    """Returns bounds of a mixture over the first axis, moved to what it can be.

    A search for a bound ends within a tolerance, which may lie outside.

    Args:
        bounds: Of y, [B, ...] each.
        distribution: One for each draw, [S, B, ...].
    """
    low, high = support(distribution)
    low, high = tf.reduce_min(low, axis=0), tf.reduce_max(high, axis=0)
    # Comparisons leave NaN as it is.
    bounds = [tf.where(bound < low, low, bound) for bound in bounds]
    return [tf.where(bound > high, high, bound) for bound in bounds]


def outside(distribution, y, probability) -> tuple[tf.Tensor, tf.Tensor]:
    """Tells where y is below, or above, all that is possible.

    There TFP's functions may give NaN, or anything.

    Args:
        distribution: A TFP distribution of single numbers, with a mean.
        y: Values.
        probability: What TFP gave there, or its logarithm: NaN, of what has a mean, is
            taken to be outside.

    Returns:
        Two tensors of booleans.
    """
    low, high = support(distribution)
    is_unknown, mean = tf.math.is_nan(probability), distribution.mean()
    is_below = (y < low) | (is_unknown & (y < mean))
    return is_below, (y > high) | (is_unknown & (y > mean))
