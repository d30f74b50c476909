"""Trains what an experiment compares, each method on the same rows."""

import dataclasses
from collections.abc import Iterator, Sequence

import keras

import bhn_tf
from bhn_tf import baselines, callbacks, layers
from trainers import methods
from trainers.config import CommonConfig, at_least, flag, sizes
from trainers.run_folder import RunFolder
from trainers.training import train


@dataclasses.dataclass(frozen=True)
class ComparisonConfig(CommonConfig):
    """What experiments that compare classifiers can be told."""

    units: tuple = flag((800, 800), "Units of the hidden layers.", **sizes())
    num_samples: int = flag(100, "S, draws of each prediction.", **at_least(1))


def train_methods(
    names: Sequence[str], config: ComparisonConfig, folder: RunFolder, x, y, num_classes
) -> Iterator[tuple[str, keras.Model, float]]:
    """Trains one method after the other.

    Args:
        names: "bhn" (with --hypernet), "bhn_realnvp", "bhn_iaf", "bhn_mean_field",
            "deterministic", "mc_dropout", or "ensemble" of `config.ensemble_size`.
        config: Sizes and training.
        folder: Where checkpoints go; what it holds is not trained again.
        x, y: Training rows.
        num_classes: C.

    Yields:
        `(name, trained model, seconds of training)`.
    """
    epochs = _num_epochs(config, len(x))
    num_steps = epochs * -(-len(x) // config.batch_size)
    for name in names:

        def make_model(name=name):
            model = _model(name, config, x.shape[1:], num_classes, len(x))
            return methods.compiled(model, config, num_steps)

        # The network learns to predict before it learns to be uncertain.
        annealing = callbacks.KLAnnealing(start=0.0, epochs=max(epochs // 2, 1))
        only_bayesian = [annealing] if name.startswith("bhn") else []
        model, seconds = train(
            folder, name, config, make_model, x, y, epochs, only_bayesian
        )
        yield name, model, seconds


def predict_uncertainty(config: ComparisonConfig, model, x) -> dict:
    """Mean and every score of each row, from the draws that every set gets."""
    return model.predict_uncertainty(
        x,
        batch_size=500,
        verbose=0,
        num_samples=config.num_samples,
        seed=config.seed,
    )


def _model(name, config, shape, num_classes, num_examples) -> keras.Model:
    def network(dense, dropout_rate=0.0):
        return methods.perceptron(shape, config.units, num_classes, dense, dropout_rate)

    plain = keras.layers.Dense
    if name == "deterministic":
        return baselines.Deterministic(network(plain))
    if name == "mc_dropout":
        return baselines.MCDropout(network(plain, 0.5))
    if name == "ensemble":
        members = [network(plain) for _ in range(config.ensemble_size)]
        return baselines.DeepEnsemble(members)
    family = config.hypernet if name == "bhn" else name.removeprefix("bhn_")
    flow = methods.hypernet(dataclasses.replace(config, hypernet=family))
    primary = network(layers.WeightNormDense)
    return bhn_tf.BayesianHypernet(primary, flow, num_examples=num_examples)


def _num_epochs(config: ComparisonConfig, num_examples: int) -> int:
    by_size = 50 if num_examples <= 10_000 else 20
    return config.epochs or (2 if config.is_smoke else by_size)
