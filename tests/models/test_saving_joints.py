"""A model of several learned likelihoods goes on after loading as it would have."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Gaussian, Ordinal

X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
Y = {"a": 3 * X[:, :1], "b": np.arange(20) % 5}


def trained(parts):
    inputs = keras.Input((3,))
    outputs = [WeightNormDense(1, name=name)(inputs) for name in ("a", "b")]
    model = bhn_tf.BayesianHypernet(
        keras.Model(inputs, outputs), "mean_field", parts, seed=0
    )
    model.compile(keras.optimizers.Adam(0.1), jit_compile=False)
    model.fit(X, Y, epochs=2, verbose=0)
    return model


@pytest.fixture(scope="module", params=["same_shapes", "other_shapes"])
def model(request):
    """Of likelihoods in another order than the outputs."""
    of_b = Gaussian if request.param == "same_shapes" else Ordinal
    return trained({"b": of_b(trainable=True), "a": Gaussian(trainable=True)})


@pytest.fixture
def loaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.saving.load_model(tmp_path / "model.keras")


def assert_same(found, expected):
    assert [variable.shape for variable in found] == [v.shape for v in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_training_goes_on_with_the_moments_of_each_likelihood(model, loaded):
    assert_same(loaded.optimizer.variables, model.optimizer.variables)
    for each in (loaded, model):
        keras.utils.set_random_seed(1)
        each.train_on_batch(X, Y)
    assert_same(loaded.trainable_variables, model.trainable_variables)
    assert_same(loaded.optimizer.variables, model.optimizer.variables)


@pytest.mark.slow
def test_a_calibrated_model_is_loaded(model, tmp_path):
    calibrated = bhn_tf.conformal.calibrate(model, X, Y, num_samples=2)
    calibrated.save(tmp_path / "calibrated.keras")
    loaded = keras.saving.load_model(tmp_path / "calibrated.keras")
    assert_same(loaded.predict(X, verbose=0), calibrated.predict(X, verbose=0))
