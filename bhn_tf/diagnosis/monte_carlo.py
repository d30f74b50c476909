"""How far the answers of S draws are from those of infinitely many."""

from typing import NamedTuple

import numpy as np

from bhn_tf.diagnosis.averaging import predictive_log_probs
from bhn_tf.diagnosis.findings import Finding
from bhn_tf.diagnosis.measured_rows import MeasuredRows

# In nats per element, in probability, and in predictive standard deviations.
_TOLERATED_NLL = 0.02
_TOLERATED_PROBABILITY = 0.02
_TOLERATED_OF_STD = 0.1


class MonteCarlo(NamedTuple):
    """Standard errors that are due to the draws, not to the rows.

    Attributes:
        nll_error: Error of the predictive NLL in nats; all rows share the draws.
        nll_bias: How much lower the NLL would be with infinitely many draws, in nats:
            the log of a mean over draws is too small on average.
        mean_error: Error of the predictive mean, root mean square over rows: in
            probability, or for numbers in predictive standard deviations.
        score_error: Error of a row's mutual information in nats, or of its epistemic
            standard deviation relative to itself; root mean square.
        num_samples_needed: The S at which error and bias of the NLL are within 0.02
            nats, and the error of the mean within 0.02 of probability, or 0.1 standard
            deviations. If a row has several elements, the NLL may be off by its own
            standard error over rows, but at most by 0.02 nats per element.
    """

    nll_error: float
    nll_bias: float
    mean_error: float | None
    score_error: float | None
    num_samples_needed: int


def monte_carlo(rows: MeasuredRows, classifies: bool) -> MonteCarlo:
    """Returns the errors of S draws, estimated from their spread.

    For each row, `p̄ = Σ_s p_s / S`. To first order, draw s moves the mean log by
    `(p_s / p̄ - 1) / S`, averaged over the rows (the infinitesimal jackknife); to
    second order, the mean log is `var(p_s / p̄) / 2S` too small.

    Args:
        rows: The measured rows, with S of at least 2.
        classifies: Whether y is a class.
    """
    num_samples = rows.log_probs.shape[1]
    log_probs = predictive_log_probs(rows)
    ratios = np.exp(rows.log_probs - log_probs[:, None])
    error = _of_mean((ratios - 1).mean(axis=0))
    bias = float(ratios.var(axis=1, ddof=1).mean()) / (2 * num_samples)
    # An error below the standard error over rows would not be noticed.
    error_of_rows = log_probs.std() / np.sqrt(len(log_probs))
    most = rows.num_elements * _TOLERATED_NLL
    tolerated = float(np.clip(error_of_rows, _TOLERATED_NLL, most))
    shares = [(error / tolerated) ** 2, bias / tolerated]
    mean_error = score_error = None
    if rows.means is not None:
        errors = rows.means.std(axis=1, ddof=1) / np.sqrt(num_samples)
        tolerated = _TOLERATED_PROBABILITY
        if classifies:
            score_error = _error_of_mutual_information(rows.means)
        else:
            stds = np.asarray(rows.std)
            errors = errors / np.maximum(stds, np.finfo("float32").tiny)
            tolerated = _TOLERATED_OF_STD
            score_error = float(1 / np.sqrt(2 * (num_samples - 1)))
        mean_error = float(np.sqrt(np.mean(np.square(errors))))
        shares.append((mean_error / tolerated) ** 2)
    needed = int(np.ceil(num_samples * max(shares)))
    return MonteCarlo(error, bias, mean_error, score_error, max(needed, 1))


def _of_mean(of_draws) -> float:
    return float(of_draws.std(ddof=1) / np.sqrt(len(of_draws)))


def _error_of_mutual_information(p) -> float:
    """Root mean square over rows, from each draw's influence, [n, S, C] -> scalar."""
    mean = p.mean(axis=1, keepdims=True)
    tiny = np.finfo("float32").tiny
    entropies = -(p * np.log(np.maximum(p, tiny))).sum(axis=-1)
    moved = -((p - mean) * np.log(np.maximum(mean, tiny))).sum(axis=-1) - entropies
    errors = moved.std(axis=1, ddof=1) / np.sqrt(p.shape[1])
    return float(np.sqrt(np.mean(np.square(errors))))


def findings(found: MonteCarlo, num_samples: int) -> list[Finding]:
    """Returns a finding if more draws would make a noticeable difference."""
    needed = found.num_samples_needed
    if needed <= num_samples:
        return []
    of_mean = ""
    if found.mean_error is not None:
        of_mean = f" and the predictive mean one of {found.mean_error:.2g}"
    return [
        Finding(
            "few_samples",
            None,
            "warning",
            float(needed),
            f"At S = {num_samples} the NLL has a Monte Carlo error of "
            f"{found.nll_error:.2g} nats and a bias of {found.nll_bias:.2g}{of_mean}. "
            f"S = {needed:,} would do.",
            f"Predict, evaluate and export with `num_samples={needed}`.",
        )
    ]
