"""Measures of intervals, sets and predictive distributions of numbers.

They are functions of whole arrays; `interval_metrics.py` has the same as Keras metrics.
NaN in, NaN out; masked entries of NumPy's masked arrays count as NaN.
"""

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from bhn_tf.arguments import check_probability, with_nan_for_masked


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike | None = None) -> float:
    """The share of targets inside their intervals or sets.

    Args:
        y: Targets, or class numbers [rows].
        lower, upper: Bounds in the targets' shape, which belong to the interval; or, as
            one argument, sets: booleans [rows, C].

    Returns:
        Between 0 and 1; at a level of 0.9 it should be close to 0.9.

    Raises:
        ValueError: If shapes differ.

    Example:
        >>> coverage([1.0, 5.0], [0.0, 0.0], [2.0, 2.0])
        0.5
        >>> coverage([0, 1], [[True, False], [True, True]])
        1.0
    """
    if upper is None:
        sets, y = _sets(lower), np.ravel(_numbers(y))
        if len(sets) != len(y):
            raise ValueError(f"Got {len(y)} class numbers and {len(sets)} sets.")
        highest = sets.shape[1] - 1
        if not ((y >= 0) & (y <= highest) & (y % 1 == 0)).all():
            raise ValueError(
                f"Expected class numbers from 0 to {highest}, one for each set: leave "
                "out rows without a class."
            )
        return float(sets[np.arange(len(y)), y.astype("int64")].mean())
    y, lower, upper = _aligned(y=y, lower=lower, upper=upper)
    inside = ((lower <= y) & (y <= upper)).astype("float64")
    # One by one, since the sum of two infinite bounds may be NaN, too.
    is_unknown = np.isnan(y) | np.isnan(lower) | np.isnan(upper)
    return float(np.where(is_unknown, np.nan, inside).mean())


def mean_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """The mean width of intervals in the units of y; at equal coverage, less is better.

    Args:
        lower, upper: Bounds, of one shape.

    Raises:
        ValueError: If shapes differ.

    Example:
        >>> mean_width([0.0, 0.0], [1.0, 3.0])
        2.0
    """
    lower, upper = _aligned(lower=lower, upper=upper)
    return float((upper - lower).mean())


def set_size(sets: ArrayLike) -> float:
    """The mean number of classes in sets; at equal coverage, less is better.

    Args:
        sets: [rows, C], booleans.

    Raises:
        ValueError: If they are something else.

    Example:
        >>> set_size([[True, False], [True, True]])
        1.5
    """
    return float(_sets(sets).sum(axis=1).mean())


def interval_score(
    y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float
) -> float:
    """The score of Winkler (1972): width plus 2 / (1 − level) for every unit outside.

    It is proper (Gneiting and Raftery, 2007): its expectation is least for the true
    quantiles at (1 − level) / 2 and (1 + level) / 2.

    Args:
        y, lower, upper: Targets and bounds, of one shape.
        level: Probability of the intervals.

    Returns:
        The mean, in the units of y; lower is better.

    Raises:
        ValueError: If shapes differ or the level is no probability.

    Example:
        >>> interval_score([1.0, 3.0], [0.0, 0.0], [2.0, 2.0], level=0.5)
        4.0
    """
    y, lower, upper = _aligned(y=y, lower=lower, upper=upper)
    outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(
        (upper - lower + 2 / (1 - check_probability("level", level)) * outside).mean()
    )


