"""Logarithms of both tails of a distribution, exact far out and ordered beyond.

`log(1 - cdf)` is -inf once the CDF rounds to 1, in float32 six standard deviations out.
Here each tail has its own formula; where even that falls below the smallest number, the
density, which falls in the same order, takes its place.
"""

import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods.family_tails import FAMILY_TAILS
from bhn_tf.likelihoods.support import outside

tfd = tfp.distributions

# A little below the logarithm of the smallest normal number of float32.
_BEYOND = -88.0


def log_tails(distribution, y, is_discrete: bool = False):
    """Returns log P(Y ≤ y) and log P(Y ≥ y).

    Args:
        distribution: A TFP distribution with a CDF.
        y: Values of its batch shape; between counts, tails are interpolated.
        is_discrete: Whether Y is a whole number.

    Returns:
        Two tensors of the shape of `y`; -inf outside of the support.

    Raises:
        NotImplementedError: If the distribution has no CDF.

    Example:
        >>> lower, upper = log_tails(tfd.Poisson(3.0), tf.constant(100.0), True)
        >>> float(lower), round(float(upper))
        (0.0, -257)
    """
    shape = tf.broadcast_static_shape(y.shape, distribution.batch_shape)
    y = _for_each(distribution, y)
    lower, upper = _tails(distribution, y, is_discrete)
    density = distribution.log_prob(y)
    is_outside = tf.logical_or(*outside(distribution, y, density))
    # In this order the number takes the dtype of the tensor, which may be float64.
    density = tf.where(~is_outside, density, -float("inf"))
    if is_discrete:
        # Between possible values, TFP's interpolation means nothing.
        density = tf.where(_is_possible(distribution, y), density, -float("inf"))
    density = tf.minimum(density, _BEYOND)
    # Some TFP distributions lose the static shape, which loops require.
    return tuple(
        tf.ensure_shape(tf.where(tf.math.is_inf(tail), density, tail), shape)
        for tail in (lower, upper)
    )


def _tails(distribution, y, is_discrete):
    if isinstance(distribution, tfd.Mixture):
        return _mixture(distribution, y, is_discrete)
    exact = _EXACT.get(type(distribution))
    if exact is not None:
        return exact(distribution, y)
    below = y - 1.0 if is_discrete else y
    lower, upper = distribution.log_cdf(y), distribution.log_survival_function(below)
    is_below, is_above = outside(distribution, y, lower)
    impossible, sure = (tf.constant(end, y.dtype) for end in (-float("inf"), 0.0))
    return (
        tf.where(is_below, impossible, tf.where(is_above, sure, lower)),
        tf.where(is_below, sure, tf.where(is_above, impossible, upper)),
    )


def _require_single_numbers(distribution):
    if distribution.event_shape.rank:
        raise NotImplementedError(f"{distribution.name} is of several numbers at once")


def cdf(distribution, y, is_discrete: bool = False):
    """Returns P(Y ≤ y), which is 0 below and 1 above the support.

    Args:
        distribution: A TFP distribution with a mean and a CDF.
        y: Values of its batch shape.
        is_discrete: Whether Y is a whole number.

    Raises:
        NotImplementedError: If the distribution has no CDF.

    Example:
        >>> float(cdf(tfd.Weibull(1.5, 1.0), tf.constant(-1.0)))
        0.0
    """
    y = _for_each(distribution, y)
    if isinstance(distribution, _MIXTURES):
        return _mixed(cdf, distribution, y, is_discrete)
    if type(distribution) in _EXACT:
        return tf.exp(_tails(distribution, y, is_discrete)[0])
    return _between(distribution, y, distribution.cdf(y), 0.0, 1.0)


def survival(distribution, y, is_discrete: bool = False):
    """Returns P(Y > y), which is 1 below and 0 above the support.

    Args:
        distribution, y, is_discrete: As in `cdf`.

    Raises:
        NotImplementedError: If the distribution has no CDF.

    Example:
        >>> float(survival(tfd.Deterministic(0.0), tf.constant(0.0)))
        0.0
    """
    y = _for_each(distribution, y)
    if isinstance(distribution, _MIXTURES):
        return _mixed(survival, distribution, y, is_discrete)
    if isinstance(distribution, tfd.Deterministic):
        return tf.cast(y < distribution.loc, y.dtype)
    if type(distribution) in _EXACT:
        y = y + 1.0 if is_discrete else y
        return tf.exp(_tails(distribution, y, is_discrete)[1])
    found = distribution.survival_function(y)
    return _between(distribution, y, found, 1.0, 0.0)


def _for_each(distribution, y):
    _require_single_numbers(distribution)
    return y + tf.zeros(distribution.batch_shape_tensor(), y.dtype)


def _mixed(probability, distribution, y, is_discrete):
    if isinstance(distribution, tfd.MixtureSameFamily):
        shares = distribution.mixture_distribution.probs_parameter()
        components = distribution.components_distribution
        parts = probability(components, y[..., tf.newaxis], is_discrete)
    else:
        shares = distribution.cat.probs_parameter()
        each = [probability(part, y, is_discrete) for part in distribution.components]
        parts = tf.stack(each, axis=-1)
    return tf.reduce_sum(shares * parts, axis=-1)


def _between(distribution, y, found, below, above):
    """TFP's result within the support; limits beyond it, where that may be anything."""
    is_below, is_above = outside(distribution, y, found)
    found = tf.where(is_below, tf.constant(below, y.dtype), found)
    return tf.where(is_above, tf.constant(above, y.dtype), found)


def _is_possible(distribution, y):
    if isinstance(distribution, tfd.Mixture):
        distribution = distribution.components[-1]
    return y >= 0 if isinstance(distribution, _COUNTS) else tf.ones_like(y, tf.bool)


def _mixture_of_one_family(distribution, y):
    components = distribution.components_distribution
    weights = tf.nn.log_softmax(distribution.mixture_distribution.logits_parameter())
    return tuple(
        tf.reduce_logsumexp(weights + tail, axis=-1)
        for tail in _tails(components, y[..., tf.newaxis], False)
    )


def _mixture(distribution, y, is_discrete):
    weights = tf.nn.log_softmax(distribution.cat.logits_parameter())
    tails = [_tails(each, y, is_discrete) for each in distribution.components]
    return tuple(
        tf.reduce_logsumexp(weights + tf.stack(parts, axis=-1), axis=-1)
        for parts in zip(*tails, strict=True)
    )


_MIXTURES = (tfd.Mixture, tfd.MixtureSameFamily)
_COUNTS = (tfd.Poisson, tfd.NegativeBinomial)
_EXACT = {**FAMILY_TAILS, tfd.MixtureSameFamily: _mixture_of_one_family}
