"""Both modes of a posterior: the network `ŷ = a · b · x` on `y = x + noise`.

Nothing in the data says whether a and b are both positive or both negative, so their
posterior has two equal modes (paper, section "Qualitative Results and Visualization").
A hypernet starts as the prior, which covers both modes. After training, its draws are
compared with the exact posterior on a grid and with Hamiltonian Monte Carlo.

    python -m trainers.multimodal
"""

import dataclasses
from typing import ClassVar

import keras
import numpy as np

import bhn_tf
from bhn_tf import callbacks, hamiltonian, plots
from bhn_tf.layers import WeightNormDense
from bhn_tf.tables import text_table
from trainers import experiment, methods
from trainers.config import (
    CommonConfig,
    at_least,
    flag,
    one_of,
    positive,
    run_binary,
)
from trainers.run_folder import RunFolder
from trainers.training import epochs_of_annealing, train

NUM_ROWS = 15
NOISE_STDDEV = 0.5
_NAMES = {**methods.HYPERNET_NAMES, "hmc": "Hamiltonian Monte Carlo"}


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.multimodal`."""

    # These are no flags: the data are always the same few, in one batch.
    dataset: ClassVar[str] = "identity"
    data_dir: ClassVar[str] = ""
    batch_size: ClassVar[int] = NUM_ROWS

    hypernet: str = flag(
        "both",
        "Family of q(g), or 'both' flows.",
        **one_of("both", "realnvp", "iaf", "mean_field"),
    )
    learning_rate: float = flag(5e-3, "Adam's first learning rate.", **positive())
    train_samples: int = flag(64, "Draws of g for each step.", **at_least(1))
    num_samples: int = flag(20_000, "S, draws that are measured.", **at_least(100))
    num_chains: int = flag(20, "Chains of Hamiltonian Monte Carlo.", **at_least(2))
    num_burnin_steps: int = flag(300, "Steps of each chain thrown away.", **at_least(1))


# -- the problem ---------------------------------------------------------------------


def data() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and noisy copies of them, [15] each, float64."""
    rng = np.random.default_rng(0)
    x = np.linspace(-1.5, 1.5, NUM_ROWS)
    return x, x + NOISE_STDDEV * rng.normal(size=NUM_ROWS)


def product_of_two_weights(hypernet) -> bhn_tf.BayesianHypernet:
    """The model `ŷ = a · b · x`, with a standard normal prior over a and b.

    Args:
        hypernet: An instance that starts as the prior does, so that no mode is lost.
    """
    options = {"random": "kernel", "use_bias": False}
    primary = keras.Sequential(
        [
            keras.Input((1,)),
            WeightNormDense(1, **options),
            WeightNormDense(1, **options),
        ]
    )
    return bhn_tf.BayesianHypernet(
        primary,
        hypernet,
        bhn_tf.likelihoods.Gaussian(stddev=NOISE_STDDEV),
        num_examples=NUM_ROWS,
    )


class GridPosterior:
    """The posterior of (a, b) under standard normal priors, as masses of cells."""

    def __init__(self, limit=6.0, num_cells=1201):
        x, y = data()
        self.axis, step = np.linspace(-limit, limit, num_cells, retstep=True)
        self.a, b = np.meshgrid(self.axis, self.axis, indexing="ij")
        self.product = self.a * b
        square = y @ y - 2 * self.product * (x @ y) + self.product**2 * (x @ x)
        log_likelihood = -0.5 * square / NOISE_STDDEV**2
        log_likelihood -= NUM_ROWS * np.log(NOISE_STDDEV * np.sqrt(2 * np.pi))
        log_prior = -0.5 * (self.a**2 + b**2) - np.log(2 * np.pi)
        joint = np.exp(log_likelihood + log_prior) * step**2
        self.log_evidence = np.log(joint.sum())
        self.mass = joint / joint.sum()

    def mean(self, values):
        return (self.mass * values).sum()

    def stddev(self, values):
        return np.sqrt(self.mean((values - self.mean(values)) ** 2))


# -- the experiment ------------------------------------------------------------------


@dataclasses.dataclass
class Multimodal:
    """The experiment: see `trainers.experiment.Experiment`."""

    config: Config
    name = "multimodal"

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = (array[:, None].astype("float32") for array in data())
        return x, y

    def compute(self, folder: RunFolder, rows: tuple) -> dict:
        return _train_and_compare(self.config, folder, *rows)

    def table(self, results: dict) -> str:
        names = {**_NAMES, "exact": "exact (grid)"}
        rows = [["", "mass a,b>0", "mass a,b<0", "between", "E|a|", "bound (nats)"]]
        for method, found in [*results["methods"].items(), ("exact", results["exact"])]:
            bound = found.get("elbo", found.get("log_evidence"))
            rows.append(
                [
                    names[method],
                    *(f"{share:.3f}" for share in found["mass"].values()),
                    f"{found['mean_absolute_a']:.3f}",
                    "" if bound is None else f"{bound:.2f}",
                ]
            )
        return text_table(rows, numbers=range(1, len(rows[0])))

    def where_to_look(self, folder: RunFolder) -> str:
        return (
            "\nMass: share of the draws with a and b both positive, or both negative.\n"
            f"Results and pictures are in {folder.path}/:\n"
            "  results.json, modes.png, model.keras, saved_model/1"
        )


def run(config: Config) -> dict:
    """Runs the experiment; see `trainers.experiment.run`."""
    return experiment.run(Multimodal(config))


def _train_and_compare(config: Config, folder: RunFolder, x, y) -> dict:
    families = ["realnvp", "iaf"] if config.hypernet == "both" else [config.hypernet]
    # Every epoch is one step on all rows.
    epochs = config.epochs or (300 if config.is_smoke else 3_000)
    # The KL's weight falls from 100 to 1: the prior is cut down without losing a mode.
    annealing = callbacks.KLAnnealing(100.0, epochs=epochs_of_annealing(epochs, 2))
    measured, draws = {}, {}
    for family in families:
        model, seconds = train(
            folder,
            family,
            config,
            lambda family=family: _compiled(config, family, epochs),
            x,
            y,
            epochs,
            callbacks=[annealing],
        )
        draws[family] = model.sample_scales(config.num_samples, config.seed)
        bound = model.elbo(x, y, num_samples=5_000, seed=config.seed)
        measured[family] = {
            **_measure(draws[family]),
            "elbo": bound.mean,
            "elbo_standard_error": bound.standard_error,
            "seconds": seconds,
        }
    folder.save_model("model.keras", model)
    folder.export(model)
    exact = GridPosterior()
    measured["hmc"], draws["hmc"] = _hamiltonian(config, model, x, y)
    _draw_picture(folder, exact, draws)
    return {
        "exact": {
            **_measure_grid(exact),
            "log_evidence": float(exact.log_evidence),
        },
        "methods": measured,
    }


def _compiled(config: Config, family: str, num_steps: int):
    hypernet = methods.hypernet(config, family, initial_stddev=1.0, initial_mean=0.0)
    return methods.compiled(
        product_of_two_weights(hypernet),
        config,
        num_steps,
        metrics=(),
        train_samples=config.train_samples,
    )


def _hamiltonian(config: Config, model, x, y) -> tuple[dict, np.ndarray]:
    print("Hamiltonian Monte Carlo", flush=True)
    num_steps = 100 if config.is_smoke else 500
    found = hamiltonian.hamiltonian_monte_carlo(
        model,
        x,
        y,
        num_samples=num_steps * config.num_chains,
        num_burnin_steps=config.num_burnin_steps,
        num_chains=config.num_chains,
        seed=config.seed,
        # To compile it takes longer than the few steps of a smoke run.
        jit_compile=not config.is_smoke,
        progress=methods.print_steps,
    )
    diagnostics = {
        "max_r_hat": float(found.potential_scale_reduction.max()),
        "min_effective_sample_size": float(found.effective_sample_size.min()),
        "acceptance_rate": found.acceptance_rate,
        "divergences": found.divergences,
    }
    return {**_measure(found.draws), **diagnostics}, found.draws


# -- measures ------------------------------------------------------------------------


def _measure(draws: np.ndarray) -> dict:
    """Mass of each mode, and where a · b lies in each."""
    a, b = np.asarray(draws, "float64").T
    modes = {"both_positive": (a > 0) & (b > 0), "both_negative": (a < 0) & (b < 0)}
    measured = {name: float(mode.mean()) for name, mode in modes.items()}
    return {
        "mass": {**measured, "between": 1.0 - sum(measured.values())},
        "product_mean": {n: _or_none(np.mean, (a * b)[m]) for n, m in modes.items()},
        "product_stddev": {n: _or_none(np.std, (a * b)[m]) for n, m in modes.items()},
        "mean_absolute_a": float(np.abs(a).mean()),
    }


def _or_none(statistic, values) -> float | None:
    """The statistic, or `None` for a mode without draws."""
    return float(statistic(values)) if len(values) else None


def _measure_grid(exact: GridPosterior) -> dict:
    positive = exact.product > 0
    mass = {
        "both_positive": float(exact.mean(positive & (exact.a > 0))),
        "both_negative": float(exact.mean(positive & (exact.a < 0))),
    }
    share = exact.mean(positive)
    mean = exact.mean(positive * exact.product) / share
    square = exact.mean(positive * exact.product**2) / share
    return {
        "mass": {**mass, "between": 1.0 - sum(mass.values())},
        "product_mean": dict.fromkeys(mass, float(mean)),
        "product_stddev": dict.fromkeys(mass, float(np.sqrt(square - mean**2))),
        "mean_absolute_a": float(exact.mean(np.abs(exact.a))),
    }


def _draw_picture(folder: RunFolder, exact: GridPosterior, draws: dict) -> None:
    shown = {_NAMES[method]: values[::-1][:2_000] for method, values in draws.items()}
    # The chains follow one another: shows some draws of each.
    shown[_NAMES["hmc"]] = draws["hmc"][:: max(len(draws["hmc"]) // 2_000, 1)]
    # Every fourth cell is enough for contours.
    picture = plots.two_weights(shown, exact.axis[::4], exact.mass[::4, ::4])
    plots.save(picture, folder.file("modes.png"))


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
