"""Priors other than the Gaussian, and the bound by which hypernets are compared."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf
from bhn_tf import priors

tfd = tfp.distributions
tfb = tfp.bijectors

MIXTURE = tfd.MixtureSameFamily(
    tfd.Categorical(probs=[0.25, 0.75]), tfd.Normal([0.0, 0.0], [1.0, 0.1])
)


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 3)).astype("float32")
    return x, (x[:, 0] > 0).astype("int32")


def make_model(random="scale", **kwargs):
    network = keras.Sequential(
        [
            keras.layers.Input((3,)),
            bhn_tf.layers.WeightNormDense(4, activation="relu", random=random),
            bhn_tf.layers.WeightNormDense(2),
        ]
    )
    return bhn_tf.BayesianHypernet(network, bhn_tf.hypernets.RealNVP(2, (4,)), **kwargs)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({}, tfd.Normal(tf.zeros(6), 1.0)),
        ({"prior_loc": 1.0, "prior_stddev": 2.0}, tfd.Normal(tf.ones(6), 2.0)),
        # Four scales of outputs, three of inputs, and two of outputs.
        (
            {"prior_loc": "unit_inputs", "random": "rank_one", "prior_stddev": 0.5},
            tfd.Normal([0.0] * 4 + [1.0] * 3 + [0.0] * 2, 0.5),
        ),
        ({"prior_loc": "unit_inputs"}, tfd.Normal(tf.zeros(6), 1.0)),
        ({"prior_loc": np.arange(6.0)}, tfd.Normal(tf.range(6.0), 1.0)),
        ({"prior": tfd.Laplace(0.0, 0.5)}, tfd.Laplace(tf.zeros(6), 0.5)),
        # NumPy's numbers make distributions of float64.
        ({"prior": tfd.Laplace(0.0, np.float64(0.5))}, tfd.Laplace(tf.zeros(6), 0.5)),
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


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "kwargs",
    [
        {"prior_loc": "trained", "prior_stddev": 0.2},
        {"prior": priors.Trained(relative_stddev=0.2)},
    ],
)
def test_a_prior_around_what_is_trained(data, kwargs, tmp_path):
    layer = {"random": "scale_and_bias"}
    network = keras.Sequential(
        [
            keras.layers.Input((3,)),
            bhn_tf.layers.WeightNormDense(4, activation="relu", **layer),
            bhn_tf.layers.WeightNormDense(2, **layer),
        ]
    )
    network.layers[0].scale.assign([1.0, -2.0, 0.0, 0.5])
    network.layers[0].bias.assign([0.0, 0.0, 0.0, 4.0])
    network.layers[1].scale.assign([3.0, 4.0])
    model = bhn_tf.BayesianHypernet(network, "mean_field", num_examples=50, **kwargs)
    assert model.prior_loc == kwargs.get("prior_loc")
    loc = np.array([1.0, -2.0, 0.0, 0.5, 0.0, 0.0, 0.0, 4.0, 3.0, 4.0, 0.0, 0.0])
    magnitude = np.abs(loc)
    magnitude[2] = 0.1 * np.sqrt(np.mean(loc[:4] ** 2))
    magnitude[4:7] = 0.1 * 2.0
    magnitude[10:] = 1.0
    expected = tfd.Normal(loc.astype("float32"), 0.2 * magnitude.astype("float32"))
    g = model.sample_scales(3, seed=1)
    expected = tf.reduce_sum(expected.log_prob(g), axis=1)
    np.testing.assert_allclose(model.prior.log_prob(g), expected, rtol=1e-5)
    # It stays there while the posterior moves, and where the file is loaded.
    model.compile(keras.optimizers.SGD(0.1))
    kl = model.evaluate(*data, verbose=0, seed=3, return_dict=True)["kl"]
    model.fit(*data, epochs=2, verbose=0)
    np.testing.assert_allclose(model.prior.log_prob(g), expected, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.prior.log_prob(g), model.prior.log_prob(g))
    for each in (model, loaded):
        again = each.evaluate(*data, verbose=0, seed=3, return_dict=True)["kl"]
        assert abs(again - kl) > 1e-3
    loaded.fit(*data, verbose=0)


def test_a_prior_of_another_size_is_refused():
    for options in (
        {"prior": tfd.Normal(tf.zeros(5), 1.0)},
        {"prior_loc": [0.0] * 5},
        {"prior_loc": np.zeros([6, 1])},
        {"prior_loc": np.zeros([1, 6])},
        {"prior_loc": [[0.0]]},
    ):
        with pytest.raises(ValueError, match="D = 6"):
            make_model(**options)
    for loc in (np.nan, "given"):
        with pytest.raises(ValueError, match="all finite, or one of .'trained'"):
            make_model(prior_loc=loc)
    for stddev in (None, [0.1], np.ones(6)):
        with pytest.raises(ValueError, match="`prior_stddev` to be a positive number"):
            make_model(prior_stddev=stddev)
    with pytest.raises(ValueError, match="`relative_stddev` to be a positive"):
        priors.Trained(0.0)


@pytest.mark.parametrize(
    "prior",
    [tfd.Poisson(3.0), tfd.Bernoulli([0.5] * 6), tfd.Deterministic(tf.zeros(6))],
    ids=lambda prior: type(prior).__name__,
)
def test_a_prior_without_a_density_is_refused(prior):
    with pytest.raises(ValueError, match="density over real numbers"):
        make_model(prior=prior)


@pytest.mark.parametrize("stddev", [-1.0, float("inf"), float("nan")])
def test_a_prior_whose_density_is_no_number_is_refused(stddev):
    with pytest.raises(ValueError, match="no finite density.*a scale has to be above"):
        make_model(prior=tfd.Normal(0.0, stddev))


@pytest.mark.parametrize(
    "prior",
    [
        tfd.Normal(0.0, 1e9),
        tfd.Cauchy(0.0, 1.0),
        MIXTURE,
        tfd.MultivariateNormalDiag(tf.zeros(6)),
        tfd.Mixture(
            tfd.Categorical(probs=[0.5, 0.5]),
            [tfd.Laplace(0.0, 1.0), tfd.Gamma(1.0, 1.0)],
        ),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_every_density_is_taken(prior):
    assert make_model(prior=prior).num_random == 6


POSITIVE = tfd.MixtureSameFamily(
    tfd.Categorical(probs=[0.5, 0.5]), tfd.LogNormal([0.0, 1.0], 1.0)
)


@pytest.mark.parametrize(
    "prior",
    [
        tfd.LogNormal(0.0, 1.0),
        tfd.HalfNormal(tf.ones(6)),
        tfd.Independent(tfd.Gamma(tf.ones(6), 1.0), 1),
        tfd.Sample(POSITIVE, 6),
        tfd.BatchReshape(tfd.Exponential(tf.ones([2, 3])), [6]),
        tfd.Uniform(-10.0, 10.0),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_a_prior_over_a_part_of_the_numbers_is_refused(prior):
    """The posterior has a density everywhere, so that the KL is infinite."""
    with pytest.raises(ValueError, match=r"has a density from .* to .* alone.*`tfd\."):
        make_model(prior=prior)


def test_a_file_with_such_a_prior_is_loaded_with_a_warning(tmp_path, monkeypatch, data):
    """Earlier versions trained it, and it answers whatever the prior is."""
    path, prior = tmp_path / "model.keras", tfd.Gamma(2.0, 1.0)
    with monkeypatch.context() as patched:
        patched.setattr(priors, "require_all_numbers", lambda *args: None)
        model = make_model(prior=prior)
        model.save(path)
    with pytest.warns(UserWarning, match=r"Gamma.*has a density from 0 to inf alone"):
        loaded = keras.saving.load_model(path)
    found, expected = (
        each.predict(data[0], num_samples=2, seed=1, verbose=0)
        for each in (loaded, model)
    )
    np.testing.assert_array_equal(found, expected)
    g = np.full([1, 6], 2.0, "float32")
    np.testing.assert_allclose(loaded.prior.log_prob(g), 6 * prior.log_prob(2.0))


def test_a_prior_over_one_number_is_not_drawn_for_every_value(monkeypatch):
    """Draws of all values of a large network would fill the memory."""
    asked = []
    monkeypatch.setattr(priors, "require_density", asked.append)
    make_model(prior=tfd.Laplace(0.0, 1.0))
    assert [list(prior.sample(20).shape) for prior in asked] == [[20]]


def test_several_widths_are_given_as_the_error_says():
    stddevs = np.arange(1, 7, dtype="float32")
    with pytest.raises(ValueError, match=r"give `prior=tfd.Normal\(0.0, stddevs\)`"):
        make_model(prior_stddev=stddevs)
    prior = make_model(prior=tfd.Normal(0.0, stddevs)).prior
    np.testing.assert_allclose(prior.stddev(), stddevs, rtol=1e-6)


@pytest.mark.parametrize("seed", [1.5, 1.0, True, "1", -1, 2**31])
def test_a_seed_is_an_integer(seed):
    with pytest.raises(ValueError, match="`seed` to be an integer from 0"):
        make_model(seed=seed)
    assert json.dumps(make_model(seed=np.int64(3)).get_config()["seed"]) == "3"


def test_what_is_of_the_gaussian_is_refused_beside_another_prior():
    laplace = tfd.Laplace(0.0, 1.0)
    for options in (
        {"prior_stddev": 0.01},
        {"prior_loc": 5.0},
        {"prior_loc": "trained"},
    ):
        with pytest.raises(ValueError, match="Leave one of them out"):
            make_model(prior=laplace, **options)
    # Older files, in which it was ignored, load.
    config = {**make_model(prior=laplace).get_config(), "prior_stddev": 0.01}
    loaded = bhn_tf.BayesianHypernet.from_config(config)
    np.testing.assert_allclose(loaded.prior.stddev(), laplace.stddev(), rtol=1e-6)


@pytest.mark.slow
def test_the_bound_is_that_of_evaluate(data):
    model = make_model()
    model.compile("adam")
    model.fit(*data, epochs=2, verbose=0)
    bound = model.elbo(*data, num_samples=40, batch_size=7, seed=2)
    logs = model.evaluate(*data, verbose=0, num_samples=40, seed=2, return_dict=True)
    np.testing.assert_allclose(bound.mean, -50 * logs["nll"] - logs["kl"], rtol=1e-5)
    again = [model.elbo(*data, num_samples=40).mean for _ in range(20)]
    np.testing.assert_allclose(np.std(again), bound.standard_error, rtol=0.6)


# -- what a file can hold ----------------------------------------------------------

SAVED = [
    tfd.Laplace(0.0, np.float32(0.5)),
    tfd.Normal(tf.zeros(3), np.ones(3, "float32")),
    tfd.Independent(tfd.StudentT(3.0, [0.0, 0.5], 1.0), 1),
    MIXTURE,
    tfd.Mixture(
        tfd.Categorical(probs=[0.5, 0.5]), [tfd.Normal(0.0, 1.0), tfd.Normal(0.0, 0.1)]
    ),
    tfd.MultivariateNormalTriL(tf.zeros(2), tf.constant([[1.0, 0.0], [0.5, 2.0]])),
]


@pytest.mark.parametrize("prior", SAVED, ids=lambda prior: type(prior).__name__)
def test_a_prior_survives_json(prior):
    again = priors.deserialize(json.loads(json.dumps(priors.serialize(prior))))
    assert type(again) is type(prior)
    points = tf.random.stateless_normal(
        [5, *prior.batch_shape, *prior.event_shape], [1, 2]
    )
    np.testing.assert_allclose(
        again.log_prob(points), prior.log_prob(points), rtol=1e-6
    )


class Spike(tfd.Normal):
    """A class that no file knows."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spike(0.0, 1.0), r"Spike is no such class.*tfd\.Laplace"),
        (
            lambda: type("Normal", (tfd.Laplace,), {})(0.0, 1.0),
            "Normal is no such class",
        ),
        (
            lambda: tfd.Normal(tf.Variable(0.0), 1.0),
            r"Normal\(loc=.*got ResourceVariable",
        ),
        (
            lambda: tfd.Normal(0.0, tfp.util.TransformedVariable(1.0, tfb.Exp())),
            r"Normal\(scale=.*got TransformedVariable",
        ),
        (
            lambda: tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Exp()),
            r"bijector=.*got Exp.*tfd\.LogNormal",
        ),
        (
            lambda: tfd.Independent(tfd.Sample(Spike(0.0, 1.0), 2), 0),
            "Spike is no such class",
        ),
        (
            lambda: tfd.Mixture(
                tfd.Categorical(probs=[0.5, 0.5]),
                [tfd.Normal(0.0, 1.0), Spike(0.0, 0.1)],
            ),
            "Spike is no such class",
        ),
    ],
    ids=[
        "own_class",
        "namesake",
        "variable",
        "transformed_variable",
        "bijector",
        "inside",
        "in_a_list",
    ],
)
def test_a_prior_that_no_file_can_hold_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        priors.serialize(make())
