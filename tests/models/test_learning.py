"""Training learns, with a prior as strong as asked for."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.layers import WeightNormDense
from tests import networks


def blobs(num_rows, seed=0):
    """Three classes a few standard deviations apart, in two dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, num_rows)
    centres = np.array([[0.0, 2.0], [-2.0, -1.0], [2.0, -1.0]])
    x = centres[y] + rng.normal(size=(num_rows, 2), scale=0.5)
    return x.astype("float32"), y


def network(units=20):
    return keras.Sequential(
        [
            keras.Input((2,)),
            WeightNormDense(units, activation="relu"),
            WeightNormDense(3),
        ]
    )


@pytest.mark.slow
def test_without_a_prior_it_fits_any_labels():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 2)).astype("float32")
    y = rng.integers(0, 3, 24)
    model = networks.bayesian(network(64), "mean_field")
    model.compile(
        keras.optimizers.Adam(0.03),
        metrics=["accuracy"],
        kl_weight=0.0,
        jit_compile=False,
    )
    # 400 steps in one epoch, each over the same 24 rows.
    model.fit(np.tile(x, (400, 1)), np.tile(y, 400), 24, shuffle=False, verbose=0)
    logs = model.evaluate(x, y, num_samples=0, verbose=0, return_dict=True)
    assert logs["accuracy"] > 0.95


@pytest.mark.parametrize("name", ["MeanField", "RealNVP", "IAF"])
def test_under_a_huge_weight_the_posterior_becomes_the_prior(name):
    arguments = {} if name == "MeanField" else {"num_layers": 2, "hidden_units": (8,)}
    hypernet = getattr(bhn_tf.hypernets, name)(**arguments)
    model = networks.bayesian(network(5), hypernet)
    networks.compiled(model, keras.optimizers.Adam(0.02), kl_weight=1e6)
    model.num_examples = 9_600
    evaluation = {"num_samples": 500, "verbose": 0, "return_dict": True}
    initial = model.evaluate(*blobs(32), **evaluation)
    model.fit(*blobs(9_600), batch_size=32, verbose=0)
    final = model.evaluate(*blobs(32), **evaluation)
    assert initial["kl"] > 10 and final["kl"] < 0.05 * initial["kl"]


def test_jit_changes_the_noise_but_not_the_network():
    x, y = networks.data(9)
    model = networks.bayesian(num_examples=9)
    answers, logs = [], []
    for jit_compile in (False, True):
        model.compile("sgd", jit_compile=jit_compile)
        answers.append(model.predict_samples(x, num_samples=3, seed=1, verbose=0))
        logs.append(model.evaluate(x, y, seed=1, verbose=0, return_dict=True))
    np.testing.assert_allclose(*answers, atol=1e-5)
    for name, value in logs[0].items():
        np.testing.assert_allclose(logs[1][name], value, rtol=1e-5)
    # Under XLA every step draws anew, and runs from one seed are equal.
    runs = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        again = networks.bayesian(hypernet="mean_field")
        again.compile(keras.optimizers.SGD(0.0), jit_compile=True)
        runs.append(again.fit(x, y, epochs=3, verbose=0).history["kl"])
    assert runs[0] == runs[1] and len(set(runs[0])) == 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_defaults_learn_separable_classes(seed):
    keras.utils.set_random_seed(seed)
    x, y = blobs(2_000, seed)
    model = bhn_tf.BayesianHypernet(network())
    model.compile(keras.optimizers.Adam(1e-2), metrics=["accuracy"])
    model.num_examples = 2_000
    initial = model.evaluate(x, y, verbose=0, return_dict=True)
    assert initial["nll"] < 5 * np.log(3)
    history = model.fit(x, y, epochs=8, verbose=0).history
    assert np.isfinite(list(history.values())).all()
    final = model.evaluate(*blobs(1_000, seed + 100), verbose=0, return_dict=True)
    assert final["accuracy"] > 0.95
