"""Scales and biases from data: pre-activations of mean 0 and variance 1, once."""

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import bhn_tf
from bhn_tf import layers, likelihoods
from tests import networks


@pytest.fixture
def x():
    random = np.random.default_rng(0)
    return (random.normal(size=(100, 6, 6, 2)) * 5 + 3).astype("float32")


def make_model(random="scale"):
    shared = layers.WeightNormDense(6, activation="tanh", random=random)
    inputs = keras.Input((6, 6, 2))
    outputs = inputs
    for layer in (
        layers.WeightNormConv2D(4, 3, activation="relu", random=random),
        layers.WeightNormDepthwiseConv2D(2, depth_multiplier=2, random=random),
        keras.layers.Flatten(),
        layers.WeightNormDense(6, activation="tanh", random=random),
        shared,
        shared,
        layers.WeightNormEinsumDense("ab,bc->ac", 3, bias_axes="c", random=random),
    ):
        outputs = layer(outputs)
    network = keras.Model(inputs, outputs)
    return bhn_tf.BayesianHypernet(network, bhn_tf.hypernets.RealNVP(2, (4,)))


def center(model, x):
    scales = model.hypernet.center() if model.num_random else None
    return keras.ops.convert_to_numpy(model(x, scales=scales))


@pytest.mark.parametrize("random", ["scale", "scale_and_bias", "none"])
def test_outputs_are_standardised(x, random):
    model = make_model(random)
    assert model.initialize_from_data(x)
    outputs = center(model, x)
    np.testing.assert_allclose(outputs.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(outputs.std(axis=0), 1, atol=1e-4)


def test_it_happens_once_also_after_loading(x, tmp_path):
    model = make_model()
    assert model.initialize_from_data(x)
    before = center(model, x)
    assert not model.initialize_from_data(2 * x)
    np.testing.assert_array_equal(center(model, x), before)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert not loaded.initialize_from_data(2 * x)
    np.testing.assert_array_equal(center(loaded, x), before)


def test_labels_that_are_no_numbers_are_named(x):
    with pytest.raises(ValueError, match="dtype object"):
        make_model().initialize_from_data(x, np.full(len(x), "a", dtype=object))


@pytest.mark.parametrize("rows", [1, 20])
def test_data_that_do_not_vary_keep_scales_finite(x, rows):
    model = make_model()
    constant = np.repeat(x[:1], rows, axis=0)
    before = center(model, x)
    model.initialize_from_data(constant)
    # The convolution's outputs vary over the image; those after it do not.
    assert np.isfinite(center(model, x)).all()
    assert np.isfinite(before).all()


def regression(likelihood):
    outputs = 2 if getattr(likelihood, "heteroscedastic", False) else 1
    primary = keras.Sequential(
        [keras.Input((networks.NUM_FEATURES,)), layers.WeightNormDense(outputs)]
    )
    return networks.bayesian(primary, "mean_field", likelihood=likelihood)


@pytest.fixture
def targets():
    x, _ = networks.data(64)
    return x, 100.0 + 20.0 * x[:, :1]


FAMILIES = pytest.mark.parametrize(
    "family", [likelihoods.Gaussian, likelihoods.Laplace, likelihoods.StudentT]
)


@pytest.mark.few(3)
@FAMILIES
@pytest.mark.parametrize("option", ["trainable", "heteroscedastic"])
def test_the_noise_starts_at_the_spread_of_the_targets(family, option, targets):
    """No warning (an error in the tests) says that the noise starts elsewhere."""
    x, y = targets
    model = regression(family(**{option: True}))
    assert model.initialize_from_data(x, y)
    np.testing.assert_allclose(model.likelihood.stddev, y.std(), rtol=1e-5)
    if option == "trainable":
        scores = model.predict_uncertainty(x, num_samples=2, verbose=0)
        np.testing.assert_allclose(scores["aleatoric_std"], y.std(), rtol=1e-5)
    model.compile("sgd", run_eagerly=True)
    model.fit(x, y, steps_per_epoch=1, verbose=0)


@FAMILIES
def test_noise_that_was_fixed_stays(family, targets):
    x, y = targets
    model = regression(family())
    before = model.likelihood.stddev
    assert model.initialize_from_data(x, y)
    assert model.likelihood.stddev == before
    scores = model.predict_uncertainty(x, num_samples=0, verbose=0)
    np.testing.assert_allclose(scores["aleatoric_std"], before, rtol=1e-5)


def test_units_that_were_told_stay(targets):
    x, y = targets
    model = regression(likelihoods.Standardized(likelihoods.Gaussian()))
    model.likelihood.adapt(y)
    model.initialize_from_data(x[:8], y[:8])
    np.testing.assert_allclose(model.likelihood.loc, y.mean(axis=0), rtol=1e-5)


def test_sparse_rows_are_taken_and_batches_refused():
    x, _ = networks.data(20)
    models = [networks.bayesian(hypernet="mean_field") for _ in range(2)]
    models[1].set_weights(models[0].get_weights())
    for model, rows in zip(models, (x, scipy.sparse.csr_matrix(x)), strict=True):
        assert model.initialize_from_data(rows)
    np.testing.assert_allclose(
        models[1].hypernet.center(), models[0].hypernet.center(), rtol=1e-4
    )
    batches = tf.data.Dataset.from_tensor_slices(x).batch(5)
    with pytest.raises(ValueError, match="arrays of one batch"):
        networks.bayesian(hypernet="mean_field").initialize_from_data(batches)
