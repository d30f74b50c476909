r"""Which images are none of those that were learned (paper, "Anomaly Detection").

A plain network, Monte Carlo dropout, a deep ensemble and a Bayesian hypernetwork learn
one data set. Then every score of uncertainty has to tell the test rows from other
images, and the rows that a method gets wrong from those that it gets right.

    python -m trainers.anomaly_detection
    python -m trainers.anomaly_detection --exclude_class=3
    python -m trainers.anomaly_detection --dataset=mnist --data_dir=... \
        --anomalies=uniform,gaussian,omniglot,cifar10,fashion_mnist,path/to/a/folder

A folder holds class folders of images: notMNIST, or your own.
"""

import dataclasses

import numpy as np

from bhn_tf import metrics, plots, uncertainty
from bhn_tf.tables import text_table
from trainers import experiment
from trainers.comparison import (
    ComparisonConfig,
    predict_uncertainty,
    require_models,
    train_methods,
    training_rows,
)
from trainers.config import UsageProblem, at_least, flag, one_of, run_binary
from trainers.image_sets import load_anomalies, load_splits, num_classes, set_name
from trainers.methods import METHOD_NAMES
from trainers.run_folder import RunFolder

_METHODS = ("deterministic", "mc_dropout", "ensemble", "bhn")
_STAND_INS = {"font_letters": "stands in for notMNIST"}


@dataclasses.dataclass(frozen=True)
class Config(ComparisonConfig):
    """Configuration of `trainers.anomaly_detection`."""

    ensemble_size: int = flag(5, "Members of the deep ensemble.", **at_least(2))
    anomalies: tuple = flag(
        ("uniform", "gaussian", "photographs"),
        "Data sets, or folders of class folders of images, to tell the test set from.",
    )
    exclude_class: int = flag(
        -1,
        "A class that is not learned: its rows are anomalies; -1 for none.",
        **at_least(-1),
    )
    # The paper's tables call it variation ratio.
    score: str = flag(
        "max_probability",
        "Score of the table and the pictures; results.json has all.",
        **one_of(*uncertainty.SCORES),
    )


@dataclasses.dataclass
class AnomalyDetection:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "anomaly_detection"

    def load(self) -> dict:
        """Returns "train" and "test" as `(x, y)`, and "anomalies" by name."""
        config = self.config
        splits, unseen = load_splits(config), {}
        if config.exclude_class >= 0:
            splits, unseen = _without_class(splits, config.exclude_class)
        splits["train"] = training_rows(config, *splits["train"])
        x = splits["test"][0]
        require_models(_METHODS, config, x.shape[1:], num_classes(splits))
        others = load_anomalies(config, config.anomalies, x.shape[1:], len(x))
        if not others and not unseen:
            raise UsageProblem("--anomalies= is empty: give at least one set.")
        return {**splits, "anomalies": {**unseen, **others}}

    def compute(self, folder: RunFolder, sets: dict) -> dict:
        config = self.config
        x_test, labels = sets["test"]
        measured, scores = {}, {}
        for method, model, seconds in train_methods(
            _METHODS, config, folder, *sets["train"], num_classes(sets)
        ):
            inside = predict_uncertainty(config, model, x_test)
            outside = {
                name: predict_uncertainty(config, model, x)
                for name, x in sets["anomalies"].items()
            }
            wrong = inside["mean"].argmax(axis=-1) != labels
            measured[method] = _measure(inside, outside, wrong)
            measured[method]["seconds"] = seconds
            scores[METHOD_NAMES[method]] = {
                "test": inside[config.score],
                "wrong": wrong,
                "anomalies": {
                    name: found[config.score] for name, found in outside.items()
                },
            }
            if method == "bhn":
                folder.save_model("model.keras", model)
                folder.export(model)
        _draw_pictures(config, folder, scores)
        rows = {name: len(x) for name, x in sets["anomalies"].items()}
        return {
            "methods": measured,
            "rows": {"train": len(sets["train"][0]), "test": len(x_test), **rows},
            "notes": {name: _STAND_INS[name] for name in rows if name in _STAND_INS},
        }

    def table(self, results: dict) -> str:
        score = self.config.score
        methods = results["methods"]
        measures = {
            name: {m: found["detection"][name][score] for m, found in methods.items()}
            for name in next(iter(methods.values()))["detection"]
        }
        measures["own errors"] = {
            m: found["error_detection"][score] for m, found in methods.items()
        }
        rows = [["", "method", "AUROC", "PR+", "PR-", "FPR95"]]
        for name, by_method in measures.items():
            for index, (method, found) in enumerate(by_method.items()):
                names = ["" if index else name, METHOD_NAMES[method]]
                rows.append(names + _percentages(found))
        accuracies = [
            f"{METHOD_NAMES[m]} {100 * found['accuracy']:.2f}"
            for m, found in methods.items()
        ]
        notes = [f"{name} {note}." for name, note in results["notes"].items()]
        return "\n".join(
            [
                "Accuracy in percent: " + ", ".join(accuracies),
                "",
                text_table(rows, numbers=range(1, len(rows[0]))),
                *notes,
            ]
        )

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            f"\nIn percent, by {self.config.score}: area under the ROC curve; average "
            "precision\nwith the test set positive (PR+) and with the anomalies "
            "positive (PR-); false\nalarms where 95 % of the anomalies are found "
            "(FPR95). Own errors: rows of the test\nset that the method gets wrong, "
            "against those it gets right.\n"
            f"All scores, and pictures: {folder.path}/"
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(AnomalyDetection(config))


