"""Models and rows that the tests of scoring share."""

import keras
import numpy as np
import pytest

from bhn_tf.layers import WeightNormDense
from tests import networks
from tests.scoring.scored_files import NUM_ROWS, exported


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    fed = np.zeros([1, 4], "float32")
    return exported(networks.plain(), tmp_path_factory.mktemp("vectors"), fed)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    network = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            WeightNormDense(3),
        ]
    )
    fed = np.zeros([1, 4, 4, 1], "uint8")
    return exported(network, tmp_path_factory.mktemp("images"), fed)


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(NUM_ROWS, 4)).astype("float32")


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (NUM_ROWS, 4, 4, 1), "uint8")
