"""Zero draws, in any integer type, ask for the centre."""

import keras
import numpy as np

import bhn_tf
from tests import networks


def test_a_numpy_zero_asks_the_centre():
    x, _ = networks.data(5)
    model = networks.bayesian()
    np.testing.assert_array_equal(
        model.predict(x, verbose=0, num_samples=np.int64(0)),
        model.predict(x, verbose=0, num_samples=0),
    )


def test_so_does_dropout():
    x, _ = networks.data(5)
    plain = networks.plain()
    dropout = keras.layers.Dropout(0.5)
    network = keras.Sequential(
        [plain.inputs[0], *plain.layers[:-1], dropout, plain.layers[-1]]
    )
    model = bhn_tf.baselines.MCDropout(network)
    np.testing.assert_array_equal(
        model.predict(x, verbose=0, num_samples=np.int64(0)),
        model.predict(x, verbose=0, num_samples=0),
    )
