"""Quantiles of the mixture of S predictive distributions, one for each draw."""

import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.support import kept_possible
from bhn_tf.likelihoods.tails import cdf


def central_interval(components, level, is_discrete: bool = False):
    """Returns the bounds that leave (1 - level) / 2 of the mixture on either side.

    Args:
        components: A TFP distribution with the batch shape [S, B, ...]: its mean over
            the first axis is the mixture. It needs mean, variance and CDF.
        level: Probability of the interval, between 0 and 1.
        is_discrete: Whether the values are whole numbers. The interval then holds at
            least `level`.

    Returns:
        Lower and upper bounds, [B, ...] each.

    Example:
        >>> normals = tfp.distributions.Normal([[0.0], [0.0]], 1.0)
        >>> lower, upper = central_interval(normals, 0.9)
        >>> print(f"{float(upper[0]):.3f}")
        1.645
    """
    tail = (1.0 - tf.cast(level, tf.float32)) / 2.0
    quantile = _whole_quantile if is_discrete else _real_quantile
    bounds = [quantile(components, share) for share in (tail, 1.0 - tail)]
    return tuple(kept_possible(bounds, components))


def moments(components):
    """Mean, variance of the means and mean of the variances over the draws, axis 0.

    The variance of a draw's mean is what more data would remove (epistemic), the mean
    of a draw's variance is noise (aleatoric); the two add up to the mixture's.
    """
    means = components.mean()
    mean, epistemic = tf.nn.moments(means, axes=[0])
    variances = components.variance() + tf.zeros_like(means)
    return mean, epistemic, tf.reduce_mean(variances, axis=0)


def _bracket(components, probability):
    """Between these two lies the quantile: Cantelli's inequality, for any mixture."""
    mean, epistemic, aleatoric = moments(components)
    stddev = tf.sqrt(epistemic + aleatoric)
    odds = probability / (1.0 - probability)
    # Rounding must not move a quantile out of the bracket.
    low = mean - stddev * (1.001 / tf.sqrt(odds) + 0.001)
    return low, mean + stddev * (1.001 * tf.sqrt(odds) + 0.001)


def _cdf(components, values, is_discrete=False):
    # Some of TFP's lose what a graph knows of the shape, and loops insist on it.
    of_draws = cdf(components, values, is_discrete)
    return tf.ensure_shape(tf.reduce_mean(of_draws, axis=0), values.shape)


def _real_quantile(components, probability):
    probability = tf.cast(probability, components.dtype)
    low, high = _bracket(components, probability)
    # Relative to the least noise of a draw, for y may be in any unit.
    noise = tf.sqrt(tf.reduce_min(components.variance(), axis=0))
    return tfp.math.find_root_chandrupatla(
        lambda values: _cdf(components, values) - probability,
        low,
        high,
        position_tolerance=1e-6 * (noise + tf.zeros_like(low)),
        value_tolerance=0.0,
        max_iterations=100,
    ).estimated_root


def _whole_quantile(components, probability):
    """The least whole number whose CDF reaches the probability, by bisection."""
    probability = tf.cast(probability, components.dtype)
    low, high = _bracket(components, probability)

    def halve(low, high):
        middle = tf.floor((low + high) / 2)
        reaches = _cdf(components, middle, is_discrete=True) >= probability
        return tf.where(reaches, low, middle), tf.where(reaches, middle, high)

    return tf.while_loop(
        lambda low, high: tf.reduce_any(high - low > 1),
        halve,
        (tf.floor(low) - 1, tf.math.ceil(high)),
        # Floating-point numbers beyond 2^24 are further apart than whole numbers.
        maximum_iterations=64,
    )[1]
