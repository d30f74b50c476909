r"""A trained network becomes Bayesian in two epochs, and keeps what it knows.

A network of images or of text is trained as usual, or loaded; `bhn_tf.from_keras`
makes it a Bayesian hypernetwork that starts at its weights with a little noise, under
a prior around them; at most two epochs follow. One table compares it with the network
as it was, and with the network after the same epochs without noise: accuracy, negative
log-likelihood, calibration, and how well each tells test rows from others. Below it
stands the posterior of every layer's scales beside the prior.

    python -m trainers.finetune
    python -m trainers.finetune --network=batch_norm_cnn
    python -m trainers.finetune --dataset=python_manual --network=gru
    python -m trainers.finetune --model=path/to/network.keras --dataset=mnist \
        --data_dir=... --anomalies=uniform,fashion_mnist,path/to/a/folder
"""

import dataclasses
import zlib
from pathlib import Path

import numpy as np

from bhn_tf import baselines, metrics
from bhn_tf.tables import text_table
from trainers import experiment, methods
from trainers.comparison import predict_uncertainty, quality_of
from trainers.config import (
    CommonConfig,
    UsageProblem,
    at_least,
    flag,
    one_of,
    positive,
    run_binary,
)
from trainers.finetune_networks import (
    bayesian,
    load_network,
    make_network,
    require_suitable,
)
from trainers.image_sets import load_anomalies, load_splits, num_classes
from trainers.run_folder import RunFolder
from trainers.text_sets import (
    ANOMALIES,
    CHARACTERS,
    MANUAL,
    load_text_anomalies,
    load_text_splits,
)
from trainers.training import steps_of_epoch, train

