"""Where a monotone function crosses zero, from a guess that may be far away."""

import tensorflow as tf
import tensorflow_probability as tfp

# Doublings reach from a standard deviation to the end of float32.
_MOST_DOUBLINGS = 120


def crossing(function, start, step):
    """Finds the zero of a non-decreasing function, element by element.

    Args:
        function: Maps y [B, ...] to values [B, ...], non-decreasing in y.
        start: Where to begin, [B, ...].
        step: A first width of the search, positive, [B, ...].

    Returns:
        y [B, ...], to about 1e-6 of `step`; NaN where the function is.

    Example:
        >>> crossing(lambda y: y - 700.0, tf.zeros([1]), tf.ones([1])).numpy().tolist()
        [700.0]
    """
    step = step + tf.zeros_like(start)
    low = _bracket(lambda y: function(y) > 0, start, -step)
    high = _bracket(lambda y: function(y) < 0, start, step)
    found = tfp.math.find_root_chandrupatla(
        function,
        low,
        high,
        position_tolerance=1e-6 * step,
        value_tolerance=0.0,
        max_iterations=100,
    ).estimated_root
    return tf.where(tf.math.is_nan(function(start)), start * float("nan"), found)


def _bracket(falls_short, start, step):
    """Goes from `start` in steps that double until the zero has been passed."""

    def go_on(y, step):
        return tf.reduce_any(falls_short(y))

    def double(y, step):
        return tf.where(falls_short(y), y + step, y), 2 * step

    return tf.while_loop(
        go_on, double, (start + step, 2 * step), maximum_iterations=_MOST_DOUBLINGS
    )[0]
