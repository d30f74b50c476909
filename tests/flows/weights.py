"""Weights for tests of flows, which start close to the identity."""

import numpy as np


def randomize(layer, stddev, seed=0):
    """Adds Gaussian noise to every weight of a layer."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        noise = rng.normal(scale=stddev, size=weight.shape)
        weight.assign_add(noise.astype("float32"))
