"""What is random in a Bayesian hypernetwork, in the lines of its `summary`."""

from collections.abc import Iterator

import numpy as np

from bhn_tf.networks.paths import layer_paths


def lines_of_random_parts(model) -> Iterator[str]:
    """Yields D with the hypernet's share of the weights, then each layer's values.

    Args:
        model: A `BayesianHypernet` with its weights.
    """
    share = model.hypernet.count_params() if model.num_random else 0
    yield (
        f" D = {model.num_random} generated values; the hypernet "
        f"({type(model.hypernet).__name__}) holds {share:,} of "
        f"{model.count_params():,} weights."
    )
    paths, posterior = layer_paths(model.primary), model.posterior
    of_layers = posterior.by_layer(_learned_stddevs(model))
    for layer, learned in zip(posterior.layers, of_layers, strict=True):
        line = f"   {paths[layer]}: random={layer.random!r}, {layer.num_random}"
        if learned.size:
            line += f", prior_stddev={learned[0]:.3g} (learned)"
        yield line


def _learned_stddevs(model) -> np.ndarray:
    """Standard deviations of the prior, [D]; empty where none is learned."""
    learned = model.learned_prior_stddev
    if learned is None or not model.num_random:
        return np.zeros(0)
    return learned.stddev.numpy()
