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
from trainers.multimodal import GridPosterior, data, product_of_two_weights


@pytest.fixture(scope="module")
def posterior():
    return GridPosterior()


def fitted(hypernet, seed):
    """The product of two weights, trained so that no mode is lost.

    The flow starts as the prior, which covers both modes, and the weight of the KL
    falls from 100, so that the likelihood divides it slowly and its shares stay nearly
    even. Once the branches are apart, only small steps with little noise keep the
    shares. Hence the many draws per step, a learning rate no larger than this, and no
    clipping: Adam remembers the steep gradients of the beginning and slows down.
    """
    num_steps, steps_per_epoch = 2000, 50
    num_epochs = num_steps // steps_per_epoch
    keras.utils.set_random_seed(seed)
    model = product_of_two_weights(hypernet(initial_stddev=1.0, initial_mean=0.0))
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


def cases():
    """One of them runs by default; each takes as long as a hundred other tests."""
    for hypernet in (bhn_tf.hypernets.RealNVP, bhn_tf.hypernets.IAF):
        for seed in range(3):
            is_first = hypernet is bhn_tf.hypernets.RealNVP and seed == 0
            marks = () if is_first else pytest.mark.slow
            name = f"{hypernet.__name__}-{seed}"
            yield pytest.param(hypernet, seed, marks=marks, id=name)


@pytest.mark.parametrize(["hypernet", "seed"], list(cases()))
def test_both_modes_are_kept_in_their_places(hypernet, seed, posterior):
    model = fitted(hypernet, seed)
    a, b = model.sample_scales(20_000, seed=1).T
    assert 0.2 < (a > 0).mean() < 0.8

    # Across the branches, each alone: the exact product is the same on both.
    mean = posterior.mean(posterior.product)
    stddev = posterior.stddev(posterior.product)
    for branch in (a > 0, a < 0):
        product = (a * b)[branch]
        # A continuous map leaves a thin bridge between the branches, which adds width.
        assert product.mean() == pytest.approx(mean, abs=0.2 * stddev)
        assert product.std() == pytest.approx(stddev, rel=0.25)
    # Along the branches.
    assert np.abs(a).mean() == pytest.approx(
        posterior.mean(np.abs(posterior.a)), rel=0.1
    )

    # With one mode alone, the bound stays log 2 = 0.69 nats below the evidence.
    x, y = (array[:, None].astype("float32") for array in data())
    bound = model.elbo(x, y, num_samples=5_000, seed=2)
    assert posterior.log_evidence - 0.4 < bound.mean
    assert bound.mean < posterior.log_evidence + 4 * bound.standard_error
