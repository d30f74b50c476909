"""How much averaging over draws improves on the model's own centre, row by row."""

import numpy as np
from scipy import special

from bhn_tf.diagnosis.findings import Estimate, Finding, mean_of
from bhn_tf.diagnosis.measured_rows import MeasuredRows
from bhn_tf.metrics.calibration import bins_of

_NUM_BINS = 15
_NUM_RESAMPLES = 500
# In nats. A smaller loss is no finding, however certain it is.
_NOTICEABLE_NLL = 0.01


def predictive_log_probs(rows: MeasuredRows) -> np.ndarray:
    """Log of the mean probability over draws, [n]."""
    log_probs = rows.log_probs
    return special.logsumexp(log_probs, axis=1) - np.log(log_probs.shape[1])


def possible_labels(log_probs) -> tuple[np.ndarray, list[Finding]]:
    """Tells which labels are possible under some draw, and how many under none.

    The log-probability of the latter is -inf, so that differences are undefined.

    Args:
        log_probs: Those of `predictive_log_probs`.

    Returns:
        Booleans [n], and a finding if there are impossible labels.

    Raises:
        ValueError: If no label is possible.
    """
    are_impossible = np.isneginf(log_probs)
    count, total = int(are_impossible.sum()), len(log_probs)
    if count == total:
        raise ValueError(
            f"All {total:,} labels have probability 0 under every draw. Look at "
            "whether the likelihood can have such labels, and at their unit."
        )
    if not count:
        return ~are_impossible, []
    finding = Finding(
        "impossible_labels",
        None,
        "warning",
        float(count),
        f"{count:,} of {total:,} labels have probability 0 under every draw, so that "
        "the NLL is infinite. Gains of averaging and Monte Carlo errors are those of "
        "the other rows.",
        "Look at these labels, or take a likelihood that holds nothing for impossible, "
        "such as `StudentT` for numbers.",
    )
    return ~are_impossible, [finding]


def gains(rows: MeasuredRows, classifies: bool, seed: int) -> dict[str, Estimate]:
    """Returns the gains of averaging over the reference; above 0 it is better.

    The same rows are answered both ways, so intervals are of each row's difference. For
    "nll" (nats), "accuracy" and "absolute_error" (units of y) they are normal; for
    "ece", which is not a mean over rows, they are the 2.5 % and 97.5 % quantiles over
    rows drawn with replacement.

    Args:
        rows: The measured rows.
        classifies: Whether y is a class.
        seed: Seed of the resampling.
    """
    reference = rows.reference_log_probs.mean(axis=1)
    found = {"nll": mean_of(predictive_log_probs(rows) - reference)}
    if rows.means is None or rows.reference_means is None or rows.targets is None:
        return found
    mean = rows.means.mean(axis=1, keepdims=True)
    if not classifies:
        targets = rows.targets[:, None]
        error, of_reference = (
            np.abs(each - targets).mean(axis=(1, 2))
            for each in (mean, rows.reference_means)
        )
        return {**found, "absolute_error": mean_of(of_reference - error)}
    right, of_reference = (
        (each.argmax(axis=-1) == rows.targets[:, None]).mean(axis=1)
        for each in (mean, rows.reference_means)
    )
    return {
        **found,
        "accuracy": mean_of(right - of_reference),
        "ece": _gain_of_ece(mean, rows.reference_means, rows.targets, seed),
    }


def ece_of_weights(probabilities, labels, weights) -> np.ndarray:
    """The expected calibration error of rows that count any number of times.

    Args:
        probabilities: [n, C].
        labels: Class numbers, [n].
        weights: How often each row counts, [resamples, n].

    Returns:
        [resamples], as computed by `metrics.ExpectedCalibrationError`.
    """
    confidence = probabilities.max(axis=-1)
    right = probabilities.argmax(axis=-1) == labels
    gaps = np.zeros([len(labels), _NUM_BINS])
    gaps[np.arange(len(labels)), bins_of(confidence, _NUM_BINS)] = right - confidence
    return np.abs(weights @ gaps).sum(axis=1) / weights.sum(axis=1)


def _gain_of_ece(mean, references, labels, seed) -> Estimate:
    n = len(labels)
    random = np.random.default_rng(seed)
    resamples = random.multinomial(n, np.full(n, 1 / n), size=_NUM_RESAMPLES)
    weights = np.concatenate([np.ones([1, n]), resamples])
    of_references = [
        ece_of_weights(references[:, index], labels, weights)
        for index in range(references.shape[1])
    ]
    differences = np.mean(of_references, axis=0)
    differences -= ece_of_weights(mean[:, 0], labels, weights)
    low, high = np.quantile(differences[1:], [0.025, 0.975])
    return Estimate(float(differences[0]), float(low), float(high))


def findings(gained: dict[str, Estimate]) -> list[Finding]:
    """Returns a finding if averaging lowers the likelihood of the labels."""
    nll = gained["nll"]
    if nll.high > -_NOTICEABLE_NLL:
        return []
    return [
        Finding(
            "averaging_hurts",
            None,
            "warning",
            nll.value,
            f"The average over draws has an NLL that is {-nll.value:.3g} nats higher "
            f"than that of the model's own centre (95 % interval {-nll.high:.3g} to "
            f"{-nll.low:.3g}): the draws are noisier than the data ask for.",
            "Train longer, or with less noise: a smaller `initial_stddev` of a "
            "hypernet, a lower rate of dropout. Of a hypernet look at N and at the "
            "widths of the layers. Until then predict with `num_samples=0`.",
        )
    ]