# -- data --------------------------------------------------------------------------


def _without_class(splits: dict, excluded: int) -> tuple[dict, dict]:
    """The splits without one class, and the rows of that class as a named set."""
    classes = num_classes(splits)
    if excluded >= classes or classes < 3:
        raise UsageProblem(
            f"--exclude_class={excluded}: the data set has the classes 0 to "
            f"{classes - 1}, of which two others have to be left to learn."
        )
    rows = [x[y == excluded] for x, y in splits.values()]
    kept = {
        # The classes above move down, so that their numbers have no gap.
        name: (x[y != excluded], (y - (y > excluded))[y != excluded])
        for name, (x, y) in splits.items()
    }
    return kept, {f"class {excluded}": np.concatenate(rows)}


# -- the experiment ----------------------------------------------------------------


def _measure(inside: dict, outside: dict, wrong) -> dict:
    """The entry of one method: how well each score detects each set, and errors."""
    return {
        "accuracy": float(np.mean(~wrong)),
        "detection": {
            name: {
                score: metrics.detection(inside[score], found[score])
                for score in uncertainty.SCORES
            }
            for name, found in outside.items()
        },
        # If all rows are wrong, or none is, there is nothing to tell apart.
        "error_detection": {
            score: metrics.detection(inside[score][~wrong], inside[score][wrong])
            if 0 < wrong.sum() < len(wrong)
            else None
            for score in uncertainty.SCORES
        },
    }


def _draw_pictures(config: Config, folder: RunFolder, scores: dict) -> None:
    known = set_name(config.dataset)
    histograms = {
        method: {known: found["test"], **found["anomalies"]}
        for method, found in scores.items()
    }
    pictures = {"scores.png": plots.score_panels(histograms, config.score)}
    for name in next(iter(scores.values()))["anomalies"]:
        pairs = {m: (s["test"], s["anomalies"][name]) for m, s in scores.items()}
        pictures[f"roc_{name.replace(' ', '_')}.png"] = plots.roc_curves(pairs)
    errors = {
        method: (found["test"][~found["wrong"]], found["test"][found["wrong"]])
        for method, found in scores.items()
        if 0 < found["wrong"].sum() < len(found["wrong"])
    }
    if errors:
        pictures["roc_own_errors.png"] = plots.roc_curves(errors)
    for name, figure in pictures.items():
        plots.save(figure, folder.file(name))


# -- what is printed -----------------------------------------------------------------


def _percentages(found: dict | None) -> list[str]:
    if found is None:
        return ["-"] * 4
    return [f"{100 * found[k]:.2f}" for k in ("auroc", "aupr_in", "aupr_out", "fpr95")]


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
