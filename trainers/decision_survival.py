"""Waiting times that were not all seen to the end, beside Cox's regression.

lifelines' sets are parted into five folds, anew for each repetition. In every fold a
quarter of the training rows chooses among four candidates, and the best is fitted to
all training rows. `benchmarks/survival_rivals.py` wrote the rows, the folds and the
answers of lifelines to one file, since lifelines needs an environment of its own.
"""

import itertools
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import bhn_tf
from bhn_tf import hypernets, likelihoods
from bhn_tf.metrics import concordance_index
from bhn_tf.tables import text_table
from trainers.config import UsageProblem
from trainers.divergence import guarded, infinite_where_diverged
from trainers.kept_rows import KeptRows
from trainers.networks import Layers, perceptron
from trainers.refit import MEND, Refitter
from trainers.run_folder import RunFolder
from trainers.survival_measures import (
    calibration_p_value,
    kaplan_meier,
)

#: lifelines' sets.
SURVIVAL_SETS = ("rossi", "gbsg2", "lung")
_VALIDATION = 0.25
_LIKELIHOODS = {
    "Weibull": likelihoods.CensoredWeibull,
    "LogNormal": likelihoods.CensoredLogNormal,
}
_SHOWN = ("concordance", "p_value", "gap", "cox_concordance", "cox_p_value")
# A narrow prior, since these sets have only 168 to 686 rows.
_PRIOR_STDDEV = 0.3


class Candidate(NamedTuple):
    """What is chosen on the validation rows.

    Attributes:
        likelihood: "Weibull" or "LogNormal".
        units: Units of the hidden layer; 0 for a linear regression.
    """

    likelihood: str
    units: int


CANDIDATES = [Candidate(*each) for each in itertools.product(_LIKELIHOODS, (0, 16))]


class Waits(NamedTuple):
    """A set: features [rows, features], time and event [rows], and Cox's answers.

    Attributes:
        repetitions: Dictionaries of "fold", "log_hazard", "survival" (a number for
            each row) and "concordance" (a number for each fold).
    """

    x: np.ndarray
    time: np.ndarray
    event: np.ndarray
    repetitions: list


def load(config) -> dict[str, Waits]:
    """Returns a `Waits` by name.

    Raises:
        UsageProblem: If the file of Cox's answers is missing or holds something else.
    """
    path = Path(config.survival_rivals)
    try:
        sets = json.loads(path.read_text(encoding="utf-8"))["sets"]
        found = {name: _waits(sets[name]) for name in config.survival_sets}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageProblem(
            f"--survival_rivals={path} cannot be read ({error!r}). "
            "`python -m benchmarks.survival_rivals` writes it, in an environment with "
            "lifelines."
        ) from error
    for name, waits in found.items():
        if config.repetitions > len(waits.repetitions):
            raise UsageProblem(
                f"--repetitions={config.repetitions}: {path} has the answers of "
                f"{len(waits.repetitions)} repetitions of {name}."
            )
    return found


def _waits(entry: dict) -> Waits:
    x, moments, event = (np.array(entry[key]) for key in ("rows", "time", "event"))
    repetitions = [
        {key: np.array(value) for key, value in each.items()}
        for each in entry["repetitions"]
    ]
    return Waits(x.astype("float64"), moments.astype("float64"), event, repetitions)


def compute(config, folder: RunFolder, sets: dict[str, Waits]) -> list[dict]:
    """A row for each set and repetition."""
    rows = []
    for name, waits in sets.items():
        kept = KeptRows(folder, f"survival_{name}")
        found = {row["repetition"] for row in kept.read()}
        missing = set(range(config.repetitions)) - found
        # A smoke run only shows that all parts work, and need not choose.
        candidates = CANDIDATES[:1] if config.is_smoke else CANDIDATES
        fitters = {each: _fitter(config, each, waits.x.shape[1]) for each in candidates}
        for repetition in sorted(missing):
            started = time.monotonic()
            with guarded(f"{name}, repetition {repetition}", MEND):
                measured = _measure(config, fitters, waits, repetition)
            row = {"set": name, "repetition": repetition, **measured}
            kept.add({**row, "seconds": time.monotonic() - started})
            print(
                f"{name}, repetition {repetition}: concordance "
                f"{row['concordance']:.4f}, Cox's {row['cox_concordance']:.4f}",
                flush=True,
            )
        rows += kept.read()
    return rows


