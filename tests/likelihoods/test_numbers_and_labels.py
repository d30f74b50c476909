"""A likelihood's own numbers, and the labels that it takes."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from bhn_tf import likelihoods
from tests.likelihoods.families import CENSORED, FAMILIES

ALL = FAMILIES | CENSORED


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (likelihoods.StudentT, {"df": 2.0}),
        (likelihoods.StudentT, {"scale": 0.0}),
        # In float32 they are 2, 0 and infinite.
        (likelihoods.StudentT, {"df": 2.0000001}),
        (likelihoods.Gaussian, {"stddev": 1e-50}),
        (likelihoods.LogNormal, {"stddev": 1e39}),
        (likelihoods.Laplace, {"scale": float("nan")}),
        (likelihoods.LogNormal, {"stddev": -1.0}),
        (likelihoods.NegativeBinomial, {"dispersion": 0.0}),
        (likelihoods.ZeroInflatedPoisson, {"zero_share": 1.0}),
        (likelihoods.Beta, {"concentration": float("inf")}),
        (likelihoods.Mixture, {"num_components": 0}),
        (likelihoods.Mixture, {"stddev": 0.0}),
        (likelihoods.Gaussian, {"stddev": [0.1, 0.5]}),
        (likelihoods.Gaussian, {"stddev": np.array([0.1, 0.5])}),
        (likelihoods.Gaussian, {"stddev": "0.1"}),
        (likelihoods.Gaussian, {"stddev": None}),
        (likelihoods.Gaussian, {"stddev": True}),
        (likelihoods.Bernoulli, {"from_logits": True, "clip": 0.001}),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(make, wrong):
    name = list(wrong)[-1]
    with pytest.raises(ValueError, match=f"`{name}` to be (a|two)"):
        make(**wrong)


@pytest.mark.parametrize(
    "make", [likelihoods.Laplace, likelihoods.NegativeBinomial, likelihoods.Mixture]
)
def test_noise_is_either_learned_or_given_by_the_network(make):
    with pytest.raises(ValueError, match="choose one of them"):
        make(trainable=True, heteroscedastic=True)


def test_degrees_of_freedom_are_learned_beside_a_scale_of_the_network():
    likelihood = likelihoods.StudentT(trainable=True, heteroscedastic=True)
    assert likelihood.trainable_variables == [likelihood.log_df]


def test_a_poisson_has_nothing_to_vary():
    with pytest.raises(ValueError, match="leave `heteroscedastic` out"):
        likelihoods.Poisson(heteroscedastic=True)


def test_numbers_of_numpy_are_numbers():
    """Numbers from counting and averaging labels, which JSON cannot hold."""
    for likelihood in (
        likelihoods.Gaussian(np.float32(0.5)),
        likelihoods.StudentT(np.int64(4)),
        likelihoods.Mixture(np.int64(3), np.array(2.0)),
        likelihoods.Ordinal(np.int64(4)),
    ):
        json.dumps(likelihood.get_config())


@pytest.mark.parametrize(
    "make",
    [
        likelihoods.Laplace,
        likelihoods.StudentT,
        likelihoods.Gaussian,
        likelihoods.Mixture,
        lambda: likelihoods.Mixture(5),
    ],
)
def test_noise_of_any_family_is_set_as_a_standard_deviation(make):
    likelihood = make()
    likelihood.set_stddev(7.0)
    std = likelihood.summarize(np.zeros((1, 1, 1), "float32"))["std"]
    np.testing.assert_allclose(std, [[7.0]], rtol=1e-5)
    np.testing.assert_allclose(
        make().summarize(np.zeros((1, 1, 1), "float32"))["std"],
        [[make().stddev]],
        rtol=1e-5,
    )


def test_the_standard_deviation_of_a_learned_mixture_is_that_of_its_noise():
    likelihood = likelihoods.Mixture(2, trainable=True)
    likelihood.logits.assign([1.0, -0.5])
    likelihood.offsets.assign([-3.0, 2.0])
    likelihood.log_ratios.assign([0.5, -1.0])
    zeros = np.zeros((1, 1, 1), "float32")
    std = likelihood.summarize(zeros)["std"]
    np.testing.assert_allclose(std, [[likelihood.stddev]], rtol=1e-5)
    likelihood.set_stddev(7.0)
    np.testing.assert_allclose(likelihood.summarize(zeros)["std"], [[7.0]], rtol=1e-5)


@pytest.mark.slow
def test_a_spread_beyond_all_numbers_is_infinite():
    student = likelihoods.StudentT(trainable=True)
    student.log_df.assign(-17.0)
    assert student.stddev == np.inf
    zeros = np.zeros((3, 2, 1), "float32")
    np.testing.assert_allclose(
        student.interval(zeros, 0.9)[1],
        np.full((2, 1), stats.t(2).ppf(0.95)),
        rtol=1e-4,
    )
    # The last one's mean is finite, but its square is not.
    for likelihood in (
        likelihoods.LogNormal(stddev=14.0),
        likelihoods.CensoredWeibull(concentration=0.01),
        likelihoods.CensoredWeibull(concentration=0.04),
    ):
        summary = likelihood.summarize(zeros)
        assert np.all(summary["std"] == np.inf) and not np.isnan(summary["mean"]).any()
        assert not np.isnan(summary["epistemic_std"]).any()
        assert not np.isnan(likelihood.interval(zeros, 0.9)).any()


@pytest.mark.slow
def test_numbers_are_learned_by_maximum_likelihood():
    y = stats.nbinom.rvs(1 / 0.7, 1 / (1 + 0.7 * 5), size=(2000, 1), random_state=0)
    likelihood = likelihoods.NegativeBinomial(trainable=True)
    raw = np.full(y.shape, np.log(y.mean()), "float32")
    optimizer = keras.optimizers.Adam(0.05)
    for _ in range(150):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(likelihood.log_prob(y, raw))
        gradients = tape.gradient(loss, likelihood.trainable_variables)
        optimizer.apply(gradients, likelihood.trainable_variables)
    # At the maximum the slope is 0, and the dispersion is near that of the sample.
    assert abs(float(gradients[0])) < 1e-3
    np.testing.assert_allclose(
        likelihood.number("dispersion", "float32"), 0.7, rtol=0.1
    )


# -- labels ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("poisson", [-1.0]),
        ("poisson", [0.5]),
        ("negative_binomial", [np.inf]),
        ("log_normal", [0.0]),
        ("beta", [1.0]),
        ("laplace", [np.nan]),
        ("weibull", [[0.0, 1.0]]),
        ("weibull", [[1.0, 0.5]]),
        ("censored_log_normal", [[np.nan, 1.0]]),
    ],
)
def test_impossible_labels_are_refused(name, bad):
    with pytest.raises(ValueError, match="do not fit: give "):
        ALL[name].make().check_labels(np.array(bad), (None, 1))


def test_waiting_times_need_their_event():
    with pytest.raises(ValueError, match=r"\[time, event\]"):
        likelihoods.CensoredWeibull().check_labels(np.ones((3, 1)), (None, 1))
    both = np.array([[1.0, 1.0], [2.0, 0.0]])
    likelihoods.CensoredWeibull().check_labels(both, (None, 1))
    likelihoods.CensoredWeibull().check_labels(both[:, None], (None, 1))


def test_a_whole_mixture_from_the_network_has_to_be_asked_for():
    likelihood = likelihoods.Mixture(2)
    with pytest.raises(ValueError, match=r"say `Mixture\(..., heteroscedastic=True"):
        likelihood.check_labels(np.ones((3, 1)), (None, 6))
