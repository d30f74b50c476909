"""Whether probabilities and intervals hold as often as they claim."""

import numpy as np
from scipy import stats

from bhn_tf.diagnosis.averaging import ece_of_weights
from bhn_tf.diagnosis.findings import Estimate, Finding, mean_of
from bhn_tf.diagnosis.measured_rows import MeasuredRows

_NUM_SIMULATIONS = 500
# Only deviations that chance alone exceeds less often than this are findings.
_CHANCE = 0.01
# As probabilities. A smaller deviation is no finding, however certain it is.
_NOTICEABLE_ECE = 0.02
_NOTICEABLE_COVERAGE = 0.03

_MEND = (
    "Calibrate on rows that training has not seen: `bhn_tf.conformal.calibrate(model, "
    "x_calibration, y_calibration{options})`; look {at}, and of a hypernet at N and at "
    "the widths of the layers."
)


def calibration_error(rows: MeasuredRows, seed: int) -> tuple[dict, list[Finding]]:
    """Returns the expected calibration error of classes, and what is wrong with it.

    The error of finitely many rows is never 0. It is compared with the error for
    simulated labels that are right exactly as often as the model says (Vaicenavicius et
    al., "Evaluating model calibration in classification", 2019).

    Args:
        rows: The measured rows.
        seed: Seed of the simulated labels.
    """
    p = rows.means.mean(axis=1)  # type: ignore[union-attr]
    n, confidence = len(p), p.max(axis=1)
    right = p.argmax(axis=1) == rows.targets
    ece = float(ece_of_weights(p, rows.targets, np.ones([1, n]))[0])
    random = np.random.default_rng(seed)
    simulated = [
        # The predicted label where it hits, otherwise any wrong one.
        ece_of_weights(p, np.where(hits, p.argmax(axis=1), -1), np.ones([1, n]))[0]
        for hits in random.random([_NUM_SIMULATIONS, n]) < confidence
    ]
    by_chance = float(np.quantile(simulated, 1 - _CHANCE))
    measured = {"ece": ece, "ece_by_chance": by_chance}
    if ece <= max(by_chance, _NOTICEABLE_ECE):
        return measured, []
    gap = float(confidence.mean() - right.mean())
    said = "overconfident" if gap > 0 else "not confident enough"
    message = (
        f"The expected calibration error is {ece:.3f}, where chance alone gives up to "
        f"{by_chance:.3f}. The model is {said}: mean confidence "
        f"{confidence.mean():.3f}, accuracy {right.mean():.3f}."
    )
    mend = _MEND.format(options=", temperature=True", at="for overfitting")
    return measured, [Finding("miscalibrated", None, "warning", ece, message, mend)]


def coverage(rows: MeasuredRows, level: float, is_discrete: bool):
    """Returns how often intervals hold the truth, and what is wrong with it.

    "coverage_by_chance" is the level, with the binomial interval that holds 99 % of all
    samples of n rows; several outputs of a row count as one.

    Args:
        rows: The measured rows.
        level: Level of the intervals.
        is_discrete: Whether targets are whole numbers, for which intervals rightly
            cover more than their level.
    """
    low, high = rows.bounds  # type: ignore[misc]
    inside = (low <= rows.targets) & (rows.targets <= high)
    n, share = len(inside), float(inside.mean())
    least, most = stats.binom.ppf([_CHANCE / 2, 1 - _CHANCE / 2], n, level) / n
    measured = {
        "coverage": mean_of(inside.mean(axis=1)),
        "coverage_by_chance": Estimate(level, float(least), float(most)),
    }
    too_few = share < min(least, level - _NOTICEABLE_COVERAGE)
    too_many = share > max(most, level + _NOTICEABLE_COVERAGE) and not is_discrete
    if not (too_few or too_many):
        return measured, []
    kind = "narrow" if too_few else "wide"
    message = (
        f"Intervals of {100 * level:.3g} % hold {100 * share:.3g} % of the targets "
        f"of {n:,} rows, where chance gives {100 * least:.3g} to {100 * most:.3g} %: "
        f"they are too {kind}."
    )
    noise = (
        "at the noise, which `Gaussian(trainable=True)` or `heteroscedastic=True` "
        "learns"
    )
    mend = _MEND.format(options="", at=noise)
    return measured, [Finding("miscalibrated", None, "warning", share, message, mend)]
