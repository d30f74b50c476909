"""Cox's regression by lifelines, on the folds that `trainers.decisions` goes through.

lifelines needs an older pandas, so it lives in an environment of its own, without
TensorFlow or this library:

    python3 -m venv /tmp/lifelines
    /tmp/lifelines/bin/pip install lifelines
    /tmp/lifelines/bin/python -m benchmarks.survival_rivals

One file holds the complete rows of lifelines' sets, with words as 0 and 1. For each
repetition of five-fold cross-validation it holds the fold of every row and, from the
model that has not seen the row, its log hazard and its probability of living longer
than it did, and for each fold the concordance index.
"""

import argparse
import json
from pathlib import Path

import numpy as np

NUM_FOLDS = 5
_REPETITIONS = 3
# Columns of time and event, and those to drop: the number of an institution.
_COLUMNS = {
    "rossi": ("week", "arrest", ()),
    "gbsg2": ("time", "cens", ()),
    "lung": ("time", "status", ("inst",)),
}


def main() -> None:
    """Fits all folds and writes the file."""
    parser = argparse.ArgumentParser(description="Cox's regression by lifelines.")
    parser.add_argument("--output", default="docs/results/survival_rivals.json")
    output = Path(parser.parse_args().output)

    import lifelines

    found = {name: _of_set(name) for name in _COLUMNS}
    output.parent.mkdir(parents=True, exist_ok=True)
    # A line for each row and repetition, so that differences can be read.
    text = json.dumps({"lifelines": lifelines.__version__, "sets": found})
    for opening in ('"rows": [', '"repetitions": [', "], [", "}, {"):
        text = text.replace(opening, opening.rstrip("[{") + "\n" + opening[-1])
    output.write_text(text + "\n")
    for name, of_set in found.items():
        mean = np.mean([each["concordance"] for each in of_set["repetitions"]])
        print(f"{name}: {len(of_set['rows'])} rows, Cox's concordance {mean:.4f}")


def _of_set(name: str) -> dict:
    import lifelines.datasets
    import pandas as pd

    time, event, left_out = _COLUMNS[name]
    frame = getattr(lifelines.datasets, f"load_{name}")()
    frame = frame.drop(columns=list(left_out)).dropna()
    frame = pd.get_dummies(frame, drop_first=True, dtype=int).reset_index(drop=True)
    features = [column for column in frame if column not in (time, event)]
    return {
        "features": features,
        "rows": frame[features].to_numpy().tolist(),
        "time": frame[time].tolist(),
        "event": frame[event].tolist(),
        "repetitions": [
            _repetition(frame, time, event, seed) for seed in range(_REPETITIONS)
        ],
    }


def _repetition(frame, time: str, event: str, seed: int) -> dict:
    from lifelines import CoxPHFitter
    from lifelines.utils import concordance_index

    fold = np.random.default_rng(seed).permutation(len(frame)) % NUM_FOLDS
    log_hazard, survival = np.zeros(len(frame)), np.zeros(len(frame))
    concordance = []
    for each in range(NUM_FOLDS):
        is_test = fold == each
        test = frame[is_test]
        cox = CoxPHFitter().fit(frame[~is_test], time, event)
        log_hazard[is_test] = cox.predict_log_partial_hazard(test).round(5)
        times = np.unique(test[time])
        curves = cox.predict_survival_function(test, times=times).to_numpy()
        own = np.searchsorted(times, test[time])
        survival[is_test] = curves[own, np.arange(len(test))].round(5)
        concordance.append(
            concordance_index(test[time], -log_hazard[is_test], test[event])
        )
    return {
        "fold": fold.tolist(),
        "log_hazard": log_hazard.tolist(),
        "survival": survival.tolist(),
        "concordance": concordance,
    }


if __name__ == "__main__":
    main()
