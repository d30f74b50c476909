"""Attacks follow the loss of `evaluate`, without padding and missing labels."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import attacks, baselines, likelihoods
from bhn_tf.layers import WeightNormDense
from tests import networks

NUM_STEPS = 5
NUM_REAL = 3


def sequences(seed=0):
    """Rows of three real steps and two of padding, with labels of all five."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.2, 0.8, size=(6, NUM_STEPS, 4)).astype("float32")
    x[:, NUM_REAL:] = 0
    return x, rng.integers(0, 3, (6, NUM_STEPS))


def recurrent(dense=keras.layers.Dense, num_outputs=3):
    """The steps of padding repeat the last real state, so their answers matter."""
    return keras.Sequential(
        [
            keras.Input((NUM_STEPS, 4)),
            keras.layers.Masking(0.0),
            keras.layers.LSTM(5, return_sequences=True),
            dense(num_outputs),
        ]
    )


def padded_with(y, value):
    y = np.array(y)
    y[:, NUM_REAL:] = value
    return y


@pytest.fixture(scope="module")
def models():
    keras.utils.set_random_seed(3)
    return {
        "bayesian": networks.bayesian(recurrent(WeightNormDense)),
        "deterministic": baselines.Deterministic(recurrent()),
        "ensemble": baselines.DeepEnsemble([recurrent(), recurrent()]),
    }


def sign_of_gradient_of_nll(model, x, y):
    """Of -log p of the network at the centre, as `evaluate` computes it."""
    values = model.posterior.draw(0, None).values
    inputs = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        log_probs = model.answers.log_probs((inputs, y), values)
        loss = -tf.reduce_sum(log_probs)
    return np.sign(tape.gradient(loss, inputs).numpy())


@pytest.mark.slow
@pytest.mark.parametrize("attack", [attacks.fgsm, attacks.pgd])
@pytest.mark.parametrize("kind", ["bayesian", "deterministic", "ensemble"])
def test_labels_of_padding_change_nothing(models, kind, attack):
    x, y = sequences()
    found = [
        attack(models[kind], x, padded_with(y, label), 0.1, num_samples=2, seed=1)
        for label in (0, 2, -1)
    ]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["bayesian", "deterministic"])
def test_the_direction_is_that_of_the_loss_of_evaluate(models, kind):
    model, (x, y) = models[kind], sequences()
    sign = attacks.gradient_sign(model, x, y, num_samples=0)
    np.testing.assert_array_equal(sign, sign_of_gradient_of_nll(model, x, y))
    assert not sign[:, NUM_REAL:].any() and sign[:, :NUM_REAL].all()


@pytest.mark.slow
def test_questions_of_padding_do_not_count():
    x, _ = sequences()
    model = baselines.Deterministic(recurrent(num_outputs=2), "bernoulli")
    y = np.random.default_rng(0).integers(0, 2, (*x.shape[:2], 2))
    expected = sign_of_gradient_of_nll(model, x, y)
    for label in (0, 1, -1):
        sign = attacks.gradient_sign(model, x, padded_with(y, label))
        np.testing.assert_array_equal(sign, expected)


@pytest.mark.parametrize("ignored", [0, -1])
def test_missing_labels_do_not_count(ignored):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(4, 4, 4, 1)).astype("float32")
    y = rng.integers(0 if ignored == 0 else -1, 3, (4, 4, 4))
    # A row without any label is no row that the model is sure of.
    y[0] = ignored
    network = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Conv2D(3, 3, padding="same")]
    )
    likelihood = likelihoods.Categorical(ignore_class=ignored)
    model = baselines.Deterministic(network, likelihood)
    sign = attacks.gradient_sign(model, x, y)
    np.testing.assert_array_equal(sign, sign_of_gradient_of_nll(model, x, y))
    assert not sign[0].any() and sign[1:].any()


def test_a_real_label_without_a_meaning_is_refused_by_what_the_model_expects():
    x, y = sequences()
    model = baselines.Deterministic(recurrent())
    y[1, 0] = -1
    with pytest.raises(ValueError, match="values from -1 to 2 .* from 0 to 2"):
        attacks.fgsm(model, x, y, 0.1)
