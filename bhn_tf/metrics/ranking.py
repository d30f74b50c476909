"""How well a score of uncertainty ranks: detection, and the reject option.

Higher scores are stranger. Only their order counts, so scores may have any scale,
infinities included. A NaN score fails every comparison with a threshold: `detection`
never flags it, and `risk_coverage` and `reject_threshold` never accept it.
"""

from typing import NamedTuple

import keras
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from bhn_tf.arguments import with_nan_for_masked


def detection(scores_in: ArrayLike, scores_out: ArrayLike) -> dict[str, float]:
    """How well a score tells the strange rows from those of the known distribution.

    The measures of Hendrycks and Gimpel, "A baseline for detecting misclassified and
    out-of-distribution examples in neural networks", ICLR 2017, and the false positive
    rate of Liang, Li and Srikant, "Enhancing the reliability of out-of-distribution
    image detection in neural networks", ICLR 2018, with the strange rows as positive.

    Args:
        scores_in: scores of rows of the known distribution, one per item, in any shape.
            Higher is stranger; NaN ranks below everything.
        scores_out: scores of the other rows (anomalies, adversarial inputs), likewise.

    Returns:
        `"auroc"`: the probability that an out row scores above an in row, ties half.
        `"aupr_in"`: average precision with the in rows positive, the least strange
        first (PR+). `"aupr_out"`: average precision with the out rows positive, the
        strangest first (PR-). `"fpr95"`: share of in rows that reach the threshold
        that at least 95 % of the out rows reach; lower is better. If all scores are
        equal: 0.5, the shares of in and of out rows, and 1.

    Raises:
        ValueError: one of the sets is empty.

    Example:
        >>> result = detection([0.1, 0.3], [0.2, 0.4])
        >>> result["auroc"], result["fpr95"]
        (0.75, 0.5)
    """
    is_out, ranks = _labelled_ranks(scores_in, scores_out)
    curve = _curve(is_out, ranks)
    return {
        "auroc": curve.auroc,
        "aupr_in": float(average_precision_score(1 - is_out, -ranks)),
        "aupr_out": float(average_precision_score(is_out, ranks)),
        "fpr95": float(curve.flagged_in[np.searchsorted(curve.flagged_out, 0.95)]),
    }


class DetectionCurve(NamedTuple):
    """What `detection_curve` found; its arrays begin with 0, where nothing is flagged.

    Attributes:
        flagged_in: share of in rows flagged at each distinct score, increasing to 1.
        flagged_out: share of out rows flagged, likewise.
        auroc: area under the curve, a scalar.
    """

    flagged_in: np.ndarray
    flagged_out: np.ndarray
    auroc: float


def detection_curve(scores_in: ArrayLike, scores_out: ArrayLike) -> DetectionCurve:
    """The ROC curve of a score, with the strange rows as positive.

    The receiver operating characteristic of Fawcett, "An introduction to ROC analysis",
    Pattern Recognition Letters, 2006, with one point per threshold.

    Args:
        scores_in, scores_out: as `detection`.

    Returns:
        `DetectionCurve(flagged_in, flagged_out, auroc)`, the highest threshold first.

    Raises:
        ValueError: one of the sets is empty.

    Example:
        >>> curve = detection_curve([0.1, 0.3], [0.2, 0.4])
        >>> curve.flagged_in.tolist(), curve.flagged_out.tolist()
        ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    return _curve(*_labelled_ranks(scores_in, scores_out))


def _curve(is_out: np.ndarray, ranks: np.ndarray) -> DetectionCurve:
    flagged_in, flagged_out, _ = roc_curve(is_out, ranks, drop_intermediate=False)
    return DetectionCurve(flagged_in, flagged_out, float(roc_auc_score(is_out, ranks)))


def _labelled_ranks(
    scores_in: ArrayLike, scores_out: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row is out (1) or in (0), and the rank of its score."""
    scores_in, scores_out = _flat(scores_in), _flat(scores_out)
    if not scores_in.size or not scores_out.size:
        raise ValueError(
            f"Got {scores_in.size} scores of in-distribution rows and "
            f"{scores_out.size} of out-of-distribution rows. Both sets need at least "
            "one, as every result compares the two."
        )
    is_out = np.repeat([0, 1], [scores_in.size, scores_out.size])
    # Only ranks matter, and they are exact for infinities and for close scores. They
    # start at 1; NaN goes below.
    ranks = rankdata(
        np.concatenate([scores_in, scores_out]), method="dense", nan_policy="omit"
    )
    return is_out, np.nan_to_num(ranks, nan=0.0)


class RiskCoverage(NamedTuple):
    """What `risk_coverage` found; arrays with one entry per distinct score.

    Attributes:
        coverage: share of rows kept, increasing up to 1.
        risk: mean error among the rows kept.
        threshold: a row is kept if `score <= threshold`. The last entry is NaN if there
            are NaN scores, which no threshold keeps.
        aurc: area under the risk-coverage curve, a scalar; lower is better.
    """

    coverage: np.ndarray
    risk: np.ndarray
    threshold: np.ndarray
    aurc: float


