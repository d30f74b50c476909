import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.likelihoods import Gaussian

tfd = tfp.distributions
MEANS = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")
TARGETS = np.random.default_rng(1).normal(size=(5, 2)).astype("float32")


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("trainable", [False, True])
def test_log_prob_is_the_full_density(trainable, reduction):
    likelihood = Gaussian(stddev=0.3, trainable=trainable, reduction=reduction)
    expected = tfd.Normal(MEANS, 0.3).log_prob(TARGETS).numpy()
    np.testing.assert_allclose(
        likelihood.log_prob(TARGETS, MEANS),
        getattr(expected, reduction)(axis=1),
        rtol=1e-5,
    )


def test_hand_numbers():
    result = Gaussian(stddev=2.0).log_prob([[3.0]], [[1.0]])
    expected = -0.5 - np.log(2.0) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(result, [expected], rtol=1e-6)


def test_heteroscedastic_rows_have_their_own_noise():
    likelihood = Gaussian(stddev=0.5, heteroscedastic=True)
    spread = np.random.default_rng(2).normal(size=MEANS.shape).astype("float32")
    raw = np.concatenate([MEANS, spread], axis=-1)
    stddev = 0.5 * np.log1p(np.exp(spread))
    expected = tfd.Normal(MEANS, stddev).log_prob(TARGETS).numpy().sum(axis=1)
    np.testing.assert_allclose(likelihood.log_prob(TARGETS, raw), expected, rtol=1e-4)
    np.testing.assert_array_equal(likelihood.mean(raw), MEANS)


def test_noise_never_vanishes():
    likelihood = Gaussian(heteroscedastic=True)
    raw = tf.constant([[1.0, -1e4]])
    with tf.GradientTape() as tape:
        tape.watch(raw)
        log_prob = likelihood.log_prob([[1.0]], raw)
    assert (
        np.isfinite(log_prob).all() and np.isfinite(tape.gradient(log_prob, raw)).all()
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_computes_in_float32_at_least(dtype):
    raw = tf.constant([[0.5], [0.25]], dtype)
    result = Gaussian(stddev=0.01).log_prob([[0.5], [0.5]], raw)
    assert result.dtype == (tf.float64 if dtype == "float64" else tf.float32)
    expected = tfd.Normal([0.5, 0.25], 0.01).log_prob(0.5)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_a_single_output_takes_targets_of_both_shapes():
    likelihood = Gaussian()
    raw, targets = MEANS[:, :1], TARGETS[:, 0]
    expected = tfd.Normal(MEANS[:, 0], 1.0).log_prob(targets)
    for coding in (targets, targets[:, None], targets.astype("float64")):
        likelihood.check_labels(coding, (None, 1))
        np.testing.assert_allclose(
            likelihood.log_prob(coding, raw), expected, rtol=1e-5
        )


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (1, 2), (5, 2, 1)])
def test_targets_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="Give one target for each output"):
        Gaussian().log_prob(np.zeros(shape, "float32"), MEANS)


@pytest.mark.parametrize("target", [float("nan"), float("inf")])
def test_targets_that_are_no_numbers_are_refused(target):
    with pytest.raises(ValueError, match="finite number for each output"):
        Gaussian().check_labels(np.array([1.0, target]), (None, 1))


def test_targets_of_a_heteroscedastic_network_are_half_its_outputs():
    likelihood = Gaussian(heteroscedastic=True)
    likelihood.check_labels(TARGETS, (None, 4))
    with pytest.raises(ValueError, match="Give one target for each output"):
        likelihood.check_labels(np.zeros((5, 4)), (None, 4))
    with pytest.raises(ValueError, match="needs two raw outputs.*the network has 3"):
        likelihood.log_prob(TARGETS, np.zeros((5, 3)))


