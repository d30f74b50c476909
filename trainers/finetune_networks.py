"""The networks of `trainers.finetune`: small, read from a file, or made Bayesian."""

import keras

import bhn_tf
from bhn_tf import baselines
from trainers import methods
from trainers.config import UsageProblem


def make_network(kind: str, shape, num_outputs: int) -> keras.Model:
    """A small network that ends with raw outputs.

    Args:
        kind: "cnn" or "batch_norm_cnn" for images, "gru" for sequences of numbers
            below C.
        shape: Shape [h, w, c] of an image, or [length] of a sequence.
        num_outputs: C.
    """
    if kind == "gru":
        return keras.Sequential(
            [
                keras.Input(shape, dtype="int32"),
                keras.layers.Embedding(num_outputs, 32),
                keras.layers.GRU(128),
                keras.layers.Dense(num_outputs),
            ]
        )
    has_norm = kind == "batch_norm_cnn"
    network = keras.Sequential([keras.Input(shape)])
    for layer in (
        keras.layers.Conv2D(16, 5, 2, padding="same", use_bias=not has_norm),
        keras.layers.Conv2D(32, 5, 2, padding="same", use_bias=not has_norm),
        keras.layers.Flatten(),
        keras.layers.Dense(64, use_bias=not has_norm),
    ):
        network.add(layer)
        if layer.weights:
            if has_norm:
                network.add(keras.layers.BatchNormalization())
            network.add(keras.layers.ReLU())
    network.add(keras.layers.Dense(num_outputs))
    return network


def load_network(path: str) -> keras.Model:
    """Reads the network that --model names.

    Raises:
        UsageProblem: If it cannot be read, or has no layers that can be converted.
    """
    try:
        model = keras.saving.load_model(path)
    # The code of its layers may raise anything.
    except Exception as error:
        raise UsageProblem(f"--model={path} cannot be loaded: {error}") from error
    if isinstance(model, baselines.Deterministic):
        return model.posterior.network
    if not hasattr(model, "input_shape"):
        raise UsageProblem(
            f"--model={path} holds a {type(model).__name__}, whose layers cannot be "
            "exchanged. Give a Sequential or functional network of Keras."
        )
    return model


def require_suitable(network, config, data: dict) -> None:
    """Refuses a network that cannot be measured on the data, or made Bayesian.

    Args:
        network: The network that --model names.
        config: The flags.
        data: The data: "train", a pair `(x, y)`, and "num_classes".

    Raises:
        UsageProblem: If the network is refused; says why.
    """
    x, _ = data["train"]
    expected = (network.input_shape, network.output_shape)
    found = ((None, *x.shape[1:]), (None, data["num_classes"]))
    if expected != found:
        raise UsageProblem(
            f"--model={config.model} maps {expected[0]} to {expected[1]}, but "
            f"--dataset has inputs {found[0]} and outputs {found[1]}."
        )
    try:
        baselines.Deterministic(network)
    except ValueError as error:
        raise UsageProblem(
            f"--model={config.model} ends in the layer "
            f"{type(network.layers[-1]).__name__}, of which is not known whether it "
            "returns logits or probabilities. End it in a Dense without activation, "
            "or in a Softmax."
        ) from error
    try:
        bayesian(network, config, len(x))
    except ValueError as error:
        raise UsageProblem(
            f"--model={config.model} cannot become Bayesian: {error}"
        ) from error


def bayesian(network, config, num_examples: int) -> bhn_tf.BayesianHypernet:
    """The network as a Bayesian one, as the flags say; not compiled."""
    is_around = config.prior == "trained"
    return bhn_tf.from_keras(
        network,
        methods.hypernet(config, initial_stddev=config.initial_stddev),
        freeze=(lambda layer: True) if config.freeze else (),
        prior_loc="trained" if is_around else None,
        prior_stddev=config.prior_stddev if is_around else 1.0,
        num_examples=num_examples,
    )
