"""Where a monotone function crosses zero, from a guess that may be far away.

Of real numbers, and of whole ones, on which a function of counts jumps.
"""

import tensorflow as tf
import tensorflow_probability as tfp

# Doublings reach from a standard deviation to the end of float32.
_MOST_DOUBLINGS = 120


def crossing(function, start, step, tolerance):
    """Finds the zero of a non-decreasing function, element by element.

    Args:
        function: Maps y [B, ...] to values [B, ...], non-decreasing in y.
        start: Where to begin, [B, ...].
        step: A first width of the search, positive, [B, ...].
        tolerance: What the function may be at the zero, [B, ...] or a number: y may be
            on any scale, and its own tells nothing.

    Returns:
        y [B, ...]; NaN where the function is.

    Example:
        >>> crossing(lambda y: y - 70.0, tf.zeros(1), tf.ones(1), 1e-6).numpy().tolist()
        [70.0]
    """
    step = step + tf.zeros_like(start)
    low = _bracket(lambda y: function(y) > 0, start, -step)
    high = _bracket(lambda y: function(y) < 0, start, step)
    found = tfp.math.find_root_chandrupatla(
        function,
        low,
        high,
        # Where the function jumps no value is near zero, and floats end first.
        position_tolerance=1e-12 * step,
        value_tolerance=tf.cast(tolerance, start.dtype),
        max_iterations=100,
    ).estimated_root
    return _unknown_where(function(start), found)


def whole_crossing(function, start, step):
    """Finds the least whole number at which a function is zero or more.

    Args:
        function, start, step: As in `crossing`.

    Returns:
        y [B, ...], whole numbers; NaN where the function is.

    Example:
        >>> found = whole_crossing(lambda y: y - 7.5, tf.zeros(1), tf.ones(1))
        >>> found.numpy().tolist()
        [8.0]
    """
    start, step = tf.floor(start), tf.math.ceil(step + tf.ones_like(start))
    low = _bracket(lambda y: function(y) >= 0, start, -step)
    high = _bracket(lambda y: function(y) < 0, start, step)

    def halve(low, high):
        middle = tf.floor((low + high) / 2)
        reaches = function(middle) >= 0
        return tf.where(reaches, low, middle), tf.where(reaches, middle, high)

    found = tf.while_loop(
        lambda low, high: tf.reduce_any(high - low > 1),
        halve,
        (low, high),
        # Floating-point numbers beyond 2^24 are further apart than whole numbers.
        maximum_iterations=_MOST_DOUBLINGS,
    )[1]
    return _unknown_where(function(start), found)


def _unknown_where(values, found):
    return tf.where(tf.math.is_nan(values), found * float("nan"), found)


def _bracket(falls_short, start, step):
    """Goes from `start` in steps that double until the zero has been passed."""

    def go_on(y, step):
        return tf.reduce_any(falls_short(y))

    def double(y, step):
        return tf.where(falls_short(y), y + step, y), 2 * step

    return tf.while_loop(
        go_on, double, (start + step, 2 * step), maximum_iterations=_MOST_DOUBLINGS
    )[0]
