"""A flow keeps both modes of a posterior, in the right places.

`ŷ = a b x` says nothing about the sign of a: the posterior of (a, b) has two equal
branches `a b ≈ constant`, mirror images of each other. What is learned is compared
with the posterior on a grid.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.callbacks import KLAnnealing
from bhn_tf.layers import WeightNormDense

NUM_ROWS = 15
NOISE_STDDEV = 0.5


def data():
    rng = np.random.default_rng(0)
    x = np.linspace(-1.5, 1.5, NUM_ROWS)
    return x, x + NOISE_STDDEV * rng.normal(size=NUM_ROWS)


class GridPosterior:
    """The posterior of (a, b) under standard normal priors, as masses of cells."""

    def __init__(self, limit=6.0, num_cells=1201):
        x, y = data()
        axis, step = np.linspace(-limit, limit, num_cells, retstep=True)
        self.a, b = np.meshgrid(axis, axis, indexing="ij")
        self.product = self.a * b
        square = y @ y - 2 * self.product * (x @ y) + self.product**2 * (x @ x)
        log_likelihood = -0.5 * square / NOISE_STDDEV**2
        log_likelihood -= NUM_ROWS * np.log(NOISE_STDDEV * np.sqrt(2 * np.pi))
        log_prior = -0.5 * (self.a**2 + b**2) - np.log(2 * np.pi)
        joint = np.exp(log_likelihood + log_prior) * step**2
        self.log_evidence = np.log(joint.sum())
        self.mass = joint / joint.sum()

    def mean(self, values):
        return (self.mass * values).sum()

    def stddev(self, values):
        return np.sqrt(self.mean((values - self.mean(values)) ** 2))


@pytest.fixture(scope="module")
def posterior():
    return GridPosterior()


def fitted(hypernet, seed):
    """The product of two weights, trained so that no mode is lost.

    The flow starts as the prior, which covers both modes, and the weight of the KL
    falls from 100 so that the likelihood parts it slowly: the shares stay nearly even.
    Once the branches are apart nothing holds the shares but steps that are small and
    of little noise. Hence many draws a step, a learning rate no larger than this, and
    no clipping: Adam remembers the steep gradients of the beginning and goes the
    slower for it.
    """
    num_steps, steps_per_epoch = 3000, 50
    num_epochs = num_steps // steps_per_epoch
    keras.utils.set_random_seed(seed)
    options = {"random": "kernel", "use_bias": False}
    primary = keras.Sequential(
        [
            keras.Input((1,)),
            WeightNormDense(1, **options),
            WeightNormDense(1, **options),
        ]
    )
    model = bhn_tf.BayesianHypernet(
        primary,
        hypernet(initial_stddev=1.0, initial_mean=0.0),
        bhn_tf.likelihoods.Gaussian(stddev=NOISE_STDDEV),
        num_examples=NUM_ROWS,
    )
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.005, num_steps)),
        train_samples=64,
        steps_per_execution=steps_per_epoch,
        jit_compile=True,
    )
    x, y = (array[:, None].astype("float32") for array in data())
    model.fit(
        tf.data.Dataset.from_tensors((x, y)).repeat(steps_per_epoch),
        epochs=num_epochs,
        callbacks=[KLAnnealing(start=100.0, epochs=num_epochs // 2)],
        verbose=0,
    )
    return model


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("hypernet", [bhn_tf.hypernets.RealNVP, bhn_tf.hypernets.IAF])
def test_both_modes_are_kept_in_their_places(hypernet, seed, posterior):
    model = fitted(hypernet, seed)
    a, b = model.sample_scales(20_000, seed=1).T
    assert 0.2 < (a > 0).mean() < 0.8

    # Across the branches, each alone: the exact product is the same on both.
    mean = posterior.mean(posterior.product)
    stddev = posterior.stddev(posterior.product)
    for branch in (a > 0, a < 0):
        product = (a * b)[branch]
        # The thread that a continuous map leaves between the branches adds some width.
        assert product.mean() == pytest.approx(mean, abs=0.2 * stddev)
        assert product.std() == pytest.approx(stddev, rel=0.25)
    # Along the branches.
    assert np.abs(a).mean() == pytest.approx(
        posterior.mean(np.abs(posterior.a)), rel=0.1
    )

    # Who knows one mode alone stays log 2 = 0.69 nats below the evidence.
    x, y = (array[:, None].astype("float32") for array in data())
    bound = model.elbo(x, y, num_samples=5_000, seed=2)
    assert posterior.log_evidence - 0.4 < bound.mean
    assert bound.mean < posterior.log_evidence + 4 * bound.standard_error
