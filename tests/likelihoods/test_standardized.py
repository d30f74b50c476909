"""A network in standard units, with a likelihood in the units of the data."""

import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from bhn_tf.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Joint,
    Standardized,
    elements,
    standardized,
)

RNG = np.random.default_rng(0)
TARGETS = RNG.normal([150.0, -0.02], [70.0, 0.004], size=(50, 2))
LOC, SCALE = TARGETS.mean(axis=0), TARGETS.std(axis=0)
RAW = RNG.normal(size=(50, 2)).astype("float32")
RAWS = RNG.normal(size=(6, 5, 2)).astype("float32")


@pytest.fixture(scope="module")
def adapted():
    likelihood = Standardized(Gaussian(0.4))
    likelihood.adapt(TARGETS)
    return likelihood


def test_it_is_the_density_of_the_targets_themselves(adapted):
    expected = stats.norm.logpdf(TARGETS, LOC + SCALE * RAW, 0.4 * SCALE).sum(axis=1)
    for log_prob in (adapted.log_prob, adapted.measured_log_prob):
        # Terms near 5 may cancel; in float32, 1e-6 of them is left.
        result = log_prob(TARGETS, RAW)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_the_mean_of_reduction_is_taken_from_what_is_wrapped(adapted):
    likelihood = Standardized(Gaussian(0.4, reduction="mean"))
    likelihood.adapt(TARGETS)
    np.testing.assert_allclose(
        likelihood.log_prob(TARGETS, RAW), adapted.log_prob(TARGETS, RAW) / 2, rtol=1e-5
    )


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_predictions_are_in_the_units_of_the_targets(heteroscedastic):
    base = Gaussian(0.4, heteroscedastic=heteroscedastic)
    likelihood = Standardized(base)
    likelihood.adapt(TARGETS)
    raws = np.concatenate([RAWS, RAWS[::-1]], axis=-1) if heteroscedastic else RAWS
    np.testing.assert_allclose(
        likelihood.mean(raws[0]), LOC + SCALE * base.mean(raws[0]), rtol=1e-5
    )
    summary, expected = likelihood.summarize(raws), base.summarize(raws)
    assert set(summary) == set(expected)
    np.testing.assert_allclose(
        summary.pop("mean"), LOC + SCALE * expected["mean"], rtol=1e-5
    )
    for name in summary:
        np.testing.assert_allclose(summary[name], SCALE * expected[name], rtol=1e-5)
    for bound, of_base in zip(
        likelihood.interval(raws, 0.9), base.interval(raws, 0.9), strict=True
    ):
        np.testing.assert_allclose(bound, LOC + SCALE * of_base, rtol=1e-5)


