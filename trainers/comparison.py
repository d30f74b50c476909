"""Trains what an experiment compares, each method on the same rows."""

import dataclasses
from collections.abc import Iterator, Sequence

import keras
import numpy as np

import bhn_tf
from bhn_tf import baselines, callbacks, metrics
from trainers import methods
from trainers.config import (
    CommonConfig,
    UsageProblem,
    as_text,
    at_least,
    flag,
    one_of,
    positive,
    share,
    sizes,
    some_of,
)
from trainers.networks import GENERATED, Layers, convolutional, perceptron
from trainers.run_folder import RunFolder
from trainers.training import epochs_of_annealing, steps_of_epoch, train


@dataclasses.dataclass(frozen=True)
class ComparisonConfig(CommonConfig):
    """The flags of experiments that compare classifiers.

    docs/training.md says where the defaults come from.
    """

    learning_rate: float = flag(2e-3, "Adam's first learning rate.", **positive())
    num_flow_layers: int = flag(2, "L, layers of the flow.", **at_least(1))
    flow_weight_norm: bool = flag(True, "Normalise the weights inside the flow.")
    flow_initial_scale: float = flag(
        0.01,
        "First scale of the last layer inside each layer of the flow.",
        **positive(),
    )
    train_size: int = flag(
        0, "Rows of the training data that are learned; 0 for all.", **at_least(0)
    )
    subset: str = flag(
        "random",
        "Which rows --train_size takes: at random by --seed, or the first.",
        **one_of("random", "first"),
    )
    network: str = flag(
        "mlp",
        "A perceptron, or the paper's convolutional network.",
        **one_of("mlp", "cnn"),
    )
    units: tuple = flag((800, 800), "Units of the hidden dense layers.", **sizes())
    filters: tuple = flag(
        (64, 64, 128, 128), "Filters of the convolutions of the cnn.", **sizes()
    )
    random: tuple = flag(
        ("rank_one", "scale"),
        "What the hypernet generates of each layer, the first layer's first; the last "
        "entry stands for all layers that follow.",
        **some_of(*GENERATED, repeated=True),
    )
    initial_stddev: float = flag(0.3, "First std of what is generated.", **positive())
    prior_stddev: float = flag(1.0, "Std of the prior over it.", **positive())
    prior_center: str = flag(
        "unit_inputs",
        "The prior's mean: zero, but 1 for scales of inputs; zero for all; or what the "
        "untrained network has, of which --prior_stddev is then a share.",
        **one_of("unit_inputs", "zero", "initial"),
    )
    kl_weight: float = flag(
        0.5,
        "Weight of the KL from half of the epochs on; 1 is the bound, less is surer.",
        **positive(),
    )
    noise_groups: int = flag(
        1,
        "Draws of a training batch, shared by its rows; 0 for a draw for each row.",
        **at_least(0),
    )
    clip: bool = flag(False, "Clip probabilities in training, as the paper does.")
    dropout_rate: float = flag(0.5, "Of MC dropout's hidden layers.", **share())
    input_dropout: float = flag(
        0.3,
        "Dropout of the inputs of every method in training; MC dropout has it when it "
        "predicts, too.",
        **share(),
    )
    num_samples: int = flag(100, "S, draws of each prediction.", **at_least(1))


def training_rows(config: ComparisonConfig, x, y) -> tuple:
    """The rows of the training data that --train_size and --subset name.

    Raises:
        UsageProblem: If there are too few, or they lack a class.
    """
    if not config.train_size:
        return x, y
    if config.train_size > len(x):
        raise UsageProblem(
            f"--train_size={config.train_size}: {config.dataset} has {len(x)} rows to "
            "learn from."
        )
    rows = np.arange(config.train_size)
    if config.subset == "random":
        rng = np.random.default_rng(config.seed)
        rows = np.sort(rng.permutation(len(x))[: config.train_size])
    missing = set(np.unique(y).tolist()) - set(np.unique(y[rows]).tolist())
    if missing:
        raise UsageProblem(
            f"--train_size={config.train_size}: these rows have none of the classes "
            f"{sorted(missing)}. Give more."
        )
    return x[rows], y[rows]


def require_models(names: Sequence[str], config, shape, num_classes: int) -> None:
    """Makes every method's model once, before anything is written.

    Args:
        names: See `train_methods`.
        config: Sizes and training.
        shape: Shape of one row.
        num_classes: C.

    Raises:
        UsageProblem: If the flags describe a model that cannot be made or trained.
    """
    for name in names:
        flags = ["network", "units", "random"]
        flags += ["filters"] if config.network == "cnn" else ["hypernet"]
        try:
            model = _model(name, config, shape, num_classes, num_examples=1)
            if name.startswith("bhn") and _noise_of(config):
                flags = ["noise_groups", "random"]
                model.posterior.require_scales_per_row("--noise_groups")
        except ValueError as error:
            given = (f"--{each}={as_text(getattr(config, each))}" for each in flags)
            raise UsageProblem(
                f"{' '.join(given)}: no {methods.METHOD_NAMES[name]} can be made for "
                f"rows of shape {tuple(shape)}. {error}"
            ) from error
        if name.startswith("bhn") and not model.num_random:
            raise UsageProblem(
                f"--random={as_text(config.random)}: nothing is generated, so that "
                "there is no posterior. Let one layer have 'scale'; without, it is the "
                "method 'deterministic'."
            )


