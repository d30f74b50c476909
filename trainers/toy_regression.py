"""Figure 1 of the paper: what three networks know about a curve, and what they do not.

A deterministic network, a hypernet over scales and one that generates all weights are
trained on some points of a curve of Blundell et al.; beside each hypernet stands
Hamiltonian Monte Carlo over the same random quantities, with the same prior, noise
and fixed weights. The standard deviation of the predictive mean should grow away from
the data as Monte Carlo's does.

    python -m trainers.toy_regression
"""

import dataclasses
from typing import ClassVar

import keras
import numpy as np

import bhn_tf
from bhn_tf import baselines, callbacks, data, hamiltonian, likelihoods, plots
from bhn_tf.tables import text_table
from trainers import experiment, methods
from trainers.config import (
    CommonConfig,
    at_least,
    flag,
    one_of,
    positive,
    run_binary,
    sizes,
)
from trainers.networks import Layers, perceptron
from trainers.run_folder import RunFolder
from trainers.training import epochs_of_annealing, steps_of_epoch, train

# What the hypernet of each Bayesian panel generates.
_RANDOM = {"scales": "scale", "all_weights": "kernel_and_bias"}
_FILES = {"scales": "model.keras", "all_weights": "all_weights.keras"}
_NAMES = {
    "deterministic": "deterministic",
    "scales": "hypernet, scales",
    "all_weights": "hypernet, all weights",
}
_DATA_RANGE = (0.0, 0.5)
_SHOWN_RANGE = (-0.5, 1.5)


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.toy_regression`."""

    # These are no flags: there is one curve, and its points are drawn, not read.
    dataset: ClassVar[str] = "blundell"
    data_dir: ClassVar[str] = ""

    num_examples: int = flag(100, "N, points of the training data.", **at_least(2))
    num_shown: int = flag(50, "Points that the picture shows.", **at_least(1))
    units: tuple = flag((50,), "Units of the hidden layers.", **sizes())
    activation: str = flag(
        "relu", "Of the hidden layers.", **one_of("relu", "tanh", "softplus")
    )
    initial_noise: float = flag(
        0.1, "First standard deviation of the noise, which is learned.", **positive()
    )
    batch_size: int = flag(100, "Rows of a training batch.", **at_least(1))
    learning_rate: float = flag(3e-3, "Adam's first learning rate.", **positive())
    num_flow_layers: int = flag(8, "L, layers of the flow.", **at_least(1))
    train_samples: int = flag(32, "Draws of g for each step.", **at_least(1))
    num_samples: int = flag(2_000, "S, draws of each prediction.", **at_least(2))
    num_chains: int = flag(8, "Chains of Hamiltonian Monte Carlo.", **at_least(2))
    num_burnin_steps: int = flag(
        1_000, "Steps of each chain thrown away.", **at_least(1)
    )


@dataclasses.dataclass
class ToyRegression:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "toy_regression"

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        return data.blundell(self.config.num_examples, self.config.seed)

    def compute(self, folder: RunFolder, points: tuple) -> dict:
        return _train_and_compare(self.config, folder, *points)

    def table(self, results: dict) -> str:
        rows = [
            ["", "std data", "outside", "HMC data", "outside", "ratio data", "outside"]
        ]
        for panel, found in results["panels"].items():
            cells = [f"{std:.4f}" for std in found["epistemic_std"].values()]
            if "hmc" in found:
                cells += [
                    f"{std:.4f}" for std in found["hmc"]["epistemic_std"].values()
                ]
                compared = found["epistemic_std_to_hmc"].values()
                cells += [f"{values['ratio_of_means']:.2f}" for values in compared]
            rows.append([_NAMES[panel], *cells, *[""] * (6 - len(cells))])
        return text_table(rows, numbers=range(1, len(rows[0])))

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            "\nstd: standard deviation of the predictive mean, without noise, "
            f"averaged\nover inputs in {_DATA_RANGE} (data) and the rest of "
            f"{_SHOWN_RANGE} (outside).\n"
            f"Results and pictures are in {folder.path}/:\n"
            "  results.json, regression.png, std.png, model.keras (scales), "
            "all_weights.keras, saved_model/1"
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(ToyRegression(config))


def _train_and_compare(config: Config, folder: RunFolder, x, y) -> dict:
    grid = np.linspace(*_SHOWN_RANGE, 201, dtype="float32")[:, np.newaxis]
    epochs = config.epochs or (300 if config.is_smoke else 40_000)
    num_steps = epochs * steps_of_epoch(len(x), config.batch_size)
    # Most of the run has the whole KL, under which weights learn to vary together.
    annealing = callbacks.KLAnnealing(0.0, epochs=epochs_of_annealing(epochs, 10))
    answers, found = {}, {}
    for panel in _NAMES:
        is_bayesian = panel in _RANDOM
        model, seconds = train(
            folder,
            panel,
            config,
            lambda panel=panel: _compiled(config, panel, num_steps),
            x,
            y,
            epochs,
            callbacks=[annealing] if is_bayesian else [],
        )
        answers[panel] = model.predict_uncertainty(
            grid, verbose=0, num_samples=config.num_samples, seed=config.seed
        )
        found[panel] = {**_measure(grid, answers[panel]), "seconds": seconds}
        if is_bayesian:
            folder.save_model(_FILES[panel], model)
            if panel == "scales":
                folder.export(model)
            draws = _hamiltonian(config, folder, panel, model, x, y)
            answers[f"{panel}_hmc"] = hamiltonian.predict_uncertainty(
                model, grid, draws.draws
            )
            outputs = hamiltonian.samples(model, grid, draws.draws)
            found[panel] |= {
                "num_random": model.num_random,
                "hmc": {
                    **_measure(grid, answers[f"{panel}_hmc"]),
                    **_diagnostics(grid, outputs, draws),
                },
                **_compare(grid, answers[panel], answers[f"{panel}_hmc"]),
            }
    _draw_pictures(config, folder, grid, answers, x, y)
    return {"panels": found}


# -- models --------------------------------------------------------------------------


def _compiled(config: Config, panel: str, num_steps: int) -> keras.Model:
    noise = likelihoods.Gaussian(config.initial_noise, trainable=True)

    # With biases of zero all units would bend at x = 0, and many would never move.
    bends = keras.initializers.RandomNormal(stddev=0.1, seed=config.seed)
    generated = [_RANDOM[panel]] if panel in _RANDOM else []
    network = perceptron(
        (1,),
        config.units,
        1,
        Layers(generated, bias_initializer=bends),
        activation=config.activation,
    )
    if not generated:
        model = baselines.Deterministic(network, noise)
        return methods.compiled(model, config, num_steps, metrics=())
    model = bhn_tf.BayesianHypernet(
        network, methods.hypernet(config), noise, num_examples=config.num_examples
    )
    return methods.compiled(
        model, config, num_steps, metrics=(), train_samples=config.train_samples
    )


def _hamiltonian(config: Config, folder: RunFolder, panel, model, x, y):
    """Draws of Monte Carlo, or those that a killed run has left."""
    kept = folder.checkpoints.load_arrays(f"{panel}-hmc")
    if kept is not None:
        draws = kept.pop("draws")
        numbers = {name: value.item() for name, value in kept.items()}
        return hamiltonian.HamiltonianDraws(draws, **numbers)
    print(f"Hamiltonian Monte Carlo over {panel}", flush=True)
    found = hamiltonian.hamiltonian_monte_carlo(
        model,
        x,
        y,
        num_samples=config.num_chains * (50 if config.is_smoke else 400),
        num_burnin_steps=min(100, config.num_burnin_steps)
        if config.is_smoke
        else config.num_burnin_steps,
        num_chains=config.num_chains,
        seed=config.seed,
        max_tree_depth=4 if config.is_smoke else 10,
        # To compile it takes longer than the few steps of a smoke run.
        jit_compile=not config.is_smoke,
        progress=methods.print_steps,
    )
    folder.checkpoints.save_arrays(f"{panel}-hmc", found._asdict())
    return found


# -- measures ------------------------------------------------------------------------


def _regions(grid) -> dict[str, np.ndarray]:
    low, high = _DATA_RANGE
    has_data = ((grid >= low) & (grid <= high))[:, 0]
    return {"data": has_data, "outside": ~has_data}


def _measure(grid, answers: dict) -> dict:
    """Mean standard deviations in each region, and the error of the mean."""
    regions = _regions(grid)
    error = answers["mean"] - data.blundell_noise_free(grid)
    return {
        "rmse_data": float(np.sqrt(np.mean(np.square(error[regions["data"]])))),
        **{
            name: {r: float(answers[name][rows].mean()) for r, rows in regions.items()}
            for name in ("epistemic_std", "std")
        },
        "noise_std": float(answers["aleatoric_std"].mean()),
    }


def _compare(grid, answers: dict, reference: dict) -> dict:
    """How far standard deviations are from those of Monte Carlo, in each region."""
    compared = {}
    for name in ("epistemic_std", "std"):
        ours, theirs = answers[name][:, 0], reference[name][:, 0]
        compared[f"{name}_to_hmc"] = {
            region: {
                "mean_absolute_difference": float(np.abs(ours - theirs)[rows].mean()),
                "ratio_of_means": float(ours[rows].mean() / theirs[rows].mean()),
                "smallest_ratio": float((ours / theirs)[rows].min()),
                "largest_ratio": float((ours / theirs)[rows].max()),
            }
            for region, rows in _regions(grid).items()
        }
    return compared


def _diagnostics(grid, outputs, draws) -> dict:
    """Whether the chains agree: on what the network says, and on its weights."""
    r_hat = hamiltonian.potential_scale_reduction(
        np.moveaxis(outputs, 1, 0), draws.num_chains
    )[:, 0]
    return {
        "max_r_hat_of_outputs": {
            region: float(r_hat[rows].max()) for region, rows in _regions(grid).items()
        },
        "median_r_hat_of_weights": float(np.median(draws.potential_scale_reduction)),
        "min_effective_sample_size": float(draws.effective_sample_size.min()),
        "acceptance_rate": draws.acceptance_rate,
        "divergences": draws.divergences,
    }


def _draw_pictures(config: Config, folder: RunFolder, grid, answers, x, y) -> None:
    names = {
        "deterministic": "deterministic",
        "scales": "hypernet, scales",
        "scales_hmc": "HMC, scales",
        "all_weights": "hypernet, all weights",
        "all_weights_hmc": "HMC, all weights",
    }
    shown = {
        name: (answers[panel]["mean"], answers[panel]["epistemic_std"])
        for panel, name in names.items()
    }
    few = slice(config.num_shown)
    panels = plots.regression_panels(grid, shown, x[few], y[few])
    plots.save(panels, folder.file("regression.png"))
    spreads = {name: std for name, (_, std) in shown.items() if name != "deterministic"}
    curves = plots.std_curves(grid, spreads, _DATA_RANGE)
    plots.save(curves, folder.file("std.png"))


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
