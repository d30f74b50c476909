"""One compiled model, fitted to one set of rows after another."""

import numpy as np
import pytest

import bhn_tf
from trainers.networks import Layers, perceptron
from trainers.refit import Refitter


def make_model():
    network = perceptron((2,), (), 1, Layers(["scale_and_bias"]))
    return bhn_tf.BayesianHypernet(
        network, "mean_field", bhn_tf.likelihoods.Gaussian(), num_examples=1
    )


@pytest.mark.slow
def test_a_second_fit_is_a_first_one_and_its_density_what_evaluate_says():
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 2)).astype("float32")
    y = x[:, :1]
    fitter = Refitter(make_model, steps=20, batch_size=20, learning_rate=0.05)
    fitter.fit(x[:30], y[:30], seed=0)
    before = fitter.log_density(x, y, num_samples=4, seed=0)
    fitter.fit(x, y, seed=1)
    assert not np.allclose(fitter.log_density(x, y, num_samples=4, seed=0), before)
    model = fitter.fit(x[:30], y[:30], seed=0)
    found = fitter.log_density(x, y, num_samples=4, seed=0)
    np.testing.assert_allclose(found, before, atol=1e-6)
    assert model.num_examples == 30
    said = model.evaluate(x, y, num_samples=4, seed=0, verbose=0, return_dict=True)
    assert -found.mean() == pytest.approx(said["predictive_nll"], abs=1e-5)


def test_steps_that_are_not_made_are_refused():
    with pytest.raises(ValueError, match="multiple"):
        Refitter(make_model, steps=39, batch_size=20, learning_rate=0.05)
