"""Active learning: which labels teach a network most (paper, section of that name).

The protocol of Gal, Islam and Ghahramani, "Deep Bayesian active learning with image
data", ICML 2017: 20 labels to begin with, two a class, 10 more a round, 50 epochs of
training a round, 2,000 candidates, 100 draws; a Bayesian hypernet, Monte Carlo dropout
and a deterministic network, each with every acquisition.

    python -m trainers.active_learning --scale=smoke
    python -m trainers.active_learning --methods=bhn --acquisitions=bald,random

A killed run resumes where it stopped, and asks for the same labels.
"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

import bhn_tf
from bhn_tf import active, baselines, plots
from bhn_tf.tables import text_table
from trainers import experiment, methods
from trainers.config import (
    CommonConfig,
    UsageProblem,
    at_least,
    flag,
    one_of,
    positive,
    run_binary,
    sizes,
    some_of,
)
from trainers.divergence import guarded, lower_rate
from trainers.image_sets import load_splits, num_classes
from trainers.methods import METHOD_NAMES
from trainers.networks import Layers, gal_convolutional, perceptron
from trainers.run_folder import RunFolder
from trainers.training import strategy_of

_ACQUISITIONS = ("bald", "max_entropy", "variation_ratio", "mean_std", "random")
# Accuracies in per cent for which results.json has the labels needed.
_PERCENTAGES = (90, 95)
_WARM_START = {"keep": True, "new": False, "first_weights": "first_weights"}


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.active_learning`."""

    strategy: str = flag(
        "default",
        "'mirrored' trains on all local devices.",
        **one_of("default", "mirrored"),
    )
    methods: tuple = flag(
        ("bhn", "mc_dropout", "deterministic"),
        "What is compared.",
        **some_of("bhn", "mc_dropout", "deterministic"),
    )
    acquisitions: tuple = flag(
        _ACQUISITIONS, "What is asked for.", **some_of(*_ACQUISITIONS)
    )
    num_seeds: int = flag(3, "Runs of each, from --seed on.", **at_least(1))
    num_rounds: int = flag(98, "Rounds of questions.", **at_least(1))
    query_size: int = flag(10, "Labels of a round.", **at_least(1))
    initial_per_class: int = flag(2, "Labels of a class to begin with.", **at_least(1))
    candidate_size: int = flag(2_000, "Rows scored in a round.", **at_least(1))
    num_samples: int = flag(100, "S, draws for scores and tests.", **at_least(1))
    warm_start: str = flag(
        "keep",
        "Weights at the start of a round: those of the round before, new ones, or the "
        "very first.",
        **one_of(*_WARM_START),
    )
    network: str = flag("cnn", "Gal's, or a perceptron.", **one_of("cnn", "mlp"))
    filters: int = flag(32, "Filters of each convolution.", **at_least(1))
    units: tuple = flag((256,), "Units of the dense layers.", **sizes())
    kl_weight: float = flag(1.0, "Weight of the KL; 1 is the bound.", **positive())
    initial_stddev: float = flag(0.1, "First std of the scales.", **positive())
    target_accuracy: float = flag(
        0.9,
        "For the labels needed.",
        check=lambda v: 0 < v <= 1,
        advice="above 0 and at most 1, such as 0.9 for 90 %",
    )
    stop_at_target: bool = flag(False, "End a run once it has the target accuracy.")