def table(rows: list[dict]) -> str:
    """A line for each set and repetition."""
    head = ["survival", "rows", "repetition", "BHN: concordance", "p", "largest gap"]
    head += ["Cox: concordance", "p", "chosen in the folds"]
    lines = [head]
    for row in rows:
        numbers = [f"{row[key]:.4f}" for key in _SHOWN]
        start = [row["set"], str(row["num_rows"]), str(row["repetition"])]
        lines.append([*start, *numbers, row["chosen"]])
    for name in dict.fromkeys(row["set"] for row in rows):
        means = [
            np.mean([row[key] for row in rows if row["set"] == name])
            for key in ("concordance", "cox_concordance")
        ]
        ours, theirs = (f"{mean:.4f}" for mean in means)
        lines.append([f"{name}, mean", "", "", ours, "", "", theirs, "", ""])
    return text_table(lines, numbers=range(1, 8))


def _fitter(config, candidate: Candidate, num_features: int) -> Refitter:
    def make_model():
        network = perceptron(
            (num_features,),
            (candidate.units,) if candidate.units else (),
            1,
            Layers(["kernel_and_bias"]),
            activation="tanh",
        )
        return bhn_tf.BayesianHypernet(
            network,
            hypernets.MeanField(initial_stddev=0.05),
            _LIKELIHOODS[candidate.likelihood](trainable=True),
            prior_stddev=_PRIOR_STDDEV,
            num_examples=1,
        )

    return Refitter(make_model, 20 if config.is_smoke else 400, 64, 1e-2)


def _measure(config, fitters, waits: Waits, repetition: int) -> dict:
    rival = waits.repetitions[repetition]
    num_rows = len(waits.x)
    survival, chosen = np.zeros(num_rows), []
    quartiles = np.quantile(waits.time[waits.event == 1], [0.25, 0.5, 0.75])
    at_quartiles = np.zeros([3, num_rows])
    concordance = []
    for fold in range(rival["fold"].max() + 1):
        seed = config.seed + 100 * repetition + fold
        test = np.flatnonzero(rival["fold"] == fold)
        train = np.flatnonzero(rival["fold"] != fold)
        best, lives_longer = _fitted(config, fitters, waits, train, seed)
        survival[test] = lives_longer(test, waits.time[test])
        for index, quartile in enumerate(quartiles):
            at_quartiles[index, test] = lives_longer(test, quartile)
        usual = lives_longer(test, np.median(waits.time[train]))
        concordance.append(
            concordance_index(waits.time[test], waits.event[test], usual)
        )
        chosen.append(f"{best.likelihood} {best.units}")
    estimate = kaplan_meier(waits.time, waits.event, quartiles)
    return {
        "num_rows": num_rows,
        "num_events": int(waits.event.sum()),
        "concordance": float(np.mean(concordance)),
        "cox_concordance": float(rival["concordance"].mean()),
        "p_value": calibration_p_value(waits.event, survival),
        "cox_p_value": calibration_p_value(waits.event, rival["survival"]),
        "gap": float(np.abs(at_quartiles.mean(axis=1) - estimate).max()),
        "chosen": ", ".join(
            f"{chosen.count(each)} × {each}" for each in sorted(set(chosen))
        ),
    }


def _fitted(config, fitters, waits: Waits, train, seed):
    """Returns the best candidate, and P(T > time) by its fit to all training rows."""
    order = np.random.default_rng(seed).permutation(train)
    validation, fitting = np.split(order, [round(_VALIDATION * len(order))])
    x = (waits.x - waits.x[train].mean(axis=0)) / waits.x[train].std(axis=0)
    x = x.astype("float32")
    unit = np.median(waits.time[train])
    y = np.column_stack([waits.time / unit, waits.event]).astype("float32")
    samples = {"num_samples": config.num_samples, "seed": seed}

    @infinite_where_diverged
    def validation_nll(candidate):
        fitters[candidate].fit(x[fitting], y[fitting], seed)
        found = fitters[candidate].log_density(x[validation], y[validation], **samples)
        return -found.mean()

    best = min(fitters, key=validation_nll)
    fitters[best].fit(x[train], y[train], seed)

    def lives_longer(rows, moments):
        # Labels of rows whose event has not been seen by then.
        labels = np.zeros([len(rows), 2], "float32")
        labels[:, 0] = moments / unit
        return np.exp(fitters[best].log_density(x[rows], labels, **samples))

    return best, lives_longer
