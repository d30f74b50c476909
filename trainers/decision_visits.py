"""Visits to a doctor, beside statsmodels' negative-binomial regression.

RAND-HIE has 20,190 rows, each a year of one person, and 9 features. A fifth of the rows
is held out. Both regressions see the same rows and standardised features. A fifth of
the training rows chooses among four networks; the best is fitted to all of them.
"""

import itertools
import time
from typing import NamedTuple

import numpy as np
import scipy.stats

import bhn_tf
from bhn_tf import hypernets, likelihoods, metrics
from bhn_tf.tables import text_table
from trainers.config import UsageProblem
from trainers.divergence import guarded, infinite_where_diverged
from trainers.kept_rows import KeptRows
from trainers.networks import Layers, perceptron
from trainers.refit import MEND, Refitter
from trainers.run_folder import RunFolder

_HELD_OUT = _VALIDATION = 0.2
_UNITS = (50,)
_LEVEL = 0.9
_NAME = "visits"


class Candidate(NamedTuple):
    """What is chosen on the validation rows.

    Attributes:
        heteroscedastic: Whether the network predicts a dispersion for every row.
        random: What the hypernet generates for every layer.
    """

    heteroscedastic: bool
    random: str


CANDIDATES = [
    Candidate(*each)
    for each in itertools.product((False, True), ("scale_and_bias", "kernel_and_bias"))
]


def load() -> tuple[np.ndarray, np.ndarray]:
    """Features [rows, 9] and visits [rows].

    Raises:
        UsageProblem: If statsmodels, which brings the data, is not installed.
    """
    try:
        from statsmodels.datasets import randhie
    except ImportError as error:
        raise UsageProblem(
            "--parts=visits takes its data from statsmodels: pip install statsmodels."
        ) from error
    found = randhie.load()
    return np.asarray(found.exog, "float64"), np.asarray(found.endog, "float64")


def compute(config, folder: RunFolder, data) -> list[dict]:
    """A row for each split."""
    x, y = data
    kept = KeptRows(folder, _NAME)
    missing = set(range(config.splits)) - {row["split"] for row in kept.read()}
    # A smoke run only shows that all parts work, and need not choose.
    candidates = CANDIDATES[:1] if config.is_smoke else CANDIDATES
    fitters = {each: _fitter(config, each, x.shape[1]) for each in candidates}
    for split in sorted(missing):
        started = time.monotonic()
        seed = config.seed + split
        order = np.random.default_rng(seed).permutation(len(x))
        if config.is_smoke:
            order = order[:2_000]
        test, train = np.split(order, [round(_HELD_OUT * len(order))])
        standard = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
        with guarded(f"visits, split {split}", MEND):
            found = _measure(config, fitters, standard, y, train, test, seed)
        row = {"split": split, **found, "seconds": time.monotonic() - started}
        kept.add(row)
        print(
            f"visits, split {split}: NLL {row['nll']:.4f}, "
            f"statsmodels {row['statsmodels_nll']:.4f}",
            flush=True,
        )
    return kept.read()


def table(rows: list[dict]) -> str:
    """A line for each split."""
    head = ["visits: split", "held out", "BHN: NLL", "statsmodels: NLL", "difference"]
    head += ["90 % interval covers", "dispersion", "random"]
    lines = [head]
    for row in rows:
        difference = f"{row['difference']:.4f} ± {row['difference_error']:.4f}"
        lines.append(
            [
                str(row["split"]),
                str(row["num_test"]),
                f"{row['nll']:.4f}",
                f"{row['statsmodels_nll']:.4f}",
                difference,
                f"{row['coverage']:.3f}",
                "of each row" if row["heteroscedastic"] else "one",
                row["random"],
            ]
        )
    ours, theirs = (
        np.mean([row[name] for row in rows]) for name in ("nll", "statsmodels_nll")
    )
    lines.append(
        ["mean", "", f"{ours:.4f}", f"{theirs:.4f}", f"{ours - theirs:.4f}", "", "", ""]
    )
    return text_table(lines, numbers=range(1, 6))


def _fitter(config, candidate: Candidate, num_features: int) -> Refitter:
    def make_model():
        network = perceptron(
            (num_features,),
            _UNITS,
            2 if candidate.heteroscedastic else 1,
            Layers([candidate.random]),
        )
        counts = likelihoods.NegativeBinomial(
            trainable=not candidate.heteroscedastic,
            heteroscedastic=candidate.heteroscedastic,
        )
        return bhn_tf.BayesianHypernet(
            network,
            hypernets.RealNVP(2, (50,), initial_stddev=0.05),
            counts,
            prior_stddev="learned_per_layer",
            num_examples=1,
        )

    return Refitter(make_model, 20 if config.is_smoke else 2_000, 256, 5e-3)


def _measure(config, fitters, x, y, train, test, seed) -> dict:
    inputs, targets = x.astype("float32"), y[:, np.newaxis].astype("float32")
    samples = {"num_samples": config.num_samples, "seed": seed}
    validation, fitting = np.split(train, [round(_VALIDATION * len(train))])

    @infinite_where_diverged
    def validation_nll(candidate):
        fitter = fitters[candidate]
        fitter.fit(inputs[fitting], targets[fitting], seed)
        found = fitter.log_density(inputs[validation], targets[validation], **samples)
        return -found.mean()

    best = min(fitters, key=validation_nll)
    model = fitters[best].fit(inputs[train], targets[train], seed)
    ours = fitters[best].log_density(inputs[test], targets[test], **samples)
    lower, upper = model.predict_interval(
        inputs[test], level=_LEVEL, batch_size=1_000, verbose=0, **samples
    )
    theirs = _log_density_of_statsmodels(x, y, train, test)
    difference = theirs - ours
    return {
        "num_train": len(train),
        "num_test": len(test),
        "nll": float(-ours.mean()),
        "statsmodels_nll": float(-theirs.mean()),
        "difference": float(difference.mean()),
        "difference_error": float(difference.std(ddof=1) / np.sqrt(len(test))),
        "coverage": metrics.coverage(targets[test], lower, upper),
        **best._asdict(),
    }


def _log_density_of_statsmodels(x, y, train, test) -> np.ndarray:
    from statsmodels.discrete.discrete_model import NegativeBinomial

    features = np.column_stack([np.ones(len(x)), x])
    fitted = NegativeBinomial(y[train], features[train]).fit(disp=0)
    # For new rows, `loglikeobs` takes the dispersion for its logarithm.
    mean, dispersion = fitted.predict(features[test]), fitted.params[-1]
    return scipy.stats.nbinom.logpmf(
        y[test], 1 / dispersion, 1 / (1 + dispersion * mean)
    )