@dataclasses.dataclass
class ActiveLearning:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "active_learning"

    def load(self) -> dict:
        """Returns "train", which is the pool, and "test"."""
        config = _sized(self.config)
        sets = load_splits(config)
        smallest = np.bincount(sets["train"][1]).min()
        if config.initial_per_class > smallest:
            raise UsageProblem(
                f"--initial_per_class={config.initial_per_class}: the smallest class "
                f"of {config.dataset} has {smallest} rows."
            )
        if config.candidate_size < config.query_size:
            raise UsageProblem(
                f"--candidate_size={config.candidate_size} is less than --query_size="
                f"{config.query_size}, the number of candidates that are labelled."
            )
        shape = sets["train"][0].shape[1:]
        for method in config.methods:
            try:
                model = _make_model(config, shape, num_classes(sets), method)
                # Keras 3.11 builds poolings larger than their inputs, of which some
                # processors make nothing; graphs refuse them everywhere.
                call = tf.function(model.__call__)
                call.get_concrete_function(tf.TensorSpec((1, *shape)))
            except (ValueError, tf.errors.OpError) as error:
                raise UsageProblem(
                    f"--network={config.network} --filters={config.filters}: no "
                    f"network can be made for images of shape {tuple(shape)}. {error}"
                ) from error
        return sets

    def compute(self, folder: RunFolder, sets: dict) -> dict:
        config = _sized(self.config)
        runs = {}
        for seed in range(config.seed, config.seed + config.num_seeds):
            for method in config.methods:
                for acquisition in config.acquisitions:
                    runs[method, acquisition, seed] = _one_run(
                        config, folder, sets, method, acquisition, seed
                    )
        results = {"curves": {}, "labels_needed": {}, "methods": {}}
        for (method, acquisition, seed), curve in runs.items():
            for name, value in (
                ("curves", curve),
                ("labels_needed", _labels_needed(curve, config.target_accuracy)),
            ):
                of_method = results[name].setdefault(method, {})
                of_method.setdefault(acquisition, {})[str(seed)] = value
        for method, of_method in results["curves"].items():
            for acquisition, by_seed in of_method.items():
                entry = {"labels_for": _labels_for_shares(by_seed.values())}
                results["methods"][f"{method}-{acquisition}"] = entry
        _draw_pictures(config, folder, results["curves"])
        return results

    def table(self, results: dict) -> str:
        needed_for = f"labels for {self.config.target_accuracy:.0%}, by seed"
        rows = [["", "acquisition", needed_for, "last accuracy"]]
        for method, of_method in results["curves"].items():
            for acquisition, by_seed in of_method.items():
                needed = results["labels_needed"][method][acquisition].values()
                last = np.mean([curve["accuracy"][-1] for curve in by_seed.values()])
                text = ", ".join("-" if n is None else str(n) for n in needed)
                rows.append([METHOD_NAMES[method], acquisition, text, f"{last:.4f}"])
        return text_table(rows, numbers=range(1, len(rows[0])))

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            f"\nCurves, pictures and all that was asked for are in {folder.path}/,\n"
            "and the model of the first method and acquisition: model.keras, "
            "saved_model/1."
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(ActiveLearning(config))


def _sized(config: Config) -> Config:
    if not config.is_smoke:
        return config
    most = dict(num_seeds=1, num_rounds=2, candidate_size=200, num_samples=4, filters=4)
    small = {name: min(getattr(config, name), limit) for name, limit in most.items()}
    units = tuple(min(each, 16) for each in config.units)
    return dataclasses.replace(config, **small, units=units, epochs=config.epochs or 5)


# -- data and models ---------------------------------------------------------------


def _initial_ids(labels, per_class: int, seed: int) -> np.ndarray:
    """The same number of rows of each class, at random."""
    rng = np.random.default_rng([seed, per_class])
    classes = [np.flatnonzero(labels == value) for value in np.unique(labels)]
    return np.concatenate([rng.choice(c, per_class, replace=False) for c in classes])


def _network(config: Config, shape, num_classes: int, method: str):
    make = Layers(["scale"] if method == "bhn" else [])
    has_dropout = method == "mc_dropout"
    if config.network == "mlp":
        rate = 0.5 if has_dropout else 0.0
        return perceptron(shape, config.units, num_classes, make, rate)
    return gal_convolutional(
        shape, config.filters, config.units, num_classes, make, has_dropout
    )


def _make_model(config: Config, shape, num_classes: int, method: str):
    more = {}
    with strategy_of(config.strategy).scope():
        network = _network(config, shape, num_classes, method)
        if method == "bhn":
            hypernet = methods.hypernet(config, initial_stddev=config.initial_stddev)
            model = bhn_tf.BayesianHypernet(network, hypernet)
            more = {"kl_weight": config.kl_weight}
        elif method == "mc_dropout":
            model = baselines.MCDropout(network)
        else:
            model = baselines.Deterministic(network)
        model.compile(
            # The rate is constant: the optimizer may live on from round to round, and
            # a falling rate would fall over all of them.
            keras.optimizers.Adam(config.learning_rate),
            metrics=["accuracy"],
            eval_samples=config.num_samples,
            # XLA compiles anew for every number of labels.
            jit_compile=config.jit_compile,
            **more,
        )
    return model


