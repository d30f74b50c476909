"""Sets of classes that hold the truth as often as they promise, for digits and clothes.

A small convolutional Bayesian hypernet and MC dropout learn from some rows, are
calibrated on others and measured on a third part. Averaged probabilities are computed
once and calibrated as outputs of a model that only passes them on: this gives the same
sets as the network, in much less time.
"""

import functools
from typing import NamedTuple

import keras
import numpy as np

from bhn_tf import baselines, conformal, likelihoods, metrics
from bhn_tf.conformal import ranks
from bhn_tf.tables import text_table
from trainers.comparison import (
    ComparisonConfig,
    quality_of,
    require_models,
    train_methods,
)
from trainers.config import UsageProblem
from trainers.coverage_limits import coverage_interval
from trainers.image_sets import load_named, require_own_names, set_name
from trainers.kept_rows import KeptRows
from trainers.methods import METHOD_NAMES
from trainers.run_folder import RunFolder

METHODS = ("bhn", "mc_dropout")
LEVELS = (0.9, 0.99)
_MOST_ROWS = 5_000
#: A score of `conformal`, and whether its coverage is exact. Without randomisation the
#: scores of the least likely classes tie, and sets may cover more than was asked.
SCORES = {
    "LAC": (conformal.LAC(), True),
    "APS, randomised": (conformal.APS(randomized=True), True),
    "APS": (conformal.APS(), False),
    "RAPS, randomised": (conformal.RAPS(randomized=True), True),
    "RAPS": (conformal.RAPS(), False),
}


class Parts(NamedTuple):
    """Rows to learn from, to calibrate on and to be measured on, each `(x, y)`."""

    train: tuple
    calibration: tuple
    test: tuple


def load(config) -> dict[str, Parts]:
    """Returns the `Parts` of each set by the name that results give it.

    Training and calibration rows are 5,000 each of the training split, or its halves;
    test rows are the test split. A set with one split is divided by 4 : 3 : 3.

    Raises:
        UsageProblem: If a set cannot be read, has too few rows or suits no network, or
            if two have one name.
    """
    require_own_names(config.image_sets, "image_sets")
    sets = {}
    for name in config.image_sets:
        sets[set_name(name)] = parts = _parts(config, name)
        try:
            _require_suitable(config, parts)
        except UsageProblem as problem:
            raise UsageProblem(f"--image_sets={name}: {problem}") from problem
    return sets


