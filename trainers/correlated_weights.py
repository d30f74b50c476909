"""Do the weights of a Bayesian hypernet depend on each other?

A network of one hidden layer has its kernels generated whole; 1,000 draws of it go
through Pearson's test for pairs of weights (paper, appendix "Learning correlated
weights"). Beside it stands a mean field (L = 0), whose weights are independent: 5 % of
its p-values are below 0.05 by chance.

    python -m trainers.correlated_weights
"""

import dataclasses

import numpy as np

import bhn_tf
from bhn_tf import callbacks, correlation, plots
from bhn_tf.tables import text_table
from trainers import experiment, methods
from trainers.config import (
    CommonConfig,
    at_least,
    flag,
    run_binary,
    sizes,
)
from trainers.image_sets import load_splits, num_classes
from trainers.networks import Layers, perceptron
from trainers.run_folder import RunFolder
from trainers.training import epochs_of_annealing, steps_of_epoch, train

_LEVEL = 0.05


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.correlated_weights`."""

    num_flow_layers: int = flag(4, "L, layers of the flow.", **at_least(1))
    units: tuple = flag((10,), "Units of the hidden layers.", **sizes())
    num_samples: int = flag(1_000, "S, draws of the posterior.", **at_least(3))
    num_tested: int = flag(
        1_000, "Weights tested, all their pairs; a random subset.", **at_least(4)
    )


@dataclasses.dataclass
class CorrelatedWeights:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "correlated_weights"

    def load(self) -> dict:
        return load_splits(self.config)

    def compute(self, folder: RunFolder, sets: dict) -> dict:
        return _train_and_test(self.config, folder, sets)

    def table(self, results: dict) -> str:
        rows = [["", "D", "p < 0.05", "largest |r|", "accuracy", "seconds"]]
        for name, found in results["methods"].items():
            rows.append(
                [
                    name,
                    f"{found['num_random']:,}",
                    f"{found['fraction_below_0.05']:.4f}",
                    f"{found['max_absolute_correlation']:.3f}",
                    f"{found['accuracy']:.4f}",
                    f"{found['seconds']:.0f}",
                ]
            )
        return text_table(rows, numbers=range(1, len(rows[0])))

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            f"\nOf independent weights, {_LEVEL} of the p-values are below {_LEVEL}.\n"
            f"Results and pictures are in {folder.path}/:\n"
            "  results.json, p_values.png, scatter_matrix.png, model.keras, "
            "saved_model/1"
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(CorrelatedWeights(config))


def _train_and_test(config: Config, folder: RunFolder, sets: dict) -> dict:
    x, y = sets["train"]
    epochs = config.epochs or (10 if config.is_smoke else 50)
    num_steps = epochs * steps_of_epoch(len(x), config.batch_size)
    flow = dataclasses.replace(
        config,
        num_flow_layers=min(2, config.num_flow_layers)
        if config.is_smoke
        else config.num_flow_layers,
        flow_units=tuple(min(50, units) for units in config.flow_units)
        if config.is_smoke
        else config.flow_units,
    )
    variants = {
        config.hypernet: flow,
        "mean_field": dataclasses.replace(config, hypernet="mean_field"),
    }
    annealing = callbacks.KLAnnealing(0.0, epochs=epochs_of_annealing(epochs, 2))
    measured, p_values = {}, {}
    for name, variant in variants.items():
        model, seconds = train(
            folder,
            name,
            config,
            lambda variant=variant: _compiled(
                variant, x.shape[1:], num_classes(sets), len(x), num_steps
            ),
            x,
            y,
            epochs,
            callbacks=[annealing],
        )
        draws = model.sample_scales(config.num_samples, config.seed)
        found = correlation.pearson_test(draws, config.num_tested, config.seed)
        p_values[name] = found.p_value
        measured[name] = {
            "num_random": model.num_random,
            "num_pairs": len(found.p_value),
            "fraction_below_0.05": float(np.mean(found.p_value < _LEVEL)),
            "max_absolute_correlation": float(np.abs(found.correlation).max()),
            "accuracy": _accuracy(config, model, *sets["test"]),
            "seconds": seconds,
        }
        if name == config.hypernet:
            folder.save_model("model.keras", model)
            folder.export(model)
            shown = _most_correlated(found)
            picture = plots.scatter_matrix(
                draws[:, shown], [f"weight {index}" for index in shown]
            )
            plots.save(picture, folder.file("scatter_matrix.png"))
    names = {**methods.HYPERNET_NAMES, "mean_field": "mean field (L = 0)"}
    picture = plots.p_value_histogram({names[n]: p for n, p in p_values.items()})
    plots.save(picture, folder.file("p_values.png"))
    return {"methods": measured}


def _compiled(config: Config, shape, num_outputs, num_examples, num_steps):
    network = perceptron(shape, config.units, num_outputs, Layers(["kernel"]))
    hypernet = methods.hypernet(config, initial_stddev=0.05)
    model = bhn_tf.BayesianHypernet(network, hypernet, num_examples=num_examples)
    return methods.compiled(model, config, num_steps)


def _accuracy(config: Config, model, x, y) -> float:
    mean = model.predict(
        x, batch_size=500, verbose=0, num_samples=100, seed=config.seed
    )
    return float(np.mean(mean.argmax(axis=-1) == y))


def _most_correlated(found: correlation.PearsonTest) -> list[int]:
    """The weights of the two most correlated pairs, at most four."""
    order = np.argsort(-np.abs(found.correlation))[:2]
    return list(dict.fromkeys(found.pairs[order].ravel().tolist()))


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
