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
    low, high, end = _bracket(function, start, step)

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
    return tf.where(end == 0, found, end)


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
    low, high, end = _bracket(function, start, step)

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
    return tf.where(end == 0, found, end)


def _within_reach(start, step):
    """Start and step, replaced where they are infinite or 0, as moments may be."""
    step = step + tf.zeros_like(start)
    is_usable = tf.math.is_finite(step) & (step > 0)
    return (
        tf.where(tf.math.is_inf(start), tf.zeros_like(start), start),
        tf.where(is_usable, step, tf.ones_like(step)),
    )


def _bracket(function, start, step):
    """Goes from `start` towards zero, in steps that double until it is crossed.

    Returns:
        The last two numbers, low and high, between which the function crosses zero; and
        the result where it does not, infinite, or NaN where the function is NaN at
        `start`, and 0 elsewhere.
    """
    at_start = function(start)
    is_above = at_start >= 0
    step = tf.where(is_above, -step, step)

    def falls_short(value):
        return tf.where(is_above, value >= 0, value < 0)

    def double(near, far, step, falling_short):
        near = tf.where(falling_short, far, near)
        far = tf.where(falling_short, far + 2 * step, far)
        return near, far, 2 * step, falling_short & falls_short(function(far))

    far = start + step
    near, far, _, is_endless = tf.while_loop(
        lambda near, far, step, falling_short: tf.reduce_any(falling_short),
        double,
        (start, far, step, falls_short(function(far))),
        maximum_iterations=_MOST_DOUBLINGS,
    )
    infinity = tf.constant(float("inf"), start.dtype)
    end = tf.where(is_above, -infinity, infinity)
    end = tf.where(is_endless, end, tf.zeros_like(end))
    end = tf.where(tf.math.is_nan(at_start), at_start, end)
    return tf.where(is_above, far, near), tf.where(is_above, near, far), end


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
