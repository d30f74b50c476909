r"""Regression on the nine sets of UCI, beside what papers report on the same splits.

Networks have a hidden layer of 50 units (100 for protein). Inputs and targets are
standardised; results are in the targets' units. The training rows of a split are
divided: every method has the same number of candidates (two kinds of noise, two
strengths of its prior), each fitted to 80 % of them (on sets above 2,000 rows for a
third of the steps) and judged by its likelihood of the other 20 %. The best is fitted
to all training rows and measured on the test rows. It is also fitted to the 80 % and
calibrated on the 20 % (`bhn_tf.conformal`): these rows chose one of four candidates,
which the promise of conformal intervals does not allow for.

    python -m trainers.uci --data_dir=... --splits=3
    python -m trainers.uci --data_dir=... --sets=boston,yacht \
        --methods=bhn_scale_realnvp --splits=20

`--data_dir` holds a folder for each set; the error of a run without it says where they
come from.

A row is a set, a split and a method, and is kept as soon as it is found: a killed run
goes on with the next, and a run with other --sets, --splits or --methods in the same
folder adds to it.
"""

import dataclasses
import gc
import itertools
import time
from pathlib import Path
from typing import ClassVar

import keras
import numpy as np

from trainers import experiment
from trainers.config import (
    CommonConfig,
    at_least,
    flag,
    positive,
    run_binary,
    sizes,
    some_of,
)
from trainers.divergence import guarded, infinite_where_diverged, lower_rate
from trainers.kept_rows import KeptRows
from trainers.run_folder import RunFolder
from trainers.state_files import making_sense_of, read_json
from trainers.uci_measures import (
    held,
    measured,
    measured_calibration,
    nll,
    summary,
)
from trainers.uci_methods import METHOD_NAMES, Budget, Fitter, candidates
from trainers.uci_sets import SETS, Rows, Standard, load_set
from trainers.uci_table import promises, tables

