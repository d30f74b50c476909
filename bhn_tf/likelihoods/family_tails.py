"""Logarithms of both tails of families whose formulas are exact far out.

TFP's `1 - cdf` has few digits where the CDF is near 1, and none once it rounds to 1.
"""

import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions

# From this rate on, an asymptotic formula is more accurate than a series.
_MANY = 1e5
# Of smaller numbers, 1 minus the number keeps fewer than 8 digits in float64.
_FEW_DIGITS = 1e-8


def _of_counts(y, lower, upper):
    """Tails of counts, from functions that take only possible values."""
    dtype, y = y.dtype, _wide(y)
    is_count, is_above_0 = y >= 0, y > 0
    lower = lower(tf.where(is_count, y, tf.zeros_like(y)))
    upper = upper(tf.where(is_above_0, y, tf.ones_like(y)))
    return (
        tf.cast(tf.math.log(tf.where(is_count, lower, 0.0)), dtype),
        tf.cast(tf.math.log(tf.where(is_above_0, upper, 1.0)), dtype),
    )


def _wide(values):
    """Casts to float64, which incomplete gamma and beta functions of counts need."""
    return tf.cast(values, tf.float64)


def _poisson(distribution, y):
    rate = tf.exp(_wide(distribution.log_rate_parameter()))
    lower, upper = _of_counts(
        y,
        lambda y: tf.math.igammac(y + 1.0, rate),
        lambda y: tf.math.igamma(y, rate),
    )
    is_many = (rate > _MANY) & (y >= 0)
    return (
        tf.where(is_many, tf.cast(_gamma_above(y + 1.0, rate), y.dtype), lower),
        tf.where(is_many, tf.cast(_gamma_above(y, rate, -1.0), y.dtype), upper),
    )


def _gamma_above(shape, value, sign=1.0):
    """log P(G > value) for a gamma variable of unit scale; with -1, log P(G < value).

    Its cube root is nearly Gaussian (Wilson and Hilferty, 1931); for large shapes this
    is more accurate than TensorFlow's series.
    """
    shape = tf.maximum(_wide(shape), tf.ones([], tf.float64))
    center = 1.0 - 1.0 / (9.0 * shape)
    above = 3.0 * tf.sqrt(shape) * ((value / shape) ** (1 / 3) - center)
    normal = tfd.Normal(tf.zeros([], tf.float64), 1.0)
    return normal.log_cdf(-sign * above)


def _negative_binomial(distribution, y):
    logits = _wide(distribution.logits_parameter())
    total, success, failure = (
        _wide(part) + tf.zeros_like(_wide(y))
        for part in (distribution.total_count, tf.sigmoid(logits), tf.sigmoid(-logits))
    )
    return _of_counts(
        y,
        lambda y: tf.math.betainc(total, y + 1.0, failure),
        lambda y: tf.math.betainc(y, total, success),
    )


def _beta(distribution, y):
    share = _wide(tf.clip_by_value(y, 0.0, 1.0))
    first, second = (
        _wide(part) + tf.zeros_like(share)
        for part in (distribution.concentration1, distribution.concentration0)
    )
    lower = tf.math.betainc(first, second, share)
    upper = tf.math.betainc(second, first, 1.0 - share)
    # `1.0 - share` loses the digits of a small share, or rounds to 1.
    upper = tf.where((lower < 0.5) | (share < _FEW_DIGITS), 1.0 - lower, upper)
    return tuple(tf.cast(tf.math.log(tail), y.dtype) for tail in (lower, upper))


def _log_normal(distribution, y):
    is_positive = y > 0
    normal, log_y = (
        distribution.distribution,
        tf.math.log(tf.where(is_positive, y, 1.0)),
    )
    return (
        tf.where(is_positive, normal.log_cdf(log_y), -float("inf")),
        tf.where(is_positive, normal.log_survival_function(log_y), 0.0),
    )


def _weibull(distribution, y):
    is_positive = y > 0
    ratio = tf.where(is_positive, y, 1.0) / distribution.scale
    hazard = ratio**distribution.concentration
    return (
        tf.where(is_positive, tfp.math.log1mexp(hazard), -float("inf")),
        tf.where(is_positive, -hazard, 0.0),
    )


def _gumbel(distribution, y):
    hazard = tf.exp((distribution.loc - y) / distribution.scale)
    return -hazard, tfp.math.log1mexp(hazard)


def _student_t(distribution, y):
    mirrored = 2.0 * distribution.loc - y
    return distribution.log_cdf(y), distribution.log_cdf(mirrored)


def _deterministic(distribution, y):
    at = distribution.loc
    return tuple(tf.math.log(tf.cast(is_on, y.dtype)) for is_on in (y >= at, y <= at))


def _laplace(distribution, y):
    distance = (y - distribution.loc) / distribution.scale
    near = tf.math.log1p(-0.5 * tf.exp(-tf.abs(distance)))
    far = -tf.abs(distance) - tf.math.log(tf.constant(2.0, y.dtype))
    is_above = distance > 0
    return tf.where(is_above, near, far), tf.where(is_above, far, near)


def _exponential(distribution, y):
    hazard = tf.maximum(y, 0.0) * distribution.rate
    return tfp.math.log1mexp(hazard), -hazard


def _gamma(distribution, y):
    return _of_gamma(distribution.concentration, y * distribution.rate, y.dtype)


def _chi2(distribution, y):
    return _of_gamma(distribution.df / 2.0, y / 2.0, y.dtype)


def _inverse_gamma(distribution, y):
    is_positive = y > 0
    inverse = distribution.scale / tf.where(is_positive, y, 1.0)
    upper, lower = _of_gamma(distribution.concentration, inverse, y.dtype)
    return (
        tf.where(is_positive, lower, -float("inf")),
        tf.where(is_positive, upper, 0.0),
    )


def _of_gamma(shape, value, dtype):
    """Tails of a gamma variable of unit scale."""
    value = tf.maximum(_wide(value), tf.zeros([], tf.float64))
    shape = _wide(shape) + tf.zeros_like(value)
    tails = tf.math.igamma(shape, value), tf.math.igammac(shape, value)
    return tuple(tf.cast(tf.math.log(tail), dtype) for tail in tails)


FAMILY_TAILS = {
    tfd.Beta: _beta,
    tfd.Chi2: _chi2,
    tfd.Deterministic: _deterministic,
    tfd.Exponential: _exponential,
    tfd.Gamma: _gamma,
    tfd.Gumbel: _gumbel,
    tfd.InverseGamma: _inverse_gamma,
    tfd.Laplace: _laplace,
    tfd.LogNormal: _log_normal,
    tfd.NegativeBinomial: _negative_binomial,
    tfd.Poisson: _poisson,
    tfd.StudentT: _student_t,
    tfd.Weibull: _weibull,
}
