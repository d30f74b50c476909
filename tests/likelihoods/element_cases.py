"""Every likelihood with labels, raw outputs, and log p of single elements."""

import numpy as np
from scipy import special, stats

from bhn_tf.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Ordinal,
    Standardized,
)
from tests.likelihoods.families import (
    CENSORED,
    EVENTS,
    FAMILIES,
    log_prob_of_waiting,
    raw_outputs,
)

ROWS, STEPS, OUTPUTS = 3, 4, 2
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(ROWS, STEPS, 3)).astype("float32")
CLASSES = RNG.integers(0, 3, size=(ROWS, STEPS))
REALS = RNG.normal(size=(ROWS, STEPS, OUTPUTS)).astype("float32")
BITS = RNG.integers(0, 2, size=(ROWS, STEPS, OUTPUTS))
SPREADS = RNG.normal(size=(ROWS, STEPS, OUTPUTS)).astype("float32")
MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], bool)


def log_of_class(row, step):
    return special.log_softmax(LOGITS[row, step].astype("float64"))[CLASSES[row, step]]


def log_of_bit(*index):
    return stats.bernoulli.logpmf(BITS[index], special.expit(float(REALS[index])))


def log_of_number(*index):
    return stats.norm.logpdf(BITS[index], REALS[index], 0.5)


def log_of_noisy_number(*index):
    stddev = 0.5 * (np.log1p(np.exp(SPREADS[index])) + 1e-6)
    return stats.norm.logpdf(BITS[index], REALS[index], stddev)


def log_of_scaled_number(*index):
    return stats.norm.logpdf(BITS[index], 5 + 3 * REALS[index], 3 * 0.5)


def standardized(reduction):
    likelihood = Standardized(Gaussian(0.5, reduction=reduction))
    likelihood.adapt(np.array([[2.0] * OUTPUTS, [8.0] * OUTPUTS]))
    return likelihood


#: Likelihood by reduction, labels, raw outputs, log p of one element by its index.
CASES = {
    "categorical": (
        lambda reduction: Categorical(True, reduction=reduction),
        CLASSES,
        LOGITS,
        log_of_class,
    ),
    "categorical_column": (
        lambda reduction: Categorical(True, reduction=reduction),
        CLASSES[..., None],
        LOGITS,
        log_of_class,
    ),
    "categorical_one_hot": (
        lambda reduction: Categorical(True, reduction=reduction),
        np.eye(3)[CLASSES],
        LOGITS,
        log_of_class,
    ),
    "categorical_probabilities": (
        lambda reduction: Categorical(False, reduction=reduction),
        CLASSES.astype("float32"),
        special.softmax(LOGITS, axis=-1),
        log_of_class,
    ),
    "bernoulli": (
        lambda reduction: Bernoulli(True, reduction=reduction),
        BITS,
        REALS,
        log_of_bit,
    ),
    "bernoulli_probabilities": (
        lambda reduction: Bernoulli(False, reduction=reduction),
        BITS.astype("float32"),
        special.expit(REALS),
        log_of_bit,
    ),
    "gaussian": (
        lambda reduction: Gaussian(0.5, reduction=reduction),
        BITS,
        REALS,
        log_of_number,
    ),
    "heteroscedastic": (
        lambda reduction: Gaussian(0.5, heteroscedastic=True, reduction=reduction),
        BITS,
        np.concatenate([REALS, SPREADS], axis=-1),
        log_of_noisy_number,
    ),
    "standardized": (standardized, BITS, REALS, log_of_scaled_number),
}


def case_of(name, family):
    """A case with a density of scipy; labels are whole numbers only for counts."""
    parts, raw = raw_outputs(family)
    y, log_probs = family.labels, None
    if name in CENSORED:
        log_probs = log_prob_of_waiting(family, y, EVENTS, *parts)
        y = np.stack([y, EVENTS], axis=-1)
    else:
        log_probs = family.log_prob(y, *parts)
    if y.dtype.kind == "f":
        y = y.astype("float32")
    return (
        lambda reduction: family.make(reduction=reduction),
        y,
        raw,
        lambda *index: log_probs[index],
    )


CASES |= {
    name: case_of(name, family)
    for name, family in (FAMILIES | CENSORED).items()
    if name != "gaussian"
}
CASES["ordinal"] = (
    lambda reduction: Ordinal(3, reduction=reduction),
    CLASSES,
    REALS[..., :1],
    lambda *index: ORDINAL_LOG_PROBS[index],
)
CUTS = special.logit([1 / 3, 2 / 3])
BELOW = special.expit(CUTS - REALS[..., :1].astype("float64"))
ORDINAL_LOG_PROBS = np.log(
    np.take_along_axis(
        np.diff(BELOW, axis=-1, prepend=0, append=1), CLASSES[..., None], axis=-1
    )[..., 0]
)