_METHODS = {
    "original": "original",
    "continued": "trained on without noise",
    "bayesian": "fine-tuned BHN",
}
_SCORE = "predictive_entropy"
_QUALITY = ("accuracy", "nll", "ece")


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.finetune`."""

    model: str = flag("", "A trained Keras classifier (.keras); empty trains one.")
    network: str = flag(
        "cnn",
        "What is trained without --model; 'gru' reads the text of "
        f"--dataset={MANUAL}, the others images.",
        **one_of("cnn", "batch_norm_cnn", "gru"),
    )
    finetune_epochs: int = flag(2, "Passes over the data that follow.", **at_least(1))
    finetune_learning_rate: float = flag(
        1e-3, "Adam's first learning rate in these.", **positive()
    )
    initial_stddev: float = flag(0.1, "Noise at the start.", **positive())
    prior: str = flag(
        "trained",
        "'trained' is around the trained scales, 'standard' is N(0, 1).",
        **one_of("trained", "standard"),
    )
    prior_stddev: float = flag(
        0.3, "Standard deviation of the first, relative to each scale.", **positive()
    )
    freeze: bool = flag(False, "Train what is generated alone, no other weight.")
    anomalies: tuple = flag(
        (),
        "Data sets to tell the test set from; empty for uniform,photographs, and of "
        f"text {','.join(ANOMALIES)}.",
    )
    num_samples: int = flag(100, "S, draws of each prediction.", **at_least(1))


@dataclasses.dataclass
class Finetune:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "finetune"

    def load(self) -> dict:
        """Returns "train" and "test" as `(x, y)`, and what belongs to them.

        That is "num_classes", "anomalies" by name, and the checksum of the file that
        --model names.
        """
        config = self.config
        if config.model and config.epochs:
            raise UsageProblem(
                f"--epochs={config.epochs} is for a network that is trained here, and "
                "that of --model is trained: give --finetune_epochs."
            )
        given = load_network(config.model) if config.model else None
        load = _load_text if config.dataset == MANUAL else _load_images
        if given is None and (config.network == "gru") != (load is _load_text):
            raise UsageProblem(
                f"--network={config.network} --dataset={config.dataset}: the text of "
                f"--dataset={MANUAL} is read by --network=gru, and images by the "
                "others."
            )
        data = load(config)
        if given is not None:
            require_suitable(given, config, data)
            data["checksum of --model"] = zlib.crc32(Path(config.model).read_bytes())
        return data

    def compute(self, folder: RunFolder, data: dict) -> dict:
        return _finetune(self.config, folder, data)

    def table(self, results: dict) -> str:
        return _table(results)

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            f"\nAUROC: how well the {_SCORE.replace('_', ' ')} tells test rows from "
            "others (0.5 is chance, 1 perfect).\n"
            f"Results, the conversion and both networks are in {folder.path}/:\n"
            "  results.json, original.keras, model.keras, saved_model/1\n"
            "Try next:\n"
            "  python -m trainers.finetune --network=batch_norm_cnn "
            "--output_dir=runs/batch_norm\n"
            "  python -m trainers.finetune --help"
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(Finetune(config))


# -- data ----------------------------------------------------------------------------


def _load_images(config: Config) -> dict:
    splits = load_splits(config)
    x, _ = splits["test"]
    names = config.anomalies or ("uniform", "photographs")
    anomalies = load_anomalies(config, names, x.shape[1:], len(x))
    return {**splits, "num_classes": num_classes(splits), "anomalies": anomalies}


def _load_text(config: Config) -> dict:
    splits = load_text_splits(config.is_smoke)
    x, _ = splits["test"]
    anomalies = load_text_anomalies(config.anomalies or ANOMALIES, len(x))
    return {**splits, "num_classes": len(CHARACTERS), "anomalies": anomalies}


# -- the experiment ------------------------------------------------------------------


def _finetune(config: Config, folder: RunFolder, data: dict) -> dict:
    x, y = data["train"]
    steps_per_epoch = steps_of_epoch(len(x), config.batch_size)
    epochs = 0 if config.model else _num_epochs(config, len(x))

    def make_original():
        # Read here, in the strategy's scope, so that all replicas have the weights.
        network = (
            load_network(config.model)
            if config.model
            else make_network(config.network, x.shape[1:], data["num_classes"])
        )
        model = baselines.Deterministic(network)
        return methods.compiled(model, config, max(epochs, 1) * steps_per_epoch)

    original, seconds = train(folder, "original", config, make_original, x, y, epochs)
    folder.save_model("original.keras", original)
    network = original.posterior.network
    finetune_epochs = 1 if config.is_smoke else config.finetune_epochs
    rate = dataclasses.replace(config, learning_rate=config.finetune_learning_rate)
    num_steps = finetune_epochs * steps_per_epoch

    def make_continued():
        copied = baselines.Deterministic.from_config(original.get_config())
        copied.set_weights(original.get_weights())
        return methods.compiled(copied, rate, num_steps)

    def make_bayesian():
        model = bayesian(network, config, len(x))
        # Two epochs are too few for the noise of a single draw a batch.
        return methods.compiled(model, rate, num_steps, per_example_noise=True)

    measured = {"original": _measure(config, original, data, seconds)}
    for name, make in (("continued", make_continued), ("bayesian", make_bayesian)):
        model, seconds = train(folder, name, config, make, x, y, finetune_epochs)
        measured[name] = _measure(config, model, data, seconds)
    folder.save_model("model.keras", model)
    folder.export(model, {name: measured["bayesian"][name] for name in _QUALITY})
    return {
        "methods": measured,
        "posterior": _posterior_and_prior(config, model),
        "conversion": str(model.conversion_report),
    }


def _num_epochs(config: Config, num_examples: int) -> int:
    by_size = 30 if num_examples <= 10_000 else 10
    return config.epochs or (1 if config.is_smoke else by_size)


def _measure(config: Config, model, data: dict, seconds: float) -> dict:
    """The entry of one network in `results.json`."""
    x, labels = data["test"]
    found = predict_uncertainty(config, model, x)
    mean, inside = found["mean"], found[_SCORE]
    detection = {
        name: metrics.detection(
            inside, predict_uncertainty(config, model, images)[_SCORE]
        )
        for name, images in data["anomalies"].items()
    }
    return {
        **quality_of(mean, labels),
        "auroc": {name: result["auroc"] for name, result in detection.items()},
        "detection": detection,
        "seconds": seconds,
    }


def _posterior_and_prior(config: Config, model) -> dict:
    """Mean and standard deviation of every layer's part of g, under q(g) and p(g)."""
    num_draws = 200 if config.is_smoke else 2000
    draws = model.sample_scales(num_draws, seed=config.seed)
    values = {
        "posterior_mean": draws.mean(axis=0),
        "posterior_stddev": draws.std(axis=0),
        "prior_mean": np.asarray(model.prior.mean()),
        "prior_stddev": np.asarray(model.prior.stddev()),
    }
    rows, start = {}, 0
    for row in model.conversion_report:
        if row.num_random:
            own = slice(start, start + row.num_random)
            rows[row.path] = {
                name: float(np.mean(each[own])) for name, each in values.items()
            }
            start = own.stop
    return rows


# -- what is printed -----------------------------------------------------------------


def _table(results: dict) -> str:
    anomalies = list(results["methods"]["original"]["auroc"])
    head = ["", "accuracy", "NLL", "ECE"]
    head += [f"AUROC {name}" for name in anomalies] + ["seconds"]
    rows = [head]
    for method, found in results["methods"].items():
        numbers = [f"{found[name]:.4f}" for name in _QUALITY]
        numbers += [f"{found['auroc'][name]:.4f}" for name in anomalies]
        rows.append([_METHODS[method], *numbers, f"{found['seconds']:.0f}"])
    layers = [["generated for", "posterior mean", "std", "prior mean", "std"]]
    for path, found in results["posterior"].items():
        layers.append([path, *(f"{value:.3f}" for value in found.values())])
    return "\n".join(
        [
            text_table(rows, numbers=range(1, len(head))),
            "",
            text_table(layers, numbers=range(1, 5)),
        ]
    )


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
