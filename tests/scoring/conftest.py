"""Models and rows that the tests of scoring share."""

import keras
import numpy as np
import pytest

from bhn_tf.layers import WeightNormDense
from tests import networks
from tests.scoring.scored_files import NUM_ROWS, exported


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    """A model of rows [4]."""
    fed = np.zeros([1, 4], "float32")
    return exported(networks.plain(), tmp_path_factory.mktemp("vectors"), fed)


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A model of images of 4 x 4 grey bytes."""
    network = [keras.layers.Rescaling(1 / 255), keras.layers.Flatten()]
    fed = np.zeros([1, 4, 4, 1], "uint8")
    return exported(of_images((4, 4, 1), network), tmp_path_factory.mktemp("i"), fed)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """A model of colour images of any size, from 0 to 1."""
    network = [keras.layers.GlobalAveragePooling2D()]
    fed = np.zeros([1, 4, 4, 3], "float32")
    network = of_images((None, None, 3), network)
    return exported(network, tmp_path_factory.mktemp("photographs"), fed)


def of_images(shape, network):
    return keras.Sequential([keras.Input(shape), *network, WeightNormDense(3)])


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(NUM_ROWS, 4)).astype("float32")


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (NUM_ROWS, 4, 4, 1), "uint8")