_SHARE_OF_VALIDATION = 0.2


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.uci`."""

    # No flags here: sets have a flag of their own, and fits are counted in steps.
    dataset: ClassVar[str] = "uci"
    epochs: ClassVar[int] = 0
    batch_size: ClassVar[int] = 0
    hypernet: ClassVar[str] = ""
    strategy: ClassVar[str] = "default"
    # These say which rows to compute, not how.
    not_in_identity: ClassVar[frozenset] = frozenset(
        {"sets", "splits", "methods", "rivals"}
    )

    sets: tuple = flag(SETS, "Sets, separated by commas.", **some_of(*SETS))
    splits: int = flag(
        3, "The first so many splits of each set; protein has 5.", **at_least(1)
    )
    methods: tuple = flag(
        tuple(METHOD_NAMES),
        "Methods, separated by commas.",
        **some_of(*METHOD_NAMES),
    )
    data_dir: str = flag("", "Folder of the nine sets, boston/data/ and so on.")
    rivals: str = flag(
        "docs/results/uci_ngboost.json",
        "What benchmarks.uci_rivals has written, to be shown; empty for none.",
    )
    steps: int = flag(
        0, "Steps of each fit; 0 chooses by the number of rows.", **at_least(0)
    )
    learning_rate: float = flag(5e-3, "Adam's first learning rate.", **positive())
    num_flow_layers: int = flag(4, "L, layers of the flow.", **at_least(1))
    flow_units: tuple = flag((100,), "Hidden units of each conditioner.", **sizes())
    train_samples: int = flag(2, "Draws of g for each step.", **at_least(1))
    num_samples: int = flag(200, "S, draws of each prediction.", **at_least(2))
    ensemble_size: int = flag(5, "Members of the deep ensemble.", **at_least(1))
    jit_compile: bool = flag(True, "Compile training steps of flows with XLA.")


@dataclasses.dataclass
class Uci:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "uci"

    def load(self) -> dict:
        """Returns a `UciSet` by name."""
        config = self.config
        # Refuses a file that cannot be shown before the hours of a run, not after.
        _rivals(config)
        return {
            name: load_set(config.data_dir, name, config.splits) for name in config.sets
        }

    def is_complete(self, results: dict) -> bool:
        """Whether a finished run has all rows that are asked for now."""
        found = {(row["set"], row["method"], row["split"]) for row in results["rows"]}
        return all(
            (name, method, split) in found
            for name, method in itertools.product(self.config.sets, self.config.methods)
            for split in range(_num_splits(self.config, name))
        )

    def compute(self, folder: RunFolder, sets: dict) -> dict:
        for name, uci_set in sets.items():
            for method in self.config.methods:
                _compute_splits(self.config, folder, name, uci_set, method)
        rows = [
            row
            for name, method in itertools.product(SETS, METHOD_NAMES)
            for row in _kept_rows(folder, name, method)
        ]
        return {"rows": rows, "summary": summary(rows)}

    def table(self, results: dict) -> str:
        return "\n\n".join(
            [
                tables(results["summary"], _rivals(self.config)),
                promises(held(results["rows"])),
            ]
        )

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            "\nMean ± standard error over splits, in the units of the targets; NLL in "
            "nats.\n"
            "coverage, width: of the model's own 90 % interval; calibrated: of the "
            "conformal\none; absolute: of absolute residuals around the same centre.\n"
            f"All rows are in {folder.path}/results.json. The same command with other\n"
            "--sets, --splits (up to 20) or --methods adds to them."
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(Uci(config))


def _rivals(config: Config) -> dict:
    """NGBoost's summary of the same splits; empty if it was not run."""
    path = Path(config.rivals)
    is_default = config.rivals == type(config).rivals
    if not config.rivals or (is_default and not path.exists()):
        return {}
    mend = "`python -m benchmarks.uci_rivals` writes it; --rivals= does without."
    found = read_json(path, dict, mend)
    with making_sense_of(path, mend):
        rows = [
            {**row, "method": "NGBoost"}
            for row in found["rows"]
            if row["split"] < config.splits
        ]
        return summary(rows)


# -- rows ----------------------------------------------------------------------------


def _num_splits(config: Config, name: str) -> int:
    return min(config.splits, 5 if name == "protein" else 20)


def _compute_splits(config, folder, name, uci_set, method) -> None:
    """Computes those splits of a set and a method that the folder lacks."""
    kept = KeptRows(folder, f"{name}-{method}")
    missing = set(range(len(uci_set.splits))) - {row["split"] for row in kept.read()}
    if not missing:
        return
    x = uci_set.rows.x
    units = (100,) if name == "protein" else (50,)
    num_train = len(uci_set.splits[0][0])
    fitter = Fitter(config, method, x.shape[1], units, Budget.of(config, num_train))
    mend = lower_rate(config.learning_rate)
    for split in sorted(missing):
        started = time.monotonic()
        train, test = map(uci_set.rows.take, uci_set.splits[split])
        with guarded(f"{name}, split {split}, {METHOD_NAMES[method]}", mend):
            found = _measure_split(method, fitter, train, test, config.seed + split)
        seconds = time.monotonic() - started
        kept.add({"split": split, **found, "seconds": seconds})
        print(
            f"{name}, split {split}, {METHOD_NAMES[method]}: "
            f"NLL {found['nll']:.3f}, {seconds:.0f} s",
            flush=True,
        )
    # Compiled steps and models are in reference cycles; 81 of them fill the memory.
    del fitter
    keras.backend.clear_session()
    gc.collect()


def _kept_rows(folder: RunFolder, name: str, method: str) -> list[dict]:
    rows = KeptRows(folder, f"{name}-{method}").read()
    rows.sort(key=lambda row: row["split"])
    return [{"set": name, "method": method, **row} for row in rows]


def _measure_split(method, fitter: Fitter, train: Rows, test: Rows, seed: int) -> dict:
    """Chooses a candidate, calibrates it, and measures its fit to all training rows."""
    order = np.random.default_rng(seed).permutation(len(train.x))
    num_validation = round(_SHARE_OF_VALIDATION * len(order))
    validation, fitting = map(train.take, np.split(order, [num_validation]))
    standard = Standard.of(fitting)
    x, y = standard.apply(validation)

    @infinite_where_diverged
    def validation_nll(candidate):
        fitted = fitter.fit(standard.apply(fitting), candidate, seed, is_search=True)
        return nll(y, fitted.predict(x))

    judged = {c: validation_nll(c) for c in candidates(method)}
    best = min(judged, key=judged.__getitem__)
    fitted = fitter.fit(standard.apply(fitting), best, seed)
    calibrated = measured_calibration(fitted, validation, test, standard)
    standard = Standard.of(train)
    fitted = fitter.fit(standard.apply(train), best, seed)
    return {
        **measured(fitted, test, standard),
        **calibrated,
        "heteroscedastic": best.heteroscedastic,
        "strength": best.strength,
        "num_test": len(test.x),
        "num_calibration": num_validation,
    }


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