def train_methods(
    names: Sequence[str],
    config: ComparisonConfig,
    folder: RunFolder,
    x,
    y,
    num_classes,
    label: str = "",
) -> Iterator[tuple[str, keras.Model, float]]:
    """Trains one method after the other.

    Args:
        names: "bhn" (with --hypernet), "bhn_realnvp", "bhn_iaf", "bhn_mean_field",
            "deterministic", "mc_dropout", "bayes_by_backprop", or "ensemble" of
            `config.ensemble_size`.
        config: Sizes and training.
        folder: Where checkpoints go; what it holds is not trained again.
        x, y: Training rows.
        num_classes: C.
        label: Added to the names of methods in logs and checkpoints, for a trial.

    Yields:
        `(name, trained model, seconds of training)`.
    """
    epochs = _num_epochs(config, len(x))
    num_steps = epochs * steps_of_epoch(len(x), config.batch_size)
    for name in names:
        is_bayesian = name.startswith("bhn") or name == "bayes_by_backprop"
        # Bayes by Backprop generates whole kernels, which all rows share.
        has_groups = name.startswith("bhn")
        noise = {"per_example_noise": _noise_of(config)} if has_groups else {}

        def make_model(name=name, noise=noise):
            model = _model(name, config, x.shape[1:], num_classes, len(x))
            return methods.compiled(model, config, num_steps, **noise)

        # The network learns to predict before it learns to be uncertain.
        annealing = callbacks.KLAnnealing(
            start=0.0, end=config.kl_weight, epochs=epochs_of_annealing(epochs, 2)
        )
        only_bayesian = [annealing] if is_bayesian else []
        model, seconds = train(
            folder, name + label, config, make_model, x, y, epochs, only_bayesian
        )
        yield name, model, seconds


def predict_uncertainty(config: ComparisonConfig, model, x) -> dict:
    """Mean and every score of each row, with the same draws for every set."""
    return model.predict_uncertainty(
        x,
        batch_size=500,
        verbose=0,
        num_samples=config.num_samples,
        seed=config.seed,
    )


def quality_of(mean, labels) -> dict:
    """Accuracy, NLL in nats and ECE of predicted probabilities [rows, C]."""
    nll, ece = metrics.NegativeLogLikelihood(), metrics.ExpectedCalibrationError()
    for metric in (nll, ece):
        metric.update_state(labels, mean)
    return {
        "accuracy": float(np.mean(mean.argmax(axis=-1) == labels)),
        "nll": float(nll.result()),
        "ece": float(ece.result()),
    }


def _noise_of(config: ComparisonConfig) -> bool | int:
    """`per_example_noise` of `compile`."""
    if config.noise_groups == 1:
        return False
    return config.noise_groups or True


def _model(name, config, shape, num_classes, num_examples) -> keras.Model:
    def network(make, dropout_rate=0.0):
        rates = dropout_rate, config.input_dropout
        if config.network == "mlp":
            return perceptron(shape, config.units, num_classes, make, *rates)
        return convolutional(
            shape, config.filters, config.units, num_classes, make, *rates
        )

    likelihood = bhn_tf.likelihoods.Categorical(clip=_clip(config, num_classes))
    options = {
        "likelihood": likelihood,
        "prior_stddev": config.prior_stddev,
        "prior_loc": _PRIOR_LOCS[config.prior_center],
        "num_examples": num_examples,
    }
    if name == "deterministic":
        return baselines.Deterministic(network(Layers()), likelihood)
    if name == "mc_dropout":
        dropped = network(Layers(), config.dropout_rate)
        return baselines.MCDropout(dropped, likelihood)
    if name == "ensemble":
        members = [network(Layers()) for _ in range(config.ensemble_size)]
        return baselines.DeepEnsemble(members, likelihood)
    if name == "bayes_by_backprop":
        return baselines.bayes_by_backprop(
            network(Layers()), _STDDEV_OF_KERNELS, **options
        )
    family = "" if name == "bhn" else name.removeprefix("bhn_")
    conditioners = {
        "weight_norm": config.flow_weight_norm,
        "initial_scale": config.flow_initial_scale,
    }
    hypernet = methods.hypernet(
        config, family, conditioners, initial_stddev=config.initial_stddev
    )
    return bhn_tf.BayesianHypernet(network(Layers(config.random)), hypernet, **options)


_PRIOR_LOCS = {"unit_inputs": "unit_inputs", "zero": None, "initial": "trained"}
# Entries of a kernel of 800 inputs are near 0.03: noise of this size hardly changes the
# network.
_STDDEV_OF_KERNELS = 0.02


def _clip(config: ComparisonConfig, num_classes: int):
    """The paper's clip for C classes; `None` without --clip."""
    lowest = min(0.001, 0.1 / num_classes)
    return (lowest, 1 - lowest) if config.clip else None


def _num_epochs(config: ComparisonConfig, num_examples: int) -> int:
    by_size = 100 if num_examples <= 10_000 else 20
    return config.epochs or (2 if config.is_smoke else by_size)