# -- the experiment ----------------------------------------------------------------


def _one_run(config: Config, folder, sets, method, acquisition, seed) -> dict:
    (x, y), test = sets["train"], sets["test"]
    name = f"{method}-{acquisition}-{seed}"
    learner = active.ActiveLearner(
        lambda: _make_model(config, x.shape[1:], num_classes(sets), method),
        x,
        lambda ids: y[ids],
        _initial_ids(y, config.initial_per_class, seed),
        acquisition,
        query_size=config.query_size,
        num_samples=config.num_samples,
        candidate_size=config.candidate_size,
        warm_start=_WARM_START[config.warm_start],
        fit_kwargs={"epochs": config.epochs or 50, "batch_size": config.batch_size},
        directory=folder.learner_directory(name),
        seed=seed,
    )
    with guarded(name, lower_rate(config.learning_rate)):
        learner.run(0, test)
        # A run that goes on gets the rounds of the folder, one after the other.
        last = learner.initial_round
        for _ in range(config.num_rounds):
            accuracy = last["metrics"]["val_accuracy"]
            print(f"{name}: {last['num_labelled']} labels, {accuracy:.4f}", flush=True)
            if config.stop_at_target and _reaches(accuracy, config.target_accuracy):
                break
            found = learner.run(1, test)
            if not found:
                break
            (last,) = found
    first = config.methods[0], config.acquisitions[0], config.seed
    if (method, acquisition, seed) == first:
        # Keeps one model for later use: that of the first method and acquisition.
        folder.save_model("model.keras", learner.model)
        folder.export(learner.model)
    rounds = [learner.initial_round, *learner.history]
    folder.epochs.replace(
        name,
        [
            {"method": name, "epoch": number, **entry}
            for number, entry in enumerate(rounds)
        ],
    )
    return {
        "num_labelled": [entry["num_labelled"] for entry in rounds],
        "accuracy": [entry["metrics"]["val_accuracy"] for entry in rounds],
    }


def _reaches(accuracy: float, target: float) -> bool:
    # Keras's accuracies are float32, in which 0.9 is a little less than 0.9.
    return accuracy > target - 1e-6


def _labels_needed(curve: dict, target: float) -> int | None:
    """The first number of labels that reaches the accuracy, or `None`."""
    pairs = zip(curve["num_labelled"], curve["accuracy"], strict=True)
    return next((n for n, accuracy in pairs if _reaches(accuracy, target)), None)


def _labels_for_shares(curves) -> dict:
    """Labels needed for `_PERCENTAGES`: the mean over curves, if all get there."""
    found = {}
    for percentage in _PERCENTAGES:
        needed = [_labels_needed(curve, percentage / 100) for curve in curves]
        found[str(percentage)] = None if None in needed else float(np.mean(needed))
    return found


def _draw_pictures(config: Config, folder: RunFolder, curves: dict) -> None:
    """Draws all acquisitions of each method, and all methods of each acquisition."""
    by_acquisition = {}
    for method, of_method in curves.items():
        bands = {a.replace("_", " "): _band(c) for a, c in of_method.items()}
        figure = plots.acquisition_curves(bands, config.target_accuracy)
        plots.save(figure, folder.file(f"{method}.png"))
        for acquisition, found in of_method.items():
            of_acquisition = by_acquisition.setdefault(acquisition, {})
            of_acquisition[METHOD_NAMES[method]] = _band(found)
    for acquisition, bands in by_acquisition.items():
        figure = plots.acquisition_curves(bands, config.target_accuracy)
        plots.save(figure, folder.file(f"{acquisition}.png"))


def _band(by_seed: dict) -> tuple:
    """Numbers of labels and accuracies [seeds, n], as long as the shortest run."""
    length = min(len(curve["accuracy"]) for curve in by_seed.values())
    (first, *_) = by_seed.values()
    accuracy = [curve["accuracy"][:length] for curve in by_seed.values()]
    return first["num_labelled"][:length], accuracy


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
