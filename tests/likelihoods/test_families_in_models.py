"""Every likelihood in a model: trained, asked, saved, loaded, exported."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf
from bhn_tf import likelihoods, uncertainty
from bhn_tf.layers import WeightNormDense

ROWS = 6
X = np.random.default_rng(0).normal(size=(ROWS, 2)).astype("float32")
REALS = X.sum(axis=1, keepdims=True)
POSITIVES = np.exp(REALS)
COUNTS = np.arange(ROWS)[:, None] % 4
WAITING = np.concatenate([POSITIVES, np.arange(ROWS)[:, None] % 2], axis=1)
STDS = {"mean", "std", "epistemic_std", "aleatoric_std"}


@keras.saving.register_keras_serializable("bhn_tf_tests")
def logistic(raw):
    return tfp.distributions.Logistic(raw, 0.5)


#: Likelihood (by name or made) and labels.
CASES = {
    "student_t": (lambda: likelihoods.StudentT(trainable=True), REALS),
    "laplace": ("laplace", REALS),
    "mixture": (lambda: likelihoods.Mixture(trainable=True), REALS),
    "standardized": (lambda: likelihoods.Standardized(likelihoods.Mixture()), REALS),
    "log_normal": ("log_normal", POSITIVES),
    "beta": (lambda: likelihoods.Beta(trainable=True), POSITIVES / (1 + POSITIVES)),
    "poisson": ("poisson", COUNTS),
    "negative_binomial": (lambda: likelihoods.NegativeBinomial(trainable=True), COUNTS),
    "zero_inflated_poisson": ("zero_inflated_poisson", COUNTS),
    "zero_inflated_negative_binomial": (
        lambda: likelihoods.ZeroInflatedNegativeBinomial(trainable=True),
        COUNTS,
    ),
    "weibull": (lambda: likelihoods.CensoredWeibull(trainable=True), WAITING),
    "censored_log_normal": ("censored_log_normal", WAITING),
    "ordinal": (lambda: likelihoods.Ordinal(4, trainable=True), COUNTS[:, 0]),
    "distribution": (lambda: likelihoods.Distribution(logistic), REALS),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CASES)
def test_a_model_trains_answers_and_serves(name, tmp_path):
    make, y = CASES[name]
    primary = keras.Sequential([keras.Input((2,)), WeightNormDense(1)])
    model = bhn_tf.BayesianHypernet(
        primary, "mean_field", make if isinstance(make, str) else make()
    )
    model.compile(keras.optimizers.Adam(0.05), run_eagerly=True, eval_samples=2)
    before = [weight.numpy() for weight in model.likelihood.trainable_variables]
    model.fit(X, y, batch_size=ROWS, epochs=1, verbose=0)
    for weight, value in zip(model.likelihood.trainable_variables, before, strict=True):
        assert np.abs(weight.numpy() - value).max() > 0, weight.path

    assert np.isfinite(model.evaluate(X, y, verbose=0, return_dict=True)["nll"])
    asked = {"num_samples": 4, "seed": 0, "verbose": 0}
    answers = model.predict_uncertainty(X, **asked)
    is_ordinal = name == "ordinal"
    assert set(answers) == ({"mean", *uncertainty.SCORES} if is_ordinal else STDS)
    assert answers["mean"].shape == ((ROWS, 4) if is_ordinal else (ROWS, 1))
    low, high = model.predict_interval(X, level=0.8, **asked)
    assert low.shape == high.shape == ((ROWS,) if is_ordinal else (ROWS, 1))
    assert (low <= high).all()

    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for key, value in loaded.predict_uncertainty(X, **asked).items():
        np.testing.assert_allclose(value, answers[key], rtol=1e-5, atol=1e-6)
    assert len(loaded.trainable_variables) == len(model.trainable_variables)

    version = model.export(tmp_path / "served")
    serve = tf.saved_model.load(str(version)).signatures["deterministic"]
    (argument,) = serve.structured_input_signature[1]
    np.testing.assert_allclose(
        serve(**{argument: tf.constant(X)})["mean"],
        model.predict(X, num_samples=0, verbose=0),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "zero_inflated_poisson"])
def test_xla_compiles_several_draws_of_a_shorter_last_batch(name):
    make, y = CASES[name]
    primary = keras.Sequential([keras.Input((2,)), WeightNormDense(1)])
    likelihood = make if isinstance(make, str) else make()
    model = bhn_tf.BayesianHypernet(primary, "mean_field", likelihood)
    model.compile("sgd", train_samples=2, jit_compile=True)
    history = model.fit(X, y, batch_size=4, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_an_unregistered_function_trains_and_exports(tmp_path):
    def normal(raw):
        return tfp.distributions.Normal(raw[..., :1], 1 + raw[..., 1:] ** 2)

    primary = keras.Sequential([keras.Input((2,)), WeightNormDense(2)])
    with pytest.warns(UserWarning, match="not registered"):
        likelihood = likelihoods.Distribution(normal)
    model = bhn_tf.BayesianHypernet(primary, "mean_field", likelihood)
    model.compile(run_eagerly=True)
    model.fit(X, REALS, verbose=0)
    version = model.export(tmp_path)
    card = json.loads(Path(version, "assets.extra/model_card.json").read_text())
    assert card["likelihood"]["class"] == "Distribution"


@pytest.mark.slow
def test_sequences_of_any_length_have_one_target_a_step():
    network = keras.Sequential(
        [keras.layers.Input((None, 3)), WeightNormDense(1), keras.layers.Flatten()]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field", "gaussian")
    model.compile("sgd")
    x = np.random.normal(size=(8, 5, 3)).astype("float32")
    history = model.fit(x, x[..., 0], verbose=0).history
    assert np.isfinite(history["nll"]).all()
    assert model.predict_interval(x, verbose=0)[0].shape == (8, 5)
    with pytest.raises(ValueError, match="Give the last axis a fixed size"):
        likelihoods.Gaussian(heteroscedastic=True).element_shape((None, None))
