"""Quantiles of the mixture of S predictive distributions, one for each draw."""

import tensorflow as tf

from bhn_tf.likelihoods.roots import crossing, whole_crossing
from bhn_tf.likelihoods.support import kept_possible
from bhn_tf.likelihoods.tails import cdf, survival


def central_interval(components, level, is_discrete: bool = False):
    """Returns the bounds that leave (1 - level) / 2 of the mixture on either side.

    If single values have a probability of their own, at most that is left: the interval
    includes its ends and has at least the probability `level`.

    Args:
        components: A TFP distribution with the batch shape [S, B, ...]: its mean over
            the first axis is the mixture. It needs mean, variance and CDF.
        level: Probability of the interval, between 0 and 1.
        is_discrete: Whether the values are whole numbers.

    Returns:
        Lower and upper bounds, [B, ...] each.

    Example:
        >>> import tensorflow_probability as tfp
        >>> normals = tfp.distributions.Normal([[0.0], [0.0]], 1.0)
        >>> lower, upper = central_interval(normals, 0.9)
        >>> print(f"{float(upper[0]):.3f}")
        1.645
    """
    if not tf.is_tensor(level):
        # In float32, a level near 1 would leave a wrong tail, or none.
        level = tf.constant(level, tf.float64)
    tail = (1.0 - tf.cast(level, tf.float64)) / 2.0
    tail = tf.cast(tail, components.dtype)
    mean, epistemic, aleatoric = moments(components)
    std = tf.sqrt(epistemic + aleatoric)

    def of_mixture(probability, values):
        # Some TFP distributions lose the static shape, which loops require.
        of_draws = probability(components, values, is_discrete)
        return tf.ensure_shape(tf.reduce_mean(of_draws, axis=0), values.shape)

    search = whole_crossing if is_discrete else crossing
    bounds = [
        search(lambda y: of_mixture(cdf, y) - tail, mean, std),
        search(lambda y: tail - of_mixture(survival, y), mean, std),
    ]
    bounds = [tf.where(tf.math.is_nan(std), std, bound) for bound in bounds]
    return tuple(kept_possible(bounds, components))


def moments(components):
    """Mean, variance of the means and mean of the variances over the draws, axis 0.

    The variance of the means is epistemic: more data would remove it. The mean of the
    variances is noise (aleatoric). Their sum is the variance of the mixture.
    """
    means = components.mean()
    mean, epistemic = tf.nn.moments(means, axes=[0])
    # A spread that no row changes would be known also where nothing is.
    variances = tf.where(tf.math.is_nan(means), means, components.variance())
    # Numbers that overflow are infinite, and their differences NaN.
    epistemic = _infinite_where(tf.math.is_inf(mean), epistemic)
    is_beyond = tf.math.is_inf(tf.square(means)) & tf.math.is_nan(variances)
    variances = _infinite_where(is_beyond, variances)
    return mean, epistemic, tf.reduce_mean(variances, axis=0)


def _infinite_where(condition, values):
    return tf.where(condition, tf.constant(float("inf"), values.dtype), values)
