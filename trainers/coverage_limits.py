"""The interval of coverage in which calibrated answers keep their promise."""

import scipy.stats

#: Share of calibrations whose coverage is in the interval.
CONFIDENCE = 0.99


def coverage_interval(rank: int, num_calibration: int, num_test: int) -> tuple:
    """The interval that holds the coverage of test rows in 99 of 100 calibrations.

    The coverage of a calibration has a beta distribution; given it, the number of test
    rows that are covered is binomial.

    Args:
        rank: Rank of the calibration score that is the threshold.
        num_calibration, num_test: Numbers of rows.

    Example:
        >>> low, high = coverage_interval(4501, 5000, 10000)
        >>> 0.88 < low < 0.9 < high < 0.92
        True
    """
    count = scipy.stats.betabinom(num_test, rank, num_calibration + 1 - rank)
    low, high = count.interval(CONFIDENCE)
    return float(low / num_test), float(high / num_test)