def pinball(y: ArrayLike, quantile: ArrayLike, level: float) -> float:
    """The pinball loss of a predicted quantile.

    Args:
        y, quantile: Targets, and numbers they are below with probability `level`.
        level: A probability.

    Returns:
        The mean of max(level · (y − q), (level − 1) · (y − q)); lower is better.

    Raises:
        ValueError: If shapes differ or the level is no probability.

    Example:
        >>> pinball([1.0, 3.0], [2.0, 2.0], level=0.75)
        0.5
    """
    y, quantile = _aligned(y=y, quantile=quantile)
    error, level = y - quantile, check_probability("level", level)
    return float(np.maximum(level * error, (level - 1) * error).mean())


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike = 0.0) -> float:
    """The continuous ranked probability score of a Gaussian, or of a mixture of them.

    It has a closed form (Grimit, Gneiting, Berrocal and Johnson, 2006). With `std` 0 it
    is the score of the samples themselves.

    Args:
        y: Targets [rows, ...].
        mean: [rows, ...], or [rows, S, ...] for S components.
        std: In the shape of `mean`, or one that broadcasts to it.

    Returns:
        The mean, in the units of y; lower is better. For forecasts without spread it
        is the mean absolute error.

    Raises:
        ValueError: If shapes differ.

    Example:
        >>> crps([0.0], [1.0])
        1.0
        >>> round(crps([0.0], [0.0], [1.0]), 4)
        0.2337
    """
    y, mean = _numbers(y), _numbers(mean)
    std = _broadcast(_numbers(std), mean.shape)
    if mean.ndim <= y.ndim:
        y, mean, std = _aligned(y=y, mean=mean, std=std)
        mean, std = mean[:, np.newaxis], std[:, np.newaxis]
    if mean.shape[:1] + mean.shape[2:] != y.shape:
        raise ValueError(
            f"Targets of shape {y.shape} do not fit means of shape {mean.shape}: "
            "expected one for each row and output, with or without S components on "
            "axis 1."
        )
    if not mean.size:
        raise ValueError(f"Expected rows of forecasts, got shape {mean.shape}.")
    # The error of an infinite forecast outweighs half the spread, infinite as well.
    is_infinite = np.isinf(mean) | np.isinf(std)
    mean, std = (np.where(np.isinf(part), 0.0, part) for part in (mean, std))
    error = _mean_distance(y[:, np.newaxis] - mean, std**2).mean(axis=1)
    error[is_infinite.any(axis=1)] += np.inf
    # One component against all at a time, so that memory does not grow with S².
    spread = [
        _mean_distance(mean - mean[:, [s]], std**2 + std[:, [s]] ** 2).mean(axis=1)
        for s in range(mean.shape[1])
    ]
    return float((error - np.mean(spread, axis=0) / 2).mean())


def _numbers(values) -> np.ndarray:
    return np.asarray(with_nan_for_masked(values), "float64")


def _broadcast(std: np.ndarray, shape: tuple) -> np.ndarray:
    try:
        return np.broadcast_to(std, shape)
    except ValueError as error:
        raise ValueError(
            f"Standard deviations of shape {std.shape} do not fit means of shape "
            f"{shape}: expected one for each, or one for all."
        ) from error


def _mean_distance(mean, variance):
    """E|X| of a Gaussian."""
    std = np.sqrt(variance)
    # Without spread the ratio is of no use; it is 1, as infinity times 0 would warn.
    ratio = np.divide(mean, std, out=np.ones_like(mean), where=std > 0)
    density = np.exp(-(ratio**2) / 2) / np.sqrt(2 * np.pi)
    spread = 2 * std * density + mean * (2 * scipy.special.ndtr(ratio) - 1)
    return np.where(std == 0, np.abs(mean), spread)


def _sets(sets) -> np.ndarray:
    sets = np.asarray(sets)
    if sets.dtype != bool or sets.ndim != 2 or not len(sets):
        raise ValueError(
            f"Expected sets as booleans [rows, C], got {sets.dtype} of shape "
            f"{sets.shape}."
        )
    return sets


def _aligned(**arrays) -> list[np.ndarray]:
    """Arrays of one shape; an axis of 1 at the end may be missing."""
    found = list(map(_numbers, arrays.values()))
    shape = max((values.shape for values in found), key=len)
    whole = [v[..., np.newaxis] if v.ndim < len(shape) else v for v in found]
    if any(values.shape != shape for values in whole) or not whole[0].size:
        given = {name: v.shape for name, v in zip(arrays, found, strict=True)}
        raise ValueError(f"Expected rows in arrays of one shape, got {given}.")
    return whole
