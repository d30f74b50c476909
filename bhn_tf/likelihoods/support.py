"""The range of values that y can take, as far as TFP's distributions show it."""

import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions

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
    low, high = _ends(distribution)
    dtype = distribution.dtype if distribution.dtype.is_floating else tf.float32
    zeros = tf.zeros(distribution.batch_shape_tensor(), dtype)
    return tf.cast(low, dtype) + zeros, tf.cast(high, dtype) + zeros


def _ends(distribution):
    if isinstance(distribution, tfd.Deterministic):
        return distribution.loc, distribution.loc
    if isinstance(distribution, tfd.Bernoulli):
        return 0, 1
    if isinstance(distribution, tfd.Binomial | tfd.BetaBinomial):
        return 0, distribution.total_count
    if isinstance(distribution, tfd.Poisson | tfd.NegativeBinomial | tfd.Geometric):
        return 0, float("inf")
    if isinstance(distribution, tfd.MixtureSameFamily):
        low, high = support(distribution.components_distribution)
        return tf.reduce_min(low, axis=-1), tf.reduce_max(high, axis=-1)
    if isinstance(distribution, tfd.Mixture):
        lows, highs = zip(*map(support, distribution.components), strict=True)
        return tf.reduce_min(lows, axis=0), tf.reduce_max(highs, axis=0)
    return _ends_of_bijector(distribution)


def _ends_of_bijector(distribution):
    infinity = tf.constant(float("inf"), distribution.dtype)
    try:
        bijector = distribution.experimental_default_event_space_bijector()
    except NotImplementedError:
        bijector = None
    if bijector is None:
        return -infinity, infinity
    far = tf.constant(_FAR, distribution.dtype)
    ends = bijector.forward(-far), bijector.forward(far)
    # A bijector may be decreasing, such as a reciprocal.
    low, high = tf.minimum(*ends), tf.maximum(*ends)
    return (
        tf.where(low > -_ENDLESS, low, -infinity),
        tf.where(high < _ENDLESS, high, infinity),
    )


def common_support(distribution):
    """Returns a function of y that says where y is possible whatever the row.

    Where the support depends on the row, or is not known, everything is possible.

    Args:
        distribution: A TFP distribution of single numbers, [R, ...], for R rows that
            differ in all that a row can change.

    Returns:
        A function from finite values [B, ...] to booleans.

    Example:
        >>> import tensorflow_probability as tfp
        >>> is_possible = common_support(tfp.distributions.Exponential([1.0, 2.0]))
        >>> is_possible(tf.constant([-1.0, 0.0])).numpy().tolist()
        [False, True]
    """
    infinity = float("inf")
    if isinstance(distribution, tfd.VonMises):
        # Angles beyond half a turn are angles all the same.
        return lambda y: tf.ones_like(y, tf.bool)
    low, high = (
        tf.where(tf.reduce_all(end == end[:1], axis=0), end[0], unknown)
        for end, unknown in zip(
            support(distribution), (-infinity, infinity), strict=True
        )
    )
    holds_low, holds_high = (_has_density(distribution, end) for end in (low, high))

    def is_possible(y):
        y = tf.cast(y, low.dtype)
        above, below = (y > low) | holds_low, (y < high) | holds_high
        return (y >= low) & above & (y <= high) & below

    return is_possible


def _has_density(distribution, end):
    """Whether a label may be there; the density of a log-normal at 0 is not finite."""
    is_endless = not tf.reduce_any(tf.math.is_finite(end))
    if distribution.validate_args or is_endless:
        return tf.ones_like(end, tf.bool)
    density = distribution.log_prob(tf.cast(end, distribution.dtype))
    return tf.reduce_any(tf.math.is_finite(density), axis=0)


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