def test_adapting_takes_what_weights_leave():
    y = np.concatenate([TARGETS, [[np.nan, 1e9]]])
    likelihood = Standardized(Gaussian())
    likelihood.adapt(y, weight=[1.0] * 50 + [0.0])
    np.testing.assert_allclose(likelihood.loc.numpy(), LOC, rtol=1e-5)
    np.testing.assert_allclose(likelihood.scale.numpy(), SCALE, rtol=1e-5)
    # A row of weight 2 equals two equal rows.
    likelihood.adapt(TARGETS, weight=[2.0] * 10 + [1.0] * 40)
    twice = np.concatenate([TARGETS[:10], TARGETS])
    np.testing.assert_allclose(likelihood.loc.numpy(), twice.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(likelihood.scale.numpy(), twice.std(axis=0), rtol=1e-5)


def test_columns_without_spread_keep_their_unit():
    likelihood = Standardized(Gaussian())
    missing = np.array([[1.0, 1.0, 0.0]] * 3)
    likelihood.adapt([[0.1, 1.0, 5.0], [0.1, 2.0, 6.0], [0.1, 3.0, np.nan]], missing)
    np.testing.assert_allclose(likelihood.loc.numpy(), [0.1, 2.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(
        likelihood.scale.numpy(), [1.0, np.sqrt(2 / 3), 1.0], rtol=1e-6
    )


@pytest.mark.parametrize("shape", [(50,), (50, 1), (10, 5), (10, 5, 1)])
def test_single_targets_may_lack_the_last_axis(shape):
    likelihood = Standardized(Gaussian(), num_outputs=1)
    likelihood.adapt(TARGETS[:, 0].reshape(shape))
    np.testing.assert_allclose(likelihood.loc.numpy(), LOC[:1], rtol=1e-5)
    np.testing.assert_allclose(likelihood.scale.numpy(), SCALE[:1], rtol=1e-5)


def test_targets_that_do_not_fit_are_refused():
    likelihood = Standardized(Gaussian(), num_outputs=3)
    with pytest.raises(ValueError, match="have 2 columns, and the likelihood has 3"):
        likelihood.adapt(TARGETS)
    with pytest.raises(ValueError, match="NaN or infinite"):
        likelihood.adapt([[np.nan, 0.0, 0.0]])
    assert not likelihood.is_adapted
    with pytest.raises(ValueError, match="2 outputs.*targets of 3 columns"):
        likelihood.build_for_outputs((None, 2))


@pytest.mark.parametrize(
    "likelihood", [Categorical(True), Bernoulli(True), Joint([Gaussian()]), "gaussian"]
)
def test_only_numbers_in_a_unit_can_be_standardised(likelihood):
    with pytest.raises(ValueError, match="real numbers in a unit, such as"):
        Standardized(likelihood)


def test_until_the_targets_are_known_it_says_so():
    with pytest.raises(ValueError, match="call `adapt\\(y\\)`"):
        Standardized(Gaussian()).mean(RAW)


@pytest.mark.parametrize("raw_shape", [(None, 4), [(None, 3), (None, 4)]])
def test_a_network_says_how_many_columns_there_are(raw_shape):
    likelihood = Standardized(Gaussian(heteroscedastic=True))
    whole = likelihood
    if isinstance(raw_shape, list):
        whole = Joint([Categorical(True), likelihood], ["a", "b"])
    whole.build_for_outputs(raw_shape)
    assert likelihood.num_outputs == 2 and not likelihood.is_adapted
    likelihood.adapt(TARGETS)
    assert likelihood.is_adapted


def test_standard_units_are_no_matter_of_training(adapted):
    likelihood = Standardized(Gaussian(trainable=True), num_outputs=2)
    for trainable in (False, True):
        likelihood.trainable = trainable
    assert likelihood.trainable_variables == [likelihood.likelihood.log_stddev]
    assert {v.name for v in adapted.weights} == {
        "loc",
        "scale",
        "was_adapted",
        "log_stddev",
    }


@pytest.mark.parametrize("jit", [False, True])
def test_graphs_follow_what_is_adapted_later(jit):
    likelihood = Standardized(Gaussian(), num_outputs=2)
    mean = tf.function(likelihood.mean, jit_compile=jit)
    np.testing.assert_allclose(mean(RAW), RAW)
    likelihood.adapt(TARGETS)
    np.testing.assert_allclose(mean(RAW), LOC + SCALE * RAW, rtol=1e-5)


# -- saving ------------------------------------------------------------------------


@keras.saving.register_keras_serializable("test_standardized")
class Regression(keras.Model):
    """Owns, builds and saves its likelihood, as a model does."""

    def __init__(self, likelihood, **kwargs):
        super().__init__(**kwargs)
        self.likelihood = likelihood
        self.dense = keras.layers.Dense(2)

    def build(self, shape):
        self.dense.build(shape)
        self.likelihood.build_for_outputs(self.dense.compute_output_shape(shape))

    def call(self, x):
        return self.likelihood.mean(self.dense(x))

    def get_config(self):
        likelihood = keras.saving.serialize_keras_object(self.likelihood)
        return {**super().get_config(), "likelihood": likelihood}

    @classmethod
    def from_config(cls, config):
        likelihood = keras.saving.deserialize_keras_object(config.pop("likelihood"))
        return cls(likelihood, **config)


@pytest.mark.parametrize("when", ["before", "after", "never"])
def test_a_saved_model_knows_the_units(when, tmp_path):
    model = Regression(Standardized(Gaussian(0.4, trainable=True)))
    if when == "before":
        model.likelihood.adapt(TARGETS)
    expected = model(RAW)
    if when == "after":
        model.likelihood.adapt(TARGETS)
        expected = model(RAW)
    model.likelihood.likelihood.set_stddev(0.3)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.likelihood.is_adapted == (when != "never")
    np.testing.assert_array_equal(loaded(RAW), expected)
    np.testing.assert_array_equal(
        loaded.likelihood.log_prob(TARGETS, RAW),
        model.likelihood.log_prob(TARGETS, RAW),
    )
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = Regression(Standardized(Gaussian(0.4, trainable=True)))
    fresh.build((None, 2))
    fresh.load_weights(tmp_path / "model.weights.h5")
    assert fresh.likelihood.is_adapted == (when != "never")
    np.testing.assert_array_equal(fresh(RAW), expected)


# -- the noise of a Gaussian -------------------------------------------------------


def test_noise_can_be_set_to_the_spread_of_the_data():
    likelihood = Gaussian(trainable=True)
    likelihood.set_stddev(70.0)
    summary = likelihood.summarize(RAWS)
    np.testing.assert_allclose(summary["aleatoric_std"], 70.0, rtol=1e-5)
    for value in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="`stddev` to be a positive number"):
            likelihood.set_stddev(value)
    np.testing.assert_allclose(np.exp(likelihood.log_stddev.numpy()), 70.0, rtol=1e-5)


@pytest.mark.parametrize("module", [standardized, elements])
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_targets_that_float32_hardly_tells_apart_are_refused():
    seconds = 1.7e9 + np.arange(60.0)
    likelihood = Standardized(Gaussian())
    with pytest.raises(ValueError, match="1700000000 to 1700000059.*steps of 128"):
        likelihood.adapt(seconds)
    # What varies by the rounding of float64 alone is constant.
    likelihood.adapt(np.array([0.3, 0.1 + 0.2]))
    # A target of weight 0 may be anything.
    likelihood = Standardized(Gaussian())
    likelihood.adapt(np.append(seconds - 1.7e9, 1e30), np.append(np.ones(60), 0.0))
    assert float(likelihood.loc[0]) == 29.5
