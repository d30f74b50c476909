"""Control of the error rate among answered rows, with a stated confidence.

Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, 2021): each share of rows
that might be answered has a hypothesis "the error rate is above the allowed one". The
hypotheses are tested in an order that does not depend on the errors, until one cannot
be rejected.
"""

import math

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from bhn_tf.arguments import check_probability
from bhn_tf.metrics import RejectThreshold


def upper_error_rate(num_errors: ArrayLike, num_rows: ArrayLike, confidence: float):
    """Returns the Clopper-Pearson upper bound of an error rate.

    Args:
        num_errors, num_rows: Wrong answers, and all answers (at least one).
        confidence: Probability that the bound holds.

    Returns:
        The bound, of the arguments' shape.

    Example:
        >>> round(float(upper_error_rate(0, 299, 0.95)), 4)
        0.01
    """
    k, n = np.asarray(num_errors), np.asarray(num_rows)
    bound = scipy.stats.beta.ppf(confidence, k + 1, np.maximum(n - k, 1))
    return np.where(k >= n, 1.0, bound)


def controlled_threshold(
    scores: ArrayLike, errors: ArrayLike, max_error_rate: float, confidence: float
) -> RejectThreshold:
    """Returns the threshold that answers most rows with a promised error rate.

    With probability `confidence` over the given rows, the error rate of new rows with
    `score <= threshold` is below `max_error_rate`, provided that rows of a higher score
    are not answered better. `metrics.reject_threshold` instead uses the rate measured
    on the given rows; about every second time, the true rate is then above it.

    Shares are tried in increasing order, from the smallest that could pass, until the
    Clopper-Pearson bound first exceeds the allowed rate.

    Args:
        scores: [n], higher is stranger and rejected earlier; NaN is always rejected.
            Rows of equal score are answered or rejected together.
        errors: [n], 1 or True where the prediction is wrong, else 0.
        max_error_rate: The highest allowed error rate, such as 0.02.
        confidence: Such as 0.95.

    Returns:
        `metrics.RejectThreshold(threshold, coverage, risk)`, the last two as measured
        on the given rows. If nothing can be promised, the threshold is NaN, which
        answers no rows.

    Raises:
        ValueError: If rows do not match, there are none, an error is neither 1 nor 0,
            or a number is not a probability.

    Example:
        >>> controlled_threshold(np.arange(400.0), np.arange(400) > 350, 0.02, 0.95)
        RejectThreshold(threshold=352.0, coverage=0.8825, risk=0.0056657223796034)
    """
    scores = np.ravel(scores).astype("float64")
    errors = np.ravel(errors)
    others = errors[~np.isin(errors, [0, 1])]
    if others.size:
        raise ValueError(
            "Wrong answers are counted, so that an error is 1 (wrong) or 0 (right); "
            f"got {others[:5].tolist()}. Say of each loss whether it is an error, such "
            "as `losses > limit`."
        )
    errors = errors.astype(bool)
    for name, value in (("max_error_rate", max_error_rate), ("confidence", confidence)):
        check_probability(name, value)
    if scores.size != errors.size or not scores.size:
        raise ValueError(
            f"Got {scores.size} scores and {errors.size} errors: give one of each a "
            "row, and at least one row."
        )
    known = ~np.isnan(scores)
    order = np.argsort(scores[known], kind="stable")
    ranked, wrong = scores[known][order], np.cumsum(errors[known][order])
    # A threshold answers all rows of equal score.
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], ranked.size > 0))
    best = None
    if ends.size:
        best = _last_rejected(ends + 1, wrong[ends], max_error_rate, 1 - confidence)
    if best is None:
        return RejectThreshold(float("nan"), 0.0, float("nan"))
    answered = ends[best] + 1
    return RejectThreshold(
        float(ranked[ends[best]]),
        float(answered / scores.size),
        float(wrong[ends[best]] / answered),
    )


def _last_rejected(num_rows, num_errors, rate, error):
    """The last of the growing shares before the first not allowed, or `None`."""
    # Fewer rows than `fewest` could not pass even without errors; twice as many leave
    # room for one. To keep the test valid, the start must not depend on the errors.
    fewest = math.ceil(math.log(error) / math.log1p(-rate))
    start = int(np.searchsorted(num_rows, min(2 * fewest, num_rows[-1])))
    bounds = upper_error_rate(num_errors[start:], num_rows[start:], 1 - error)
    allowed = int(np.argmax(np.append(bounds > rate, True)))
    return start + allowed - 1 if allowed else None
