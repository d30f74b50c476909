"""From uncertainty to decisions: sets of classes, counts and waiting times, measured.

    python -m trainers.decisions --parts=mnist_sets --data_dir=...
    python -m trainers.decisions --parts=visits,survival

mnist_sets: conformal sets of digits and clothes hold the class as often as they say
(`trainers/decision_sets.py`). visits: counts, beside statsmodels' negative-binomial
regression (`trainers/decision_visits.py`). survival: waiting times that were not all
seen to the end, beside Cox's regression by lifelines, whose numbers come from
`python -m benchmarks.survival_rivals` (`trainers/decision_survival.py`).

A row is kept as soon as it is found: a killed run goes on with the next, and a run with
other --parts, --splits or --repetitions in the same folder adds to it.
"""

import dataclasses
from typing import ClassVar

from trainers import decision_sets, decision_survival, decision_visits, experiment
from trainers.config import CommonConfig, at_least, flag, run_binary, some_of
from trainers.decision_survival import SURVIVAL_SETS
from trainers.image_sets import set_name
from trainers.run_folder import RunFolder

PARTS = ("mnist_sets", "visits", "survival")


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.decisions`."""

    # No flags here: each part has sets, networks and training of its own.
    dataset: ClassVar[str] = "decisions"
    epochs: ClassVar[int] = 0
    batch_size: ClassVar[int] = 0
    learning_rate: ClassVar[float] = 0.0
    hypernet: ClassVar[str] = ""
    num_flow_layers: ClassVar[int] = 0
    flow_units: ClassVar[tuple] = ()
    strategy: ClassVar[str] = "default"
    jit_compile: ClassVar[bool] = False
    # These say which rows to compute, not how.
    not_in_identity: ClassVar[frozenset] = frozenset(
        {"parts", "image_sets", "survival_sets", "splits", "repetitions"}
        | {"survival_rivals"}
    )

    parts: tuple = flag(PARTS, "Parts, separated by commas.", **some_of(*PARTS))
    image_sets: tuple = flag(
        ("mnist", "fashion_mnist"),
        "Sets of mnist_sets: names for bhn_tf.data.load, or folders of class folders.",
        check=bool,
        advice="names of sets of images",
    )
    survival_sets: tuple = flag(
        SURVIVAL_SETS, "Sets of survival.", **some_of(*SURVIVAL_SETS)
    )
    survival_rivals: str = flag(
        "docs/results/survival_rivals.json",
        "What benchmarks.survival_rivals has written.",
    )
    splits: int = flag(3, "Random splits of visits.", **at_least(1))
    repetitions: int = flag(3, "Of the five folds of survival.", **at_least(1))
    num_samples: int = flag(
        50, "S, draws of each prediction of visits and survival.", **at_least(2)
    )
    # Most of a run's time goes to convolutions of 15,000 images under every draw.
    image_samples: int = flag(20, "S of mnist_sets.", **at_least(2))


@dataclasses.dataclass
class Decisions:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "decisions"

    def load(self) -> dict:
        """Returns what each part needs, by its name."""
        config = self.config
        loads = {
            "mnist_sets": lambda: decision_sets.load(config),
            "visits": decision_visits.load,
            "survival": lambda: decision_survival.load(config),
        }
        return {part: loads[part]() for part in config.parts}

    def is_complete(self, results: dict) -> bool:
        """Whether a finished run has all rows that are asked for now."""
        config, parts = self.config, results["parts"]
        sets = {row["set"] for row in parts.get("mnist_sets", ())}
        waits = [
            row["set"]
            for row in parts.get("survival", ())
            if row["repetition"] < config.repetitions
        ]
        complete = {
            "mnist_sets": set(map(set_name, config.image_sets)) <= sets,
            "visits": len(parts.get("visits", ())) >= config.splits,
            "survival": all(
                waits.count(each) == config.repetitions for each in config.survival_sets
            ),
        }
        return all(complete[part] for part in config.parts)

    def compute(self, folder: RunFolder, data: dict) -> dict:
        computes = {
            "mnist_sets": decision_sets.compute,
            "visits": decision_visits.compute,
            "survival": decision_survival.compute,
        }
        earlier = (folder.read_results() or {"parts": {}})["parts"]
        found = {part: computes[part](self.config, folder, data[part]) for part in data}
        return {"parts": {part: _merged(earlier, found, part) for part in PARTS}}

    def table(self, results: dict) -> str:
        tables = {
            "mnist_sets": decision_sets.table,
            "visits": decision_visits.table,
            "survival": decision_survival.table,
        }
        parts = results["parts"]
        return "\n\n".join(
            tables[part](parts[part]) for part in self.config.parts if parts.get(part)
        )

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            "\nsets: coverage is exact where sets may be empty; a calibration is a "
            "draw, and 99 of 100\nare in the interval beside it (a ! where not). APS "
            "and RAPS without randomisation may\nhold more. Never empty: what is "
            "served.\n"
            "visits: NLL in nats of held-out rows, the difference ± its standard error "
            "over rows.\n"
            "survival: mean over five folds; p is of D-calibration (above 0.05 is "
            "passed), the gap\nthat of mean prediction and Kaplan-Meier at the "
            "quartiles of the times of events.\n"
            f"All rows are in {folder.path}/results.json. The same command with other\n"
            "--parts, --image_sets, --survival_sets, --splits or --repetitions adds to "
            "them."
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(Decisions(config))


def _merged(earlier: dict, found: dict, part: str) -> list[dict]:
    """Rows of a part: those found now, and earlier ones for other sets."""
    new = found.get(part, [])
    sets = {row.get("set") for row in new}
    return [row for row in earlier.get(part, []) if row.get("set") not in sets] + new


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
