"""Priors other than the Gaussian, and the bound by which hypernets are compared."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf

tfd = tfp.distributions

MIXTURE = tfd.MixtureSameFamily(
    tfd.Categorical(probs=[0.25, 0.75]), tfd.Normal([0.0, 0.0], [1.0, 0.1])
)


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 3)).astype("float32")
    return x, (x[:, 0] > 0).astype("int32")


def make_model(**kwargs):
    network = keras.Sequential(
        [
            keras.layers.Input((3,)),
            bhn_tf.layers.WeightNormDense(4, activation="relu"),
            bhn_tf.layers.WeightNormDense(2),
        ]
    )
    return bhn_tf.BayesianHypernet(network, bhn_tf.hypernets.RealNVP(2, (4,)), **kwargs)


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({}, tfd.Normal(tf.zeros(6), 1.0)),
        ({"prior_loc": 1.0, "prior_stddev": 2.0}, tfd.Normal(tf.ones(6), 2.0)),
        ({"prior_loc": np.arange(6.0)}, tfd.Normal(tf.range(6.0), 1.0)),
        ({"prior": tfd.Laplace(0.0, 0.5)}, tfd.Laplace(tf.zeros(6), 0.5)),
        ({"prior": tfd.Normal(tf.range(6.0), 1.0)}, tfd.Normal(tf.range(6.0), 1.0)),
        ({"prior": MIXTURE}, MIXTURE),
    ],
)
def test_the_kl_is_that_of_the_prior_also_after_loading(
    data, kwargs, expected, tmp_path
):
    model = make_model(num_examples=50, **kwargs)
    model.compile("adam")
    g, log_q = model.hypernet.sample_and_log_prob(8, seed=3)
    log_p = tf.reduce_sum(expected.log_prob(g), axis=1)
    logs = model.evaluate(*data, verbose=0, seed=3, return_dict=True)
    np.testing.assert_allclose(logs["kl"], np.mean(log_q - log_p), rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.evaluate(*data, verbose=0, seed=3, return_dict=True)
    np.testing.assert_allclose(again["kl"], logs["kl"], rtol=1e-6)


def test_a_prior_of_another_size_is_refused():
    for options in ({"prior": tfd.Normal(tf.zeros(5), 1.0)}, {"prior_loc": [0.0] * 5}):
        with pytest.raises(ValueError, match="D = 6"):
            make_model(**options)
    with pytest.raises(ValueError, match="finite"):
        make_model(prior_loc=np.nan)


def test_the_bound_is_that_of_evaluate(data):
    model = make_model()
    model.compile("adam")
    model.fit(*data, epochs=2, verbose=0)
    bound = model.elbo(*data, num_samples=40, batch_size=7, seed=2)
    logs = model.evaluate(*data, verbose=0, num_samples=40, seed=2, return_dict=True)
    np.testing.assert_allclose(bound.mean, -50 * logs["nll"] - logs["kl"], rtol=1e-5)
    again = [model.elbo(*data, num_samples=40).mean for _ in range(20)]
    np.testing.assert_allclose(np.std(again), bound.standard_error, rtol=0.6)