def _parts(config, name: str) -> Parts:
    splits = load_named(name, config, "image_sets")
    has_test = {"train", "test"} <= set(splits)
    x, y = splits["train"] if has_test else next(iter(splits.values()))
    order = np.random.default_rng(config.seed).permutation(len(x))
    if config.is_smoke:
        order = order[:900]
    if has_test:
        size = min(_MOST_ROWS, len(order) // 2)
        learn, calibrate = order[:size], order[size : 2 * size]
        test = tuple(part[:300] if config.is_smoke else part for part in splits["test"])
    else:
        ends = [round(share * len(order)) for share in (0.4, 0.7)]
        learn, calibrate, rest = np.split(order, ends)
        test = x[rest], y[rest]
    return Parts((x[learn], y[learn]), (x[calibrate], y[calibrate]), test)


def _require_suitable(config, parts: Parts) -> None:
    x, _ = parts.train
    if x.ndim != 4 or _num_classes(parts) < 2:
        raise UsageProblem("it holds no images of at least two classes.")
    needed = ranks.rows_needed(max(LEVELS))
    num_calibration = len(parts.calibration[1])
    if num_calibration < needed or not len(parts.test[1]):
        raise UsageProblem(
            f"it has {num_calibration} rows to calibrate on, and the level "
            f"{max(LEVELS):.0%} needs {needed}. Three tenths of a set with one split, "
            "or half of a training split, are for that."
        )
    training = _training(config, "")
    require_models(METHODS, training, x.shape[1:], _num_classes(parts))


def _num_classes(parts: Parts) -> int:
    return 1 + max(int(max(y, default=0)) for _, y in parts)


def compute(config, folder: RunFolder, sets: dict[str, Parts]) -> list[dict]:
    """A row for each set, method, score and level."""
    rows = []
    # A smoke run only shows that all parts work.
    scores = ("LAC",) if config.is_smoke else tuple(SCORES)
    for name, parts in sets.items():
        kept = KeptRows(folder, f"sets_{name}")
        missing = [
            m for m in METHODS if m not in {row["method"] for row in kept.read()}
        ]
        training = _training(config, name)
        label = f"_{name}"
        for method, model, seconds in train_methods(
            missing, training, folder, *parts.train, _num_classes(parts), label
        ):
            ask = functools.partial(
                model.predict,
                num_samples=training.num_samples,
                seed=config.seed,
                batch_size=500,
                verbose=0,
            )
            probabilities = ask(parts.calibration[0]), ask(parts.test[0])
            labels = parts.calibration[1], parts.test[1]
            quality = quality_of(probabilities[1], labels[1])
            named = {"set": name, "method": method}
            kept.add(
                *(
                    {**named, **row, **quality, "seconds": seconds}
                    for row in measured(probabilities, labels, scores)
                )
            )
        rows += kept.read()
    return rows


def _training(config, name: str) -> ComparisonConfig:
    return ComparisonConfig(
        dataset=name,
        seed=config.seed,
        epochs=1 if config.is_smoke else 10,
        network="cnn",
        filters=(2, 2) if config.is_smoke else (8, 8),
        units=(8,) if config.is_smoke else (64,),
        random=("scale",),
        initial_stddev=0.1,
        dropout_rate=0.25,
        input_dropout=0.0,
        num_samples=config.image_samples,
    )


def measured(probabilities, labels, scores=tuple(SCORES)) -> list[dict]:
    """A row for every score and level.

    Args:
        probabilities: Averages for calibration rows and for test rows, [n, C] each.
        labels: Class numbers of these rows.
        scores: Names in `SCORES`.
    """
    num_classes = probabilities[0].shape[1]
    passes_on = baselines.Deterministic(
        keras.Sequential(
            [keras.Input((num_classes,)), keras.layers.Activation("linear")]
        ),
        likelihoods.Categorical(from_logits=False),
    )
    top = np.eye(num_classes, dtype=bool)[probabilities[1].argmax(axis=1)]
    rows = []
    for name in scores:
        score, is_exact = SCORES[name]
        calibrated = conformal.calibrate(
            passes_on,
            probabilities[0],
            labels[0],
            score=score,
            allow_empty=True,
            batch_size=1_000,
        )
        for level in LEVELS:
            sets = calibrated.predict_set(
                probabilities[1], level, batch_size=1_000, verbose=0
            )
            # Served sets, without `allow_empty`, hold at least the likeliest class.
            served = sets | (top & ~sets.any(axis=1, keepdims=True))
            rows.append(
                {
                    "score": name,
                    "level": level,
                    **_measured_sets(sets, labels, level, is_exact),
                    "served_coverage": metrics.coverage(labels[1], served),
                    "served_size": metrics.set_size(served),
                }
            )
    return rows


def _measured_sets(sets, labels, level: float, is_exact: bool) -> dict:
    num_calibration, num_test = map(len, labels)
    rank = ranks.rank(num_calibration, ranks.parts_of(level))
    low, high = coverage_interval(rank, num_calibration, num_test)
    coverage = metrics.coverage(labels[1], sets)
    by_class = [
        metrics.coverage(labels[1][labels[1] == each], sets[labels[1] == each])
        for each in np.unique(labels[1])
    ]
    return {
        "coverage": coverage,
        "low": low,
        "high": high if is_exact else 1.0,
        "is_within": bool(low <= coverage <= (high if is_exact else 1.0)),
        "size": metrics.set_size(sets),
        "empty": float(np.mean(~sets.any(axis=1))),
        "lowest_class": min(by_class),
        "highest_class": max(by_class),
        "num_calibration": num_calibration,
        "num_test": num_test,
    }


def table(rows: list[dict]) -> str:
    """A line for each set, method, score and level."""
    head = ["sets", "method", "score", "level", "coverage", "99 % of calibrations"]
    head += [
        "size",
        "empty",
        "lowest class",
        "highest",
        "never empty: coverage",
        "size",
    ]
    lines = [head]
    for row in rows:
        numbers = [
            f"{row[key]:.4f}"
            for key in ("empty", "lowest_class", "highest_class", "served_coverage")
        ]
        interval = f"{row['low']:.4f} to {row['high']:.4f}"
        lines.append(
            [
                row["set"],
                METHOD_NAMES[row["method"]],
                row["score"],
                f"{row['level']:.0%}",
                f"{row['coverage']:.4f}",
                interval + ("" if row["is_within"] else " !"),
                f"{row['size']:.3f}",
                *numbers,
                f"{row['served_size']:.3f}",
            ]
        )
    return text_table(lines, numbers=range(3, len(head)))
