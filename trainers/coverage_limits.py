"""Where the coverage of calibrated answers may be, if what they promise holds."""

import scipy.stats

#: Of so many calibrations.
CONFIDENCE = 0.99


def coverage_interval(rank: int, num_calibration: int, num_test: int) -> tuple:
    """Where the coverage of test rows is in 99 of 100 calibrations.

    The coverage of a calibration is a draw from a beta distribution, and what test rows
    show of it a binomial one.

    Args:
        rank: Of the calibration score that is the threshold.
        num_calibration, num_test: Numbers of rows.

    Example:
        >>> low, high = coverage_interval(4501, 5000, 10000)
        >>> 0.88 < low < 0.9 < high < 0.92
        True
    """
    count = scipy.stats.betabinom(num_test, rank, num_calibration + 1 - rank)
    low, high = count.interval(CONFIDENCE)
    return float(low / num_test), float(high / num_test)
