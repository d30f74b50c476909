"""Networks and models that the experiments compare, as flags describe them."""

import keras

from bhn_tf import hypernets
from trainers.config import CommonConfig

#: What pictures and tables call each method.
METHOD_NAMES = {
    "bhn": "Bayesian hypernet",
    "deterministic": "deterministic",
    "mc_dropout": "MC dropout",
    "ensemble": "deep ensemble",
    "bhn_realnvp": "BHN, RealNVP",
    "bhn_iaf": "BHN, IAF",
    "bhn_mean_field": "BHN, mean field",
}


def perceptron(
    shape, units, num_outputs: int, dense, dropout_rate: float = 0.0, activation="relu"
) -> keras.Sequential:
    """A multi-layer perceptron that ends with raw outputs.

    Args:
        shape: Shape of one row of the inputs.
        units: Sizes of the hidden layers.
        num_outputs: C.
        dense: Class of the layers, `keras.layers.Dense` or a twin.
        dropout_rate: Rate of the dropout after each hidden layer; 0 for none.
        activation: Of the hidden layers.
    """
    network = keras.Sequential([keras.layers.Input(shape), keras.layers.Flatten()])
    for size in units:
        network.add(dense(size, activation=activation))
        if dropout_rate:
            network.add(keras.layers.Dropout(dropout_rate))
    network.add(dense(num_outputs))
    return network


def hypernet(config: CommonConfig, **options) -> hypernets.Hypernet:
    """The hypernet that --hypernet, --num_flow_layers and --flow_units describe.

    Args:
        config: These flags.
        **options: How it starts: `initial_stddev` and `initial_mean`.
    """
    if config.hypernet == "mean_field":
        return hypernets.MeanField(**options)
    family = {"realnvp": hypernets.RealNVP, "iaf": hypernets.IAF}[config.hypernet]
    return family(config.num_flow_layers, config.flow_units, **options)


def compiled(
    model, config: CommonConfig, num_steps: int, metrics=("accuracy",), **options
) -> keras.Model:
    """Compiles a model with Adam, whose learning rate falls to zero over the run.

    Args:
        model: The model, which is returned.
        config: Learning rate and whether to use XLA.
        num_steps: Steps of the whole run.
        metrics: What is measured while training.
        **options: Further arguments of `compile`.
    """
    schedule = keras.optimizers.schedules.CosineDecay(config.learning_rate, num_steps)
    model.compile(
        keras.optimizers.Adam(schedule),
        metrics=list(metrics),
        jit_compile=config.jit_compile or "auto",
        **options,
    )
    return model


def print_steps(done: int, total: int) -> None:
    """Says, ten times a run, how far chains have come."""
    if done == total or done % max(total // 10 // 25 * 25, 25) == 0:
        print(f"  step {done}/{total}", flush=True)
