"""Finds where a monotone function crosses zero, from a guess that may be far away.

`crossing` is for functions of real numbers, which may jump, `whole_crossing` for those
of counts.
"""

import tensorflow as tf

# Enough to reach the end of float32 from a standard deviation.
_MOST_DOUBLINGS = 120
_INTEGERS = {tf.float32: tf.int32, tf.float64: tf.int64}
_SMALLEST = {tf.float32: 2.0**-126, tf.float64: 2.0**-1022}


def crossing(function, start, step):
    """Finds the least number at which a function is zero or more.

    The search bisects the ordered floating-point numbers: numbers of any size, also
    near 0, are found as closely as the function tells them apart, and an atom of a
    distribution to the last digit.

    Args:
        function: Maps y [B, ...] to values [B, ...], non-decreasing in y.
        start: Where to begin, [B, ...].
        step: A first width of the search, [B, ...].

    Returns:
        y [B, ...]; infinite where there is none, NaN where the function is.

    Example:
        >>> crossing(lambda y: y - 70.0, tf.zeros(1), tf.ones(1)).numpy().tolist()
        [70.0]
    """
    start, step = _within_reach(start, step)
    low, high = _brackets(function, start, step)

    def halve(low, high):
        # The mean of two integers without their sum, which may be too large for one.
        middle = (low & high) + tf.bitwise.right_shift(low ^ high, tf.ones_like(low))
        reaches = function(_number_at(middle, start.dtype)) >= 0
        return tf.where(reaches, low, middle), tf.where(reaches, middle, high)

    found = tf.while_loop(
        lambda low, high: tf.reduce_any(low + 1 < high),
        halve,
        (_place_of(low), _place_of(high)),
        maximum_iterations=8 * start.dtype.size,
    )[1]
    found = _without_subnormal(_number_at(found, start.dtype))
    return _with_ends(function, start, low, high, found)


def whole_crossing(function, start, step):
    """Finds the least whole number at which a function is zero or more.

    Args:
        function, start, step: As in `crossing`.

    Returns:
        y [B, ...], whole numbers; infinite where there is none, NaN where the function
        is.

    Example:
        >>> found = whole_crossing(lambda y: y - 7.5, tf.zeros(1), tf.ones(1))
        >>> found.numpy().tolist()
        [8.0]
    """
    start, step = _within_reach(start, step)
    start, step = tf.floor(start), tf.math.ceil(step + tf.ones_like(start))
    low, high = _brackets(function, start, step)

    def halve(low, high):
        middle = tf.floor((low + high) / 2)
        reaches = function(middle) >= 0
        return tf.where(reaches, low, middle), tf.where(reaches, middle, high)

    found = tf.while_loop(
        lambda low, high: tf.reduce_any(high - low > 1),
        halve,
        (low, high),
        # Ends the loop beyond 2^24, where floats are further apart than whole numbers.
        maximum_iterations=_MOST_DOUBLINGS,
    )[1]
    return _with_ends(function, start, low, high, found)


def _within_reach(start, step):
    """Start and step, replaced where they are infinite or 0, as moments may be."""
    step = step + tf.zeros_like(start)
    is_usable = tf.math.is_finite(step) & (step > 0)
    return (
        tf.where(tf.math.is_inf(start), tf.zeros_like(start), start),
        tf.where(is_usable, step, tf.ones_like(step)),
    )


def _brackets(function, start, step):
    return (
        _bracket(lambda y: function(y) >= 0, start, -step),
        _bracket(lambda y: function(y) < 0, start, step),
    )


def _bracket(falls_short, start, step):
    """Goes from `start` in steps that double until zero is crossed."""

    def go_on(y, step):
        return tf.reduce_any(falls_short(y))

    def double(y, step):
        return tf.where(falls_short(y), y + step, y), 2 * step

    return tf.while_loop(
        go_on, double, (start + step, 2 * step), maximum_iterations=_MOST_DOUBLINGS
    )[0]


def _with_ends(function, start, low, high, found):
    infinity = tf.constant(float("inf"), found.dtype)
    found = tf.where(function(low) >= 0, -infinity, found)
    found = tf.where(function(high) < 0, infinity, found)
    return tf.where(tf.math.is_nan(function(start)), found * float("nan"), found)


def _place_of(y):
    """The integer position of a number in the order of all; that of 0 is 0."""
    bits = tf.bitcast(y, _INTEGERS[y.dtype])
    return tf.where(bits < 0, bits.dtype.min - bits, bits)


def _number_at(place, dtype):
    bits = tf.where(place < 0, place.dtype.min - place, place)
    return tf.bitcast(bits, dtype)


def _without_subnormal(y):
    """Replaces subnormal numbers (0 to some processors) and the next to them by 0."""
    return tf.where(tf.abs(y) <= _SMALLEST[y.dtype], tf.zeros_like(y), y)
