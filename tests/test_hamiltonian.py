"""Hamiltonian Monte Carlo finds posteriors known in closed form."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf import hamiltonian
from bhn_tf.layers import WeightNormDense
from tests import networks
from tests.integration import test_posteriors as linear


@pytest.fixture(scope="module")
def model():
    """The untrained Bayesian linear regression, whose hypernet is of no help."""
    keras.utils.set_random_seed(0)
    primary = keras.Sequential(
        [keras.Input((2,)), WeightNormDense(1, random="kernel", use_bias=False)]
    )
    return bhn_tf.BayesianHypernet(
        primary,
        "mean_field",
        bhn_tf.likelihoods.Gaussian(stddev=linear.NOISE_STDDEV),
        prior_stddev=linear.PRIOR_STDDEV,
    )


def sampled(model, **kwargs):
    return hamiltonian.hamiltonian_monte_carlo(
        model, *linear.data(0.8), **{"num_burnin_steps": 200, "seed": 1, **kwargs}
    )


@pytest.fixture(scope="module")
def found(model):
    # Chains run in parallel: many short ones take less time than a few long ones.
    return sampled(model, num_samples=20_000, num_chains=20, jit_compile=True)


def test_the_draws_are_the_exact_posterior(found):
    posterior = linear.exact_posterior(0.8)
    assert found.draws.shape == (20_000, 2)
    distance = (found.draws.mean(axis=0) - posterior.mean) / posterior.stddev
    np.testing.assert_allclose(distance, 0.0, atol=0.05)
    np.testing.assert_allclose(found.draws.std(axis=0), posterior.stddev, rtol=0.05)
    correlation = np.corrcoef(found.draws.T)[0, 1]
    assert correlation == pytest.approx(posterior.correlation, abs=0.03)


def test_the_diagnostics_say_that_they_are(found):
    assert found.potential_scale_reduction.shape == (2,)
    assert (found.potential_scale_reduction < 1.01).all()
    assert (found.effective_sample_size > 2_000).all()
    assert 0.6 < found.acceptance_rate < 0.95
    assert found.divergences < 0.01


def test_predictions_are_the_exact_ones(model, found):
    posterior = linear.exact_posterior(0.8)
    x = np.array([[0.3, 0.3], [0.3, -0.3], [2.0, 0.0]], "float32")
    answers = hamiltonian.predict_uncertainty(model, x, found.draws)
    epistemic = np.sqrt(np.einsum("ni,ij,nj->n", x, posterior.covariance, x))
    distance = (answers["mean"][:, 0] - x @ posterior.mean) / epistemic
    np.testing.assert_allclose(distance, 0.0, atol=0.05)
    np.testing.assert_allclose(answers["epistemic_std"][:, 0], epistemic, rtol=0.05)
    samples = hamiltonian.samples(model, x, found.draws[:3])
    assert samples.shape == (3, 3, 1)
    np.testing.assert_allclose(
        samples[:, 1], model(x, scales=found.draws[1]), rtol=1e-5
    )


def test_a_seed_repeats_the_draws_and_leaves_the_model_alone(model):
    before = networks.weights_of(model)
    options = {
        "num_samples": 40,
        "num_chains": 2,
        "num_burnin_steps": 10,
        "jit_compile": False,
    }
    calls = []
    one = sampled(model, **options, progress=lambda *steps: calls.append(steps))
    np.testing.assert_array_equal(one.draws, sampled(model, **options).draws)
    other = sampled(model, **options, seed=2)
    assert (one.draws != other.draws).any()
    assert calls == [(5, 30), (30, 30)]
    for a, b in zip(before, networks.weights_of(model), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_only_the_generated_values_move():
    """Scales of a classifier: v and b do not change, and draws fit the model."""
    model = networks.bayesian()
    x, y = networks.data(20)
    found = hamiltonian.hamiltonian_monte_carlo(
        *(model, x, y),
        num_samples=20,
        num_burnin_steps=10,
        num_chains=2,
        seed=0,
        jit_compile=False,
    )
    assert found.draws.shape == (20, model.num_random)
    answers = hamiltonian.predict_uncertainty(model, x, found.draws)
    np.testing.assert_allclose(answers["mean"].sum(axis=1), 1.0, rtol=1e-5)
    assert set(bhn_tf.uncertainty.SCORES) <= set(answers)


def test_chains_in_different_places_have_a_large_r_hat():
    noise = np.random.default_rng(0).normal(size=(400, 1))
    apart = noise + np.repeat([[0.0], [5.0]], 200, axis=0)
    assert hamiltonian.potential_scale_reduction(noise, 2)[0] < 1.05
    assert hamiltonian.potential_scale_reduction(apart, 2)[0] > 2


def test_what_never_varies_agrees_and_nan_does_not():
    values = np.ones((8, 3))
    values[:, 1] = np.arange(8)
    values[0, 2] = np.nan
    found = hamiltonian.potential_scale_reduction(values, 2)
    assert found[0] == 1 and found[1] > 2 and np.isnan(found[2])
    assert hamiltonian.potential_scale_reduction(values[:, 0], 2) == 1


@pytest.mark.parametrize(
    ["arguments", "message"],
    [
        ({"num_samples": 41, "num_chains": 2}, "multiple of `num_chains` = 2"),
        ({"num_samples": 3, "num_chains": 2}, "`num_samples`"),
        ({"num_chains": 1}, "`num_chains`"),
        ({"num_burnin_steps": 0}, "`num_burnin_steps`"),
    ],
    ids=str,
)
def test_numbers_without_sense_are_refused(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        sampled(model, **arguments)


def test_a_model_without_anything_random_is_refused():
    x, y = networks.data(5)
    with pytest.raises(ValueError, match="D = 0"):
        hamiltonian.hamiltonian_monte_carlo(networks.bayesian(networks.plain()), x, y)
    baseline = bhn_tf.baselines.Deterministic(networks.plain())
    with pytest.raises(ValueError, match="D = 0"):
        hamiltonian.hamiltonian_monte_carlo(baseline, x, y)


def test_frames_are_data_as_in_training(model):
    pandas = pytest.importorskip("pandas")
    x = np.arange(4.0)[:, None] * np.ones([4, model.primary.input_shape[1]])
    frame = pandas.DataFrame(x)
    frame[0] = frame[0].astype("Int64")
    draws = model.sample_scales(2, seed=0)
    expected = hamiltonian.samples(model, x, draws)
    np.testing.assert_array_equal(hamiltonian.samples(model, frame, draws), expected)
    y = pandas.Series(x[:, 0])
    np.testing.assert_array_equal(
        hamiltonian.log_joint(model, frame, y)(draws),
        hamiltonian.log_joint(model, x, x[:, :1])(draws),
    )


def test_data_that_yield_batches_are_refused(model):
    batches = tf.data.Dataset.from_tensors((np.ones([2, 1]), np.ones([2, 1])))
    with pytest.raises(ValueError, match="arrays of one batch"):
        hamiltonian.log_joint(model, batches, None)


@pytest.mark.parametrize("shape", [[], [3], [2, 1000]])
def test_draws_of_another_shape_are_refused(model, shape):
    x = np.ones([2, model.primary.input_shape[1]], "float32")
    with pytest.raises(ValueError, match=r"`draws` of shape \[S, "):
        hamiltonian.predict_uncertainty(model, x, np.ones(shape))
