"""Regression on targets as in files: far from 0, in their own unit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.hamiltonian import hamiltonian_monte_carlo
from bhn_tf.hypernets import MeanField
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Gaussian, StudentT
from tests.parity.twins import bayesian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)).astype("float32")
Y = np.clip(150 + 40 * X[:, 0] - 20 * X[:, 1] + 25 * RNG.normal(size=400), 25, 346)


def model_of(**kwargs):
    keras.utils.set_random_seed(0)
    network = keras.Sequential([keras.Input((3,)), WeightNormDense(1)])
    likelihood = Gaussian(trainable=True)
    model = bayesian(network, hypernet=MeanField(0.01), likelihood=likelihood, **kwargs)
    model.compile(keras.optimizers.Adam(0.05), jit_compile=False)
    return model


@pytest.fixture(scope="module")
def trained():
    model = model_of(normalize_targets=True)
    model.fit(X[:200], Y[:200], epochs=25, verbose=0)
    return model


def test_raw_targets_are_warned_of_with_the_mend():
    with pytest.warns(UserWarning, match="normalize_targets=True"):
        model_of().fit(X[:20], Y[:20], verbose=0)


@pytest.mark.slow
def test_units_are_told_before_anything_is_judged():
    """Weights that were trained in raw units would mean something else after `fit`."""
    x, y = X[:20], Y[:20]
    model = model_of(normalize_targets=True, num_examples=20)
    calls = [
        lambda: model.train_on_batch(x, y),
        lambda: model.test_on_batch(x, y),
        lambda: model.evaluate(x, y, verbose=0),
        lambda: model.elbo(x, y, num_samples=2),
        lambda: hamiltonian_monte_carlo(model, x, y, num_samples=8, num_chains=2),
    ]
    before = model.get_weights()
    for call in calls:
        with pytest.raises(ValueError, match="units.*call `fit` first.*adapt"):
            call()
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    model.likelihood.adapt(y)
    for call in calls[:-1]:
        call()


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, index):
        return X[:20], Y[:20, None]


def of_a_generator():
    def batches():
        for _ in range(100):
            yield X[:20], Y[:20, None]
        raise AssertionError("It would never have ended.")

    specs = tf.TensorSpec((None, 3)), tf.TensorSpec((None, 1))
    return tf.data.Dataset.from_generator(batches, output_signature=specs)


def filtered():
    rows = tf.data.Dataset.from_tensor_slices((X[:20], Y[:20, None]))
    return rows.repeat().filter(lambda x, y: True).batch(20)


@pytest.mark.parametrize("make", [Endless, of_a_generator, filtered])
def test_units_are_not_sought_without_end(make):
    model = model_of(normalize_targets=True, num_examples=20)
    with pytest.raises(ValueError, match="model.likelihood.adapt"):
        model.fit(make(), steps_per_epoch=3, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_what_they_say(trained, level):
    lower, upper = trained.predict_interval(X[200:], level, verbose=0)
    covered = np.mean((lower[:, 0] <= Y[200:]) & (Y[200:] <= upper[:, 0]))
    # Three standard errors of 200 rows, plus the uncertainty of 200 training rows.
    assert covered == pytest.approx(level, abs=3 * np.sqrt(level * (1 - level) / 200))


def test_answers_have_the_unit_of_the_targets(trained):
    answer = trained.predict_uncertainty(X[200:], verbose=0)
    error = Y[200:] - answer["mean"][:, 0]
    assert np.sqrt(np.mean(error**2)) < 30
    assert np.mean(answer["aleatoric_std"]) == pytest.approx(25, rel=0.2)
    # The density of y itself, not that of its standard units.
    logs = trained.evaluate(X[200:], Y[200:], verbose=0, return_dict=True)
    std = answer["std"][:, 0].astype("float64")
    expected = 0.5 * (error / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)
    assert logs["predictive_nll"] == pytest.approx(expected.mean(), rel=0.01)


def test_what_is_served_has_the_unit_too(trained, tmp_path):
    path = trained.export(tmp_path, signatures="deterministic")
    served = tf.saved_model.load(path).signatures["deterministic"]
    answer = served(inputs=tf.constant(X))["mean"]
    expected = trained.predict(X, num_samples=0, verbose=0)
    np.testing.assert_allclose(answer, expected, rtol=1e-5)


def test_the_unit_is_saved(trained, tmp_path):
    trained.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    arguments = {"num_samples": 3, "seed": 1, "verbose": 0}
    np.testing.assert_array_equal(
        loaded.predict(X, **arguments), trained.predict(X, **arguments)
    )


@pytest.mark.slow
def test_the_unit_is_that_of_training_rows_alone():
    """Targets that are set aside, or have weight 0, may be anything."""
    y = np.where(np.arange(400) < 200, Y, 1e6)
    model = model_of(normalize_targets=True)
    model.fit(X, y, validation_split=0.5, verbose=0)
    weighted = model_of(normalize_targets=True)
    weighted.fit(X, y, sample_weight=np.arange(400) < 200, verbose=0)
    for found in (model, weighted):
        assert float(found.likelihood.loc[0]) == pytest.approx(Y[:200].mean(), rel=1e-4)


@pytest.mark.slow
def test_outputs_in_several_units(tmp_path):
    """Each of several outputs has its own unit; classes have none."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    names = {"weight": 1, "kind": 2, "height": 1}
    outputs = {name: WeightNormDense(n, name=name)(inputs) for name, n in names.items()}
    model = bayesian(
        keras.Model(inputs, outputs),
        hypernet=MeanField(0.01),
        likelihood={
            "weight": Gaussian(trainable=True),
            "kind": "categorical",
            "height": StudentT(trainable=True),
        },
        normalize_targets=True,
        num_examples=400,
    )
    model.compile(keras.optimizers.Adam(0.05), jit_compile=False)
    y = {"weight": Y, "kind": (Y > 150).astype(int), "height": 1e4 + 1e3 * X[:, 2]}
    with pytest.raises(ValueError, match=r"units.*`model.likelihood.parts`"):
        model.evaluate(X, y, verbose=0)
    model.fit(X, y, epochs=15, verbose=0)
    options = {"num_samples": 4, "seed": 1, "verbose": 0}
    mean = model.predict(X, **options)
    assert np.abs(mean["weight"][:, 0] - Y).mean() < 30
    assert np.abs(mean["height"][:, 0] - y["height"]).mean() < 300
    np.testing.assert_allclose(mean["kind"].sum(axis=1), 1, rtol=1e-5)
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    served = tf.saved_model.load(loaded.export(tmp_path / "served"))
    centre = served.signatures["deterministic"](inputs=tf.constant(X))
    expected = model.predict(X, num_samples=0, verbose=0)
    for name, values in loaded.predict(X, **options).items():
        np.testing.assert_array_equal(values, mean[name])
        np.testing.assert_allclose(centre[f"{name}_mean"], expected[name], rtol=1e-4)


@pytest.mark.slow
def test_rows_with_unknown_inputs_answer_nan():
    keras.utils.set_random_seed(0)
    network = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="tanh"),
            WeightNormDense(1),
        ]
    )
    model = bayesian(network, hypernet=MeanField(), likelihood="gaussian")
    x = X[:4].copy()
    x[0, 1], x[1, 0], x[2, 2] = np.nan, np.inf, -np.inf
    scores = model.predict_uncertainty(x, verbose=0)
    for answer in (
        model.predict(x, verbose=0),
        model.predict_on_batch(x),
        *scores.values(),
        *model.predict_interval(x, verbose=0),
    ):
        np.testing.assert_array_equal(np.isnan(answer[:, 0]), [True, True, True, False])
