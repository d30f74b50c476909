"""Training finds the posterior if it is known in closed form.

Linear regression with known noise σ and prior N(0, s²) has a Gaussian posterior of
precision `Λ = XᵀX / σ² + I / s²` and mean `Λ⁻¹ Xᵀ y / σ²`, and `y` a Gaussian evidence
of covariance `σ² I + s² X Xᵀ`. Of all independent Gaussians the closest one has the
same mean and the variances `1 / Λᵢᵢ`.
"""

import functools
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense

NUM_ROWS = 20
NOISE_STDDEV = 0.5
PRIOR_STDDEV = 1.5
CORRELATIONS = [0.0, 0.8]
FLOWS = ["realnvp", "iaf"]


class Posterior(NamedTuple):
    """The exact posterior over the two weights, in float64."""

    mean: np.ndarray
    precision: np.ndarray
    log_evidence: float

    @property
    def covariance(self):
        return np.linalg.inv(self.precision)

    @property
    def stddev(self):
        return np.sqrt(np.diag(self.covariance))

    @property
    def correlation(self):
        return self.covariance[0, 1] / np.prod(self.stddev)

    @property
    def mean_field_divergence(self):
        """KL(q ‖ posterior) of the closest independent Gaussians, in nats."""
        diagonal = np.diag(self.precision)
        return 0.5 * (np.log(diagonal).sum() - np.linalg.slogdet(self.precision)[1])


def data(correlation):
    """Inputs whose two columns have exactly this correlation, and targets."""
    rng = np.random.default_rng(1)
    orthonormal, _ = np.linalg.qr(rng.normal(size=(NUM_ROWS, 2)))
    mixing = np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]])
    # Small inputs, so that prior and data both matter.
    x = 0.3 * np.sqrt(NUM_ROWS) * orthonormal @ mixing.T
    y = x @ [1.0, -0.5] + NOISE_STDDEV * rng.normal(size=NUM_ROWS)
    return x.astype("float32"), y.astype("float32")


def exact_posterior(correlation):
    x, y = (array.astype("float64") for array in data(correlation))
    precision = x.T @ x / NOISE_STDDEV**2 + np.eye(2) / PRIOR_STDDEV**2
    covariance = NOISE_STDDEV**2 * np.eye(NUM_ROWS) + PRIOR_STDDEV**2 * x @ x.T
    log_normalizer = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    return Posterior(
        mean=np.linalg.solve(precision, x.T @ y) / NOISE_STDDEV**2,
        precision=precision,
        log_evidence=-0.5 * y @ np.linalg.solve(covariance, y) - log_normalizer,
    )


@functools.cache
def fitted(hypernet, correlation):
    """The Bayesian linear regression, trained on all rows at every step."""
    # A mean field is easy: smooth gradients, four parameters. Conditioners need care.
    learning_rate, num_steps = (
        (0.05, 1000) if hypernet == "mean_field" else (0.005, 1500)
    )
    keras.utils.set_random_seed(0)
    primary = keras.Sequential(
        [keras.Input((2,)), WeightNormDense(1, random="kernel", use_bias=False)]
    )
    model = bhn_tf.BayesianHypernet(
        primary,
        hypernet,
        bhn_tf.likelihoods.Gaussian(stddev=NOISE_STDDEV),
        prior_stddev=PRIOR_STDDEV,
        num_examples=NUM_ROWS,
    )
    # The decay averages the noise of the gradients away. XLA earns the time that it
    # takes to compile within some 600 steps.
    model.compile(
        keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(learning_rate, num_steps)
        ),
        train_samples=64,
        steps_per_execution=50,
        jit_compile=True,
    )
    batches = tf.data.Dataset.from_tensors(data(correlation)).repeat(num_steps)
    model.fit(batches, verbose=0)
    return model


def draws(model):
    # Standard error of the mean 0.003, of the standard deviation 0.2 %.
    return model.sample_scales(100_000, seed=1)


def bound(model, correlation):
    """The evidence lower bound of all data in nats, from the terms of the loss."""
    x, y = data(correlation)
    logs = model.evaluate(x, y, verbose=0, return_dict=True, num_samples=20_000, seed=2)
    value = -NUM_ROWS * logs["nll"] - logs["kl"]
    assert value == pytest.approx(-NUM_ROWS * logs["loss"], rel=1e-5)
    return value


def assert_same_mean(samples, posterior):
    distance = (samples.mean(axis=0) - posterior.mean) / posterior.stddev
    np.testing.assert_allclose(distance, 0.0, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_mean_field_learns_the_closest_independent_gaussians(correlation):
    posterior = exact_posterior(correlation)
    samples = draws(fitted("mean_field", correlation))
    assert_same_mean(samples, posterior)
    np.testing.assert_allclose(
        samples.std(axis=0), np.diag(posterior.precision) ** -0.5, rtol=0.05
    )
    assert abs(np.corrcoef(samples.T)[0, 1]) < 0.02


@pytest.mark.slow
def test_mean_field_is_exact_for_orthogonal_inputs():
    samples = draws(fitted("mean_field", 0.0))
    np.testing.assert_allclose(
        samples.std(axis=0), exact_posterior(0.0).stddev, rtol=0.05
    )


@pytest.mark.slow
def test_mean_field_is_too_sure_for_correlated_inputs():
    samples = draws(fitted("mean_field", 0.8))
    assert (samples.std(axis=0) < 0.75 * exact_posterior(0.8).stddev).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_the_bound_of_mean_field_misses_the_evidence_by_its_divergence(correlation):
    posterior = exact_posterior(correlation)
    expected = posterior.log_evidence - posterior.mean_field_divergence
    actual = bound(fitted("mean_field", correlation), correlation)
    assert actual == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("hypernet", FLOWS)
def test_a_flow_learns_a_correlated_posterior(hypernet):
    posterior = exact_posterior(0.8)
    samples = draws(fitted(hypernet, 0.8))
    assert_same_mean(samples, posterior)
    np.testing.assert_allclose(samples.std(axis=0), posterior.stddev, rtol=0.05)
    correlation = np.corrcoef(samples.T)[0, 1]
    assert correlation == pytest.approx(posterior.correlation, abs=0.05)


@pytest.mark.parametrize("hypernet", FLOWS)
def test_the_bound_of_a_flow_is_the_evidence(hypernet):
    actual = bound(fitted(hypernet, 0.8), 0.8)
    assert actual == pytest.approx(exact_posterior(0.8).log_evidence, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("hypernet", FLOWS)
def test_the_predictive_of_a_flow_is_the_exact_one(hypernet):
    posterior = exact_posterior(0.8)
    # Along and across the inputs of the training data, and far from them.
    x = np.array([[0.3, 0.3], [0.3, -0.3], [2.0, 0.0], [-3.0, 1.0]], "float32")
    answers = fitted(hypernet, 0.8).predict_uncertainty(
        x, verbose=0, num_samples=20_000, seed=3
    )
    epistemic = np.sqrt(np.einsum("ni,ij,nj->n", x, posterior.covariance, x))
    distance = (answers["mean"][:, 0] - x @ posterior.mean) / epistemic
    np.testing.assert_allclose(distance, 0.0, atol=0.05)
    np.testing.assert_allclose(answers["epistemic_std"][:, 0], epistemic, rtol=0.05)
    np.testing.assert_allclose(answers["aleatoric_std"], NOISE_STDDEV, rtol=1e-5)
