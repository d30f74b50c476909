"""How well a score of uncertainty ranks: detection, and the reject option.

Higher scores are stranger. Only their order counts, so that scores may have any scale,
infinities included. A NaN score is compared as a threshold would compare it: it is
never flagged by `detection`, and never accepted by `risk_coverage`.
"""

from typing import NamedTuple

import keras
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve


def detection(scores_in: ArrayLike, scores_out: ArrayLike) -> dict[str, float]:
    """How well a score tells the strange rows from those of the known distribution.

    The measures of Hendrycks and Gimpel, "A baseline for detecting misclassified and
    out-of-distribution examples in neural networks", ICLR 2017, and the false positive
    rate of Liang, Li and Srikant, "Enhancing the reliability of out-of-distribution
    image detection in neural networks", ICLR 2018, with the strange rows as positive.

    Args:
        scores_in: scores of rows of the known distribution, any shape, one an item.
            Higher is stranger; NaN ranks below everything.
        scores_out: scores of the other rows (anomalies, adversarial inputs), likewise.

    Returns:
        `"auroc"`: the probability that an out row scores above an in row, ties half.
        `"aupr_in"`: average precision with the in rows positive, the least strange
        first (PR+). `"aupr_out"`: average precision with the out rows positive, the
        strangest first (PR-). `"fpr95"`: share of in rows that score at least the
        threshold that at least 95 % of the out rows reach; lower is better. All equal:
        0.5, the shares of in and of out rows, and 1.

    Raises:
        ValueError: one of the sets is empty.

    Example:
        >>> result = detection([0.1, 0.3], [0.2, 0.4])
        >>> result["auroc"], result["fpr95"]
        (0.75, 0.5)
    """
    scores_in, scores_out = _flat(scores_in), _flat(scores_out)
    if not scores_in.size or not scores_out.size:
        raise ValueError(
            f"`detection` got {scores_in.size} scores of in-distribution rows and "
            f"{scores_out.size} of out-of-distribution rows. Both sets need at least "
            "one, as every result compares the two."
        )
    is_out = np.repeat([0, 1], [scores_in.size, scores_out.size])
    # Ranks say all that counts, and are exact for infinities and close scores alike.
    # They start at 1; NaN goes below.
    ranks = rankdata(
        np.concatenate([scores_in, scores_out]), method="dense", nan_policy="omit"
    )
    ranks = np.nan_to_num(ranks, nan=0.0)
    flagged_in, flagged_out, _ = roc_curve(is_out, ranks, drop_intermediate=False)
    return {
        "auroc": float(roc_auc_score(is_out, ranks)),
        "aupr_in": float(average_precision_score(1 - is_out, -ranks)),
        "aupr_out": float(average_precision_score(is_out, ranks)),
        "fpr95": float(flagged_in[np.searchsorted(flagged_out, 0.95)]),
    }


class RiskCoverage(NamedTuple):
    """What `risk_coverage` found; arrays with one entry per distinct score.

    Attributes:
        coverage: share of rows kept, increasing up to 1.
        risk: mean error among the rows kept.
        threshold: a row is kept where `score <= threshold`. NaN in the last entry
            where there are NaN scores, which no threshold keeps.
        aurc: area under the risk-coverage curve, a scalar; lower is better.
    """

    coverage: np.ndarray
    risk: np.ndarray
    threshold: np.ndarray
    aurc: float


def risk_coverage(scores: ArrayLike, errors: ArrayLike) -> RiskCoverage:
    """Error rate among the most certain rows, for each share of rows kept.

    Geifman and El-Yaniv, "Selective classification for deep neural networks", NeurIPS
    2017; the area as in Geifman, Uziel and El-Yaniv, "Bias-reduced uncertainty
    estimation for deep neural classifiers", ICLR 2019: the mean of the risk over the
    1, 2, ..., n most certain rows. Rows of equal score are kept or rejected together,
    and enter the area in the mean over all their orders.

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
    # Sorts NaN last, as one group.
    threshold, group = np.unique(scores, return_inverse=True)
    rows = np.bincount(group)
    wrong = np.bincount(group, weights=errors)
    kept = np.cumsum(rows)
    expected = np.repeat(wrong / rows, rows)
    aurc = np.mean(np.cumsum(expected) / np.arange(1, scores.size + 1))
    return RiskCoverage(
        coverage=kept / scores.size,
        risk=np.cumsum(wrong) / kept,
        threshold=threshold,
        aurc=float(aurc),
    )


def _flat(values: ArrayLike) -> np.ndarray:
    """Arrays, lists and tensors as one axis of float64."""
    return np.ravel(keras.ops.convert_to_numpy(values)).astype(np.float64)
