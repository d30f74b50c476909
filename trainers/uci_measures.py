"""Measures of a regression, and their means over splits."""

import numpy as np
import scipy.special

from bhn_tf import conformal, metrics
from bhn_tf.conformal import ranks
from trainers.coverage_limits import coverage_interval
from trainers.uci_methods import LEVEL, Fitted, Predictive
from trainers.uci_sets import Rows, Standard

#: The measures that tables show, in order.
MEASURES = ("rmse", "nll", "coverage", "width", "crps")
CALIBRATED = (
    "calibrated_coverage",
    "calibrated_width",
    "absolute_coverage",
    "absolute_width",
)


def nll(y, predictive: Predictive) -> float:
    """-log of the mean density over the draws, mean over rows, never clipped."""
    mean, std = predictive.mean, predictive.std
    log_probs = -0.5 * np.square((y[:, 0] - mean) / std) - np.log(std)
    log_probs -= 0.5 * np.log(2 * np.pi)
    mixture = scipy.special.logsumexp(log_probs, axis=0) - np.log(len(mean))
    return float(-mixture.mean())


def measured(fitted: Fitted, rows: Rows, standard: Standard) -> dict:
    """Measures of test rows, in the targets' units."""
    x, y = standard.apply(rows)
    predictive = fitted.predict(x)
    y, scale = y[:, 0].astype("float64"), standard.y_std
    error = y - predictive.mean.mean(axis=0)
    lower, upper = predictive.lower, predictive.upper
    return {
        "rmse": scale * float(np.sqrt(np.mean(np.square(error)))),
        "nll": nll(y[:, np.newaxis], predictive) + np.log(scale),
        "coverage": metrics.coverage(y, lower, upper),
        "width": scale * metrics.mean_width(lower, upper),
        "crps": scale * metrics.crps(y, predictive.mean.T, predictive.std.T),
    }


def measured_calibration(
    fitted: Fitted, validation: Rows, rows: Rows, standard: Standard
) -> dict:
    """Coverage and width of calibrated intervals of test rows.

    Intervals of the default score are as wide as the model is unsure. Those of absolute
    residuals, around the same centre, all have one width.
    """
    x, y = standard.apply(rows)
    found = {}
    for name, score in (("calibrated", "normalized"), ("absolute", "absolute")):
        calibrated = conformal.calibrate(
            fitted.model,
            *standard.apply(validation),
            score=score,
            num_samples=fitted.num_samples,
            seed=fitted.seed,
            batch_size=1_000,
        )
        bounds = calibrated.predict_interval(x, LEVEL, batch_size=1_000, verbose=0)
        found[f"{name}_coverage"] = metrics.coverage(y, *bounds)
        found[f"{name}_width"] = standard.y_std * metrics.mean_width(*bounds)
    return found


def summary(rows: list[dict]) -> dict:
    """Mean and standard error over the splits, of every set, method and measure.

    Args:
        rows: One dictionary for each set, method and split.

    Returns:
        `{set: {method: {measure: [mean, standard error or None]}}}`, with the number
        of splits as "splits".
    """
    found: dict = {}
    for row in rows:
        found.setdefault(row["set"], {}).setdefault(row["method"], []).append(row)
    return {
        name: {method: _over_splits(splits) for method, splits in by_method.items()}
        for name, by_method in found.items()
    }


def held(rows: list[dict]) -> dict:
    """How well the calibrated intervals of each method keep their promise.

    Args:
        rows: One dictionary for each set, method and split.

    Returns:
        By method: "sets" and "splits", their numbers; "coverage", the mean over sets;
        "inside", the number of splits whose coverage is in the interval that holds 99
        of 100 calibrations; "relative_width", the mean over sets of the width divided
        by that of absolute residuals around the same centre.
    """
    by_method: dict = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    return {method: _held(found) for method, found in by_method.items()}


def _held(rows: list[dict]) -> dict:
    def mean_over_sets(value_of):
        by_set: dict = {}
        for row in rows:
            by_set.setdefault(row["set"], []).append(value_of(row))
        return float(np.mean([np.mean(values) for values in by_set.values()]))

    return {
        "sets": len({row["set"] for row in rows}),
        "splits": len(rows),
        "coverage": mean_over_sets(lambda row: row["calibrated_coverage"]),
        "inside": sum(_is_inside(row) for row in rows),
        "relative_width": mean_over_sets(
            lambda row: row["calibrated_width"] / row["absolute_width"]
        ),
    }


def _is_inside(row: dict) -> bool:
    num_calibration, num_test = row["num_calibration"], row["num_test"]
    rank = int(ranks.rank(num_calibration, ranks.parts_of(LEVEL)))
    low, high = coverage_interval(rank, num_calibration, num_test)
    # The share of rows is rounded anew, exactly as the limits are.
    covered = round(row["calibrated_coverage"] * num_test) / num_test
    return low <= covered <= high


def _over_splits(rows: list[dict]) -> dict:
    over: dict = {"splits": len(rows)}
    for measure in (*MEASURES, *CALIBRATED):
        if measure not in rows[0]:
            continue
        values = np.array([row[measure] for row in rows])
        error = None
        if len(values) > 1:
            error = float(values.std(ddof=1) / np.sqrt(len(values)))
        over[measure] = [float(values.mean()), error]
    return over
