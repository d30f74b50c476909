"""Measures of predicted waiting times, some of which were not seen to the end.

Arrays have an entry for each row: `time`, `event` (1 where it was seen, 0 where it had
not happened by then), and what a model that has not seen the row predicts.
"""

import numpy as np
import scipy.stats


def calibration_p_value(event, survival, num_bins: int = 10) -> float:
    """p-value of D-calibration: are probabilities of survival evenly spread?

    Haider et al., "Effective ways to build and evaluate individual survival
    distributions" (2020). If a model is calibrated, its probability of living longer
    than the row did is uniform; a row whose event was not seen is spread over all
    values that this can still take.

    Args:
        event: 1 where it was seen.
        survival: Predicted probability of living longer than `time`.
        num_bins: Bins of the chi-square test.
    """
    event, survival = np.asarray(event), np.asarray(survival, "float64")
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    seen = np.histogram(survival[event == 1], edges)[0].astype("float64")
    left = np.clip(survival[event == 0], 1e-12, 1.0)[:, np.newaxis]
    # Such a row is uniform from 0 to its probability of survival.
    share = np.clip(left - edges[:-1], 0.0, 1.0 / num_bins) / left
    counts = seen + share.sum(axis=0)
    return float(scipy.stats.chisquare(counts, counts.sum() / num_bins).pvalue)


def kaplan_meier(time, event, at) -> np.ndarray:
    """Kaplan and Meier's estimate of the share that lives longer than some times.

    Args:
        time, event: What was seen.
        at: The times at which to estimate.

    Example:
        >>> kaplan_meier([1.0, 2.0, 3.0], [1, 0, 1], [1.5, 3.5]).round(3).tolist()
        [0.667, 0.0]
    """
    time, event = np.asarray(time), np.asarray(event)
    moments = np.unique(time[event == 1])
    events = np.array([np.sum((time == t) & (event == 1)) for t in moments])
    at_risk = np.array([np.sum(time >= t) for t in moments])
    alive = np.cumprod(1.0 - events / at_risk)
    return np.concatenate([[1.0], alive])[np.searchsorted(moments, at, side="right")]