@pytest.mark.parametrize("stddev", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_has_to_be_a_positive_number(stddev):
    with pytest.raises(ValueError, match="`stddev` to be a positive number"):
        Gaussian(stddev=stddev)


def test_noise_is_learned_either_way_and_not_both():
    with pytest.raises(ValueError, match="choose one of them"):
        Gaussian(trainable=True, heteroscedastic=True)


# -- prediction --------------------------------------------------------------------


def test_moments_of_two_draws():
    # N(0, 1) and N(2, 1): mean 1, variance 1 of the noise and 1 of the means.
    summary = Gaussian(stddev=1.0).summarize(np.array([[[0.0]], [[2.0]]], "float32"))
    expected = {
        "mean": 1.0,
        "std": np.sqrt(2.0),
        "epistemic_std": 1.0,
        "aleatoric_std": 1.0,
    }
    assert set(summary) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(summary[name], [[value]], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_moments_are_those_of_the_mixture(heteroscedastic):
    rng = np.random.default_rng(0)
    likelihood = Gaussian(stddev=0.7, heteroscedastic=heteroscedastic)
    size = 4 if heteroscedastic else 2
    raws = rng.normal(size=(6, 3, size)).astype("float32")
    means = raws[..., :2]
    stddevs = 0.7 * np.log1p(np.exp(raws[..., 2:])) if heteroscedastic else 0.7
    draws = means + stddevs * rng.normal(size=(50_000, *means.shape))
    draws = draws.reshape(-1, 3, 2)
    summary = likelihood.summarize(raws)
    np.testing.assert_allclose(summary["mean"], draws.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(summary["std"], draws.std(axis=0), rtol=0.01)
    np.testing.assert_allclose(
        summary["std"] ** 2,
        summary["epistemic_std"] ** 2 + summary["aleatoric_std"] ** 2,
        rtol=1e-5,
    )


def test_agreeing_draws_leave_the_noise():
    summary = Gaussian(stddev=0.3).summarize(np.ones((5, 2, 1), "float32"))
    np.testing.assert_array_equal(summary["epistemic_std"], 0.0)
    np.testing.assert_allclose(summary["std"], 0.3, rtol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("num_draws", [1, 2, 7])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.95, 0.99])
def test_interval_of_agreeing_draws_is_that_of_a_normal(level, num_draws):
    raws = np.array([[[0.7, -3.0]]] * num_draws, "float32")
    low, high = Gaussian(stddev=0.2).interval(raws, level)
    normal = tfd.Normal(raws[0], 0.2)
    np.testing.assert_allclose(low, normal.quantile(0.5 - level / 2), rtol=1e-4)
    np.testing.assert_allclose(high, normal.quantile(0.5 + level / 2), rtol=1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize("heteroscedastic", [False, True])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_interval_holds_the_quantiles_of_the_mixture(level, heteroscedastic):
    rng = np.random.default_rng(0)
    likelihood = Gaussian(stddev=0.3, heteroscedastic=heteroscedastic)
    raws = 2 * rng.normal(size=(4, 3, 2)).astype("float32")
    means = raws[..., :1] if heteroscedastic else raws
    stddevs = 0.3 * np.log1p(np.exp(raws[..., 1:])) if heteroscedastic else 0.3
    draws = means + stddevs * rng.normal(size=(100_000, *means.shape))
    draws = draws.reshape(-1, *means.shape[1:])
    low, high = likelihood.interval(raws, level)
    assert low.shape == high.shape == means.shape[1:]
    # Compares shares, not bounds: a gap between two draws has no density.
    for is_outside in (draws < low.numpy(), draws > high.numpy()):
        np.testing.assert_allclose(is_outside.mean(axis=0), (1 - level) / 2, atol=2e-3)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_interval_does_not_depend_on_the_unit(unit):
    raws = np.array([[[0.0]], [[2.0]], [[2.5]]], "float32")
    expected = Gaussian(stddev=0.5).interval(raws, 0.9)
    in_unit = Gaussian(stddev=0.5 * unit).interval(raws * unit, 0.9)
    for bound, expected_bound in zip(in_unit, expected, strict=True):
        np.testing.assert_allclose(bound / unit, expected_bound, rtol=1e-4)


def test_interval_of_far_draws_is_found():
    raws = np.array([[[0.0]], [[1e5]]], "float32")
    low, high = Gaussian(stddev=1.0).interval(raws, 0.9)
    np.testing.assert_allclose(low, tfd.Normal(0.0, 1.0).quantile([[0.1]]), atol=0.01)
    np.testing.assert_allclose(high - 1e5, -low, atol=0.02)


# -- the noise as a weight ---------------------------------------------------------


def test_noise_is_learned_by_maximum_likelihood():
    likelihood = Gaussian(stddev=1.0, trainable=True)
    residuals = 0.2 * np.random.default_rng(0).normal(size=(500, 1)).astype("float32")
    optimizer = keras.optimizers.Adam(0.05)
    for _ in range(150):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(
                likelihood.log_prob(residuals, np.zeros_like(residuals))
            )
        gradients = tape.gradient(loss, likelihood.trainable_variables)
        optimizer.apply(gradients, likelihood.trainable_variables)
    stddev = likelihood.summarize(np.zeros((1, 1, 1), "float32"))["std"]
    np.testing.assert_allclose(stddev, [[np.sqrt(np.mean(residuals**2))]], rtol=0.01)


def test_fixed_noise_stays_fixed_when_a_model_is_frozen_and_thawed():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.fixed = Gaussian(stddev=0.1)
            self.learned = Gaussian(stddev=0.1, trainable=True)

    model = Model()
    for trainable in (False, True):
        model.trainable = trainable
        expected = [model.learned.log_stddev.path] if trainable else []
        assert [v.path for v in model.trainable_variables] == expected