def risk_coverage(scores: ArrayLike, errors: ArrayLike) -> RiskCoverage:
    """Error rate among the most certain rows, for each share of rows kept.

    Geifman and El-Yaniv, "Selective classification for deep neural networks", NeurIPS
    2017; the area is that of Geifman, Uziel and El-Yaniv, "Bias-reduced uncertainty
    estimation for deep neural classifiers", ICLR 2019: the mean of the risks of the
    1, 2, ..., n most certain rows. Rows of equal score are kept or rejected together;
    their contribution to the area is the mean over all their orders.

    Args:
        scores: [n], higher is stranger and rejected earlier; NaN is rejected first.
        errors: [n], 1 or True where the prediction is wrong, else 0; or any loss.

    Returns:
        `RiskCoverage(coverage, risk, threshold, aurc)`.

    Raises:
        ValueError: no rows, differing numbers of rows, or an error that is NaN.

    Example:
        >>> curve = risk_coverage([0.1, 0.2, 0.2, 0.9], [0, 0, 1, 1])
        >>> curve.coverage.tolist(), curve.risk.round(3).tolist()
        ([0.25, 0.75, 1.0], [0.0, 0.333, 0.5])
    """
    scores, errors = _flat(scores), _flat(errors)
    if scores.size != errors.size or not scores.size:
        raise ValueError(
            f"`risk_coverage` got {scores.size} scores and {errors.size} errors. "
            "Expected one of each a row, and at least one row."
        )
    if np.isnan(errors).any():
        raise ValueError(
            f"`risk_coverage` got {np.isnan(errors).sum()} errors that are NaN. Say "
            "for each row whether it is wrong (1) or right (0), or leave the row out."
        )
    # `np.unique` sorts NaN last, as one group.
    threshold, group = np.unique(scores, return_inverse=True)
    rows = np.bincount(group)
    wrong = np.bincount(group, weights=errors)
    kept = np.cumsum(rows)
    expected = np.repeat(wrong / rows, rows)
    aurc = np.mean(np.cumsum(expected) / np.arange(1, scores.size + 1))
    return RiskCoverage(
        coverage=kept / scores.size,
        risk=_means_of_first(errors[np.argsort(group, kind="stable")], kept),
        threshold=threshold,
        aurc=float(aurc),
    )


def _means_of_first(errors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean of the first errors for each of `counts`, rounded only once.

    A rounded sum would make the mean of 0.1, 0.1, 0.1 larger than a wanted risk of 0.1.
    """
    if (errors == np.round(errors)).all() and np.abs(errors).sum() < 2**53:
        # Counts of wrong answers, which float64 adds exactly.
        return np.cumsum(errors)[counts - 1] / counts
    is_finite = np.isfinite(errors)
    # As multiples of one power of 2, and Python's integers, which never round.
    ratios = [e.as_integer_ratio() for e in np.where(is_finite, errors, 0.0).tolist()]
    unit = max(denominator for _, denominator in ratios)
    whole = np.array([n * (unit // d) for n, d in ratios], dtype=object)
    means = np.cumsum(whole)[counts - 1] / (counts.astype(object) * unit)
    infinite = np.cumsum(np.where(is_finite, 0.0, errors))[counts - 1]
    return means.astype(np.float64) + infinite


class RejectThreshold(NamedTuple):
    """What `reject_threshold` chose.

    Attributes:
        threshold: a row is answered if `score <= threshold`. It is NaN, which answers
            none, if no threshold keeps the risk.
        coverage: share of rows answered.
        risk: mean error among them; NaN if there are none.
    """

    threshold: float
    coverage: float
    risk: float


def reject_threshold(
    scores: ArrayLike, errors: ArrayLike, max_risk: float
) -> RejectThreshold:
    """The threshold that answers most rows at a wanted error rate.

    Selective classification after Geifman and El-Yaniv, "Selective classification for
    deep neural networks", NeurIPS 2017, with the error rate measured on the given rows.
    Being chosen on these rows, the threshold looks slightly too good on them: choose on
    one part of the held-out rows and measure on another.

    Args:
        scores: [n], higher is stranger and rejected earlier; NaN is always rejected.
            Rows of equal score are answered or rejected together.
        errors: [n], 1 or True where the prediction is wrong, else 0; or any loss.
        max_risk: the wanted mean error of the rows answered, such as 0.01.

    Returns:
        `RejectThreshold(threshold, coverage, risk)`, the risk at most `max_risk`.

    Raises:
        ValueError: as `risk_coverage`, or if `max_risk` is not a number of at least 0.

    Example:
        >>> reject_threshold([0.1, 0.2, 0.2, 0.9], [0, 0, 0, 1], max_risk=0.01)
        RejectThreshold(threshold=0.2, coverage=0.75, risk=0.0)
    """
    if not np.ndim(max_risk) == 0 or not max_risk >= 0:
        raise ValueError(
            f"Expected `max_risk` to be a mean error of at least 0, such as 0.01 for "
            f"one wrong answer in a hundred, got {max_risk!r}."
        )
    curve = risk_coverage(scores, errors)
    allowed = (curve.risk <= max_risk) & ~np.isnan(curve.threshold)
    if not allowed.any():
        return RejectThreshold(float("nan"), 0.0, float("nan"))
    # The risk may rise and fall again; the last allowed threshold answers most rows.
    last = np.flatnonzero(allowed)[-1]
    return RejectThreshold(
        float(curve.threshold[last]),
        float(curve.coverage[last]),
        float(curve.risk[last]),
    )


def _flat(values: ArrayLike) -> np.ndarray:
    """Arrays, lists and tensors as one axis of float64."""
    if values is None:
        raise ValueError("Expected an array of numbers, got None.")
    values = with_nan_for_masked(values)
    return np.ravel(keras.ops.convert_to_numpy(values)).astype(np.float64)
