"""`bhn_tf.diagnose` finds faults in models spoiled on purpose, none in others."""

import contextlib
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf
from bhn_tf.diagnosis import (
    averaging,
    layer_posteriors,
    monte_carlo,
    reliability,
)
from bhn_tf.diagnosis.measured_rows import MeasuredRows, num_elements
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Gaussian
from tests import networks
from tests.integration import every_option

NUM_TRAIN = 400


def rows(num_rows, seed):
    """Inputs, classes that are not certain, and numbers with noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(num_rows, 4)).astype("float32")
    logits = np.stack([2 * x[:, 0], 2 * x[:, 0] * x[:, 1], 2 * x[:, 2]], axis=1)
    classes = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    noise = 0.3 * random.normal(size=num_rows)
    return x, classes, (x[:, 0] + np.abs(x[:, 1]) + noise).astype("float32")[:, None]


X, CLASSES, TARGETS = rows(NUM_TRAIN, seed=0)
X_TEST, CLASSES_TEST, TARGETS_TEST = rows(1000, seed=1)


def primary(num_outputs):
    return keras.Sequential(
        [
            keras.Input((4,)),
            WeightNormDense(8, activation="relu", name="first"),
            WeightNormDense(num_outputs, name="last"),
        ]
    )


def trained(model, y):
    optimizer = keras.optimizers.Adam(0.02)
    networks.compiled(model, optimizer, train_samples=4)
    model.fit(X, y, epochs=60, batch_size=50, verbose=0)
    return model


@pytest.fixture(scope="module")
def classifier():
    keras.utils.set_random_seed(1)
    flow = bhn_tf.hypernets.RealNVP(2, (16,))
    model = bhn_tf.BayesianHypernet(primary(3), flow, seed=1)
    initial = [np.array(v) for step in flow.flow_steps for v in step.get_weights()]
    return trained(model, CLASSES), initial


@pytest.fixture(scope="module")
def regression():
    keras.utils.set_random_seed(2)
    likelihood = Gaussian(0.5, trainable=True)
    model = bhn_tf.BayesianHypernet(primary(1), "mean_field", likelihood, seed=1)
    return trained(model, TARGETS)


@contextlib.contextmanager
def spoiled(model):
    """Gives back the weights as they were."""
    weights = model.get_weights()
    try:
        yield model.hypernet.affine
    finally:
        model.set_weights(weights)


def diagnose(model, y, **kwargs):
    found = bhn_tf.diagnose(model, X_TEST, y, **{"num_samples": 100, **kwargs})
    return found, {(each.name, each.layer) for each in found.findings}


def set_stddevs(affine, stddev, layer=slice(None)):
    log_stddev = affine.log_stddev.numpy()
    log_stddev[layer] = np.log(stddev)
    affine.log_stddev.assign(log_stddev)


@pytest.mark.slow
def test_a_healthy_classifier(classifier):
    model, _ = classifier
    found, names = diagnose(model, CLASSES_TEST)
    assert names == set()
    assert [layer.num_values for layer in found.layers] == [8, 3]
    assert all(1 / 2 < layer.width.value < 2 for layer in found.layers)
    measured = found.measurements
    probabilities = model.predict(X_TEST, num_samples=100, seed=0, verbose=0)
    nll = bhn_tf.metrics.NegativeLogLikelihood()(CLASSES_TEST, probabilities)
    assert measured["nll"].value == pytest.approx(float(nll), rel=1e-4)
    ece = bhn_tf.metrics.ExpectedCalibrationError()
    assert measured["ece"] == pytest.approx(
        float(ece(CLASSES_TEST, probabilities)), abs=1e-5
    )
    centre = model.predict(X_TEST, num_samples=0, verbose=0)
    right, of_centre = (
        p.argmax(axis=1) == CLASSES_TEST for p in (probabilities, centre)
    )
    assert measured["gain_of_accuracy"].value == pytest.approx(
        right.mean() - of_centre.mean()
    )
    kl = model.evaluate(
        X_TEST, CLASSES_TEST, num_samples=1000, verbose=0, return_dict=True
    )["kl"]
    assert measured["kl"].value == pytest.approx(kl, rel=0.03)
    text = str(found)
    assert "No findings." in text and "first" in text
    assert json.loads(json.dumps(found.to_dict()))["num_samples"] == 100
    assert len(found.plot().axes) == 2


@pytest.mark.slow
def test_what_json_does_not_have_is_none(regression):
    found = bhn_tf.diagnose(regression, X_TEST[:1], TARGETS_TEST[:1], num_samples=4)
    report = found.to_dict()
    json.dumps(report, allow_nan=False)
    estimates = [
        value for value in report["measurements"].values() if type(value) is dict
    ]
    assert any(estimate["low"] is None for estimate in estimates)


def test_a_healthy_regression(regression):
    found, names = diagnose(regression, TARGETS_TEST)
    assert names == set()
    assert "total_correlation" not in found.measurements
    lower, upper = regression.predict_interval(
        X_TEST, 0.9, num_samples=100, seed=0, verbose=0
    )
    coverage = bhn_tf.metrics.coverage(TARGETS_TEST, lower, upper)
    assert found.measurements["coverage"].value == pytest.approx(coverage)


@pytest.mark.slow
def test_collapsed(regression):
    with spoiled(regression) as affine:
        set_stddevs(affine, 1.0, slice(0, 8))
        mean = affine.mean.numpy()
        mean[:8] = 0.0
        affine.mean.assign(mean)
        found, names = diagnose(regression, TARGETS_TEST)
    first, last = (layer.name for layer in found.layers)
    assert ("collapsed", first) in names and ("collapsed", last) not in names
    assert "KLAnnealing" in str(found)


def test_a_loaded_model_is_found_to_be_the_same(classifier, tmp_path):
    model, _ = classifier
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    reports = [diagnose(each, CLASSES_TEST)[0].to_dict() for each in (model, loaded)]
    assert reports[0] == reports[1]


def test_too_sure(classifier):
    model, _ = classifier
    with spoiled(model) as affine:
        set_stddevs(affine, 1e-3, slice(8, 11))
        found, names = diagnose(model, CLASSES_TEST)
    assert ("too_sure", found.layers[1].name) in names
    assert ("too_sure", found.layers[0].name) not in names


@pytest.mark.slow
def test_too_wide_and_too_few_draws(classifier):
    model, _ = classifier
    with spoiled(model) as affine:
        set_stddevs(affine, 8.0)
        found, names = diagnose(model, CLASSES_TEST, num_samples=10)
    assert ("too_wide", found.layers[0].name) in names
    assert ("few_samples", None) in names
    needed = found.measurements["monte_carlo_num_samples_needed"]
    assert needed > 10
    (few,) = [each for each in found.findings if each.name == "few_samples"]
    assert few.value == needed and f"num_samples={needed}" in few.mend


def test_the_nll_of_many_elements_may_be_as_inexact_as_their_rows():
    """A sum over 12 outputs, whose draws differ in all of them alike."""
    random = np.random.default_rng(0)
    alike = random.normal(size=(500, 32))
    log_probs = 3 * random.normal(size=(500, 1)) + alike

    def needed(num_elements, log_probs=log_probs):
        measured = MeasuredRows(
            log_probs, None, None, None, None, log_probs[:, :1], None, num_elements
        )
        return monte_carlo.monte_carlo(measured, classifies=False).num_samples_needed

    alone = needed(1)
    assert alone > 20 and needed(3) == pytest.approx(alone / 3, abs=1)
    # The rows' own error, 3 / √500 = 0.13 nats.
    assert 1 < needed(12) == needed(1000) <= needed(6) < needed(3)
    # Rows that are all alike say exactly what their NLL is.
    assert needed(1000, alike - alike.mean(axis=1, keepdims=True)) > 0.4 * alone


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("several outputs, loss_weights", 2),
        ("categorical ignore_class, iaf, three draws a batch", 2),
        ("categorical clip and mean, realnvp", 1),
        ("standardized", 1),
    ],
)
def test_elements_are_those_that_are_summed(name, expected):
    model, x, y = every_option.made(name)
    model(x)
    assert num_elements(model, tf.nest.map_structure(tf.constant, y)) == expected


@pytest.mark.slow
def test_another_n(classifier):
    model, _ = classifier
    assert model.objective.examples.counted == NUM_TRAIN
    _, names = diagnose(model, CLASSES_TEST, num_train=NUM_TRAIN // 4)
    assert names == {("num_examples", None)}
    try:
        model.num_examples = 100 * NUM_TRAIN
        model.kl_weight = 0.5
        model.objective.loss_weights = [50.0]
        found, names = diagnose(model, CLASSES_TEST)
    finally:
        model.num_examples, model.kl_weight = NUM_TRAIN, 1.0
        model.objective.loss_weights = [1.0]
    assert {("num_examples", None), ("kl_weight", None)} <= names
    assert ("loss_weights", None) in names
    # With so many examples the bound would require a tenth of the width.
    assert found.layers[1].width.value > 5
    assert found.findings[-1].severity == "note"


def test_what_fit_has_counted_is_saved(classifier, tmp_path):
    model, _ = classifier
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.objective.examples.counted == NUM_TRAIN


def test_a_flow_at_the_identity(classifier):
    model, initial = classifier
    with spoiled(model):
        for step in model.hypernet.flow_steps:
            count = len(step.weights)
            step.set_weights(initial[:count])
            initial = initial[count:]
        found, names = diagnose(model, CLASSES_TEST)
    assert ("idle_flow", None) in names
    assert abs(found.measurements["total_correlation"].value) < 0.1


@pytest.mark.slow
def test_probabilities_and_intervals_that_do_not_hold(classifier, regression):
    model, _ = classifier
    with spoiled(model) as affine:
        mean = affine.mean.numpy()
        mean[8:] *= 8
        affine.mean.assign(mean)
        found, names = diagnose(model, CLASSES_TEST)
    assert ("miscalibrated", None) in names
    assert "is overconfident" in str(found)
    with spoiled(regression):
        regression.likelihood.set_stddev(0.1)
        found, names = diagnose(regression, TARGETS_TEST)
    assert ("miscalibrated", None) in names
    assert "they are too narrow" in str(found)


def test_ordered_classes_that_are_too_sure():
    network = keras.Sequential(
        [keras.Input((4,)), WeightNormDense(1), keras.layers.Rescaling(30.0)]
    )
    likelihood = bhn_tf.likelihoods.Ordinal(3)
    model = bhn_tf.BayesianHypernet(
        network, "mean_field", likelihood, num_examples=NUM_TRAIN, seed=1
    )
    one_hot = np.eye(3)[CLASSES_TEST]
    for y in (CLASSES_TEST, CLASSES_TEST[:, None], one_hot):
        found, names = diagnose(model, y, num_samples=8)
        assert ("miscalibrated", None) in names
        assert "is overconfident" in str(found)
    p = model.predict(X_TEST, num_samples=8, seed=0, verbose=0)
    ece = bhn_tf.metrics.ExpectedCalibrationError()
    assert found.measurements["ece"] == pytest.approx(
        float(ece(CLASSES_TEST, p)), abs=1e-5
    )
    assert {"gain_of_accuracy", "gain_of_ece"} <= set(found.measurements)


@keras.saving.register_keras_serializable("tests_of_diagnose")
def between(raw):
    return tfp.distributions.Uniform(raw - 1.0, raw + 1.0)


def of_rows(log_probs, reference, targets=None, bounds=None):
    return MeasuredRows(log_probs, None, None, bounds, targets, reference, None)


@pytest.mark.parametrize("is_discrete", [False, True])
def test_intervals_that_hold_too_much(is_discrete):
    targets = np.random.default_rng(0).normal(size=(1000, 2))
    wide = of_rows(None, None, targets, (np.full_like(targets, -9), targets + 1))
    measured, found = reliability.coverage(wide, 0.9, is_discrete)
    assert measured["coverage"].value == 1
    # Intervals of whole numbers cannot be narrower.
    assert [each.name for each in found] == ["miscalibrated"] * (not is_discrete)


def test_an_average_that_is_worse_than_the_centre():
    random = np.random.default_rng(0)
    centre = random.normal(size=(500, 1)) - 1
    for loss, names in ((0.2, ["averaging_hurts"]), (-0.2, []), (0.001, [])):
        log_probs = centre - loss + 0.05 * random.normal(size=(500, 30))
        gained = averaging.gains(of_rows(log_probs, centre), False, 0)
        assert gained["nll"].low < -loss + 0.0025 < gained["nll"].high + 0.0025
        found = averaging.findings(gained)
        assert [each.name for each in found] == names
        # Remedies are for every model that can be diagnosed.
        assert all("a hypernet, a lower rate of dropout" in each.mend for each in found)


def test_labels_that_no_draw_holds_to_be_possible_are_counted():
    log_probs = np.random.default_rng(0).normal(size=(20, 8))
    log_probs[:3] = -np.inf
    are_possible, found = averaging.possible_labels(log_probs.max(axis=1))
    assert [(each.name, each.value) for each in found] == [("impossible_labels", 3)]
    some = of_rows(log_probs, log_probs[:, :1]).where(are_possible)
    assert np.isfinite(averaging.gains(some, False, 0)["nll"]).all()
    assert np.isfinite(monte_carlo.monte_carlo(some, False).nll_error)
    with pytest.raises(ValueError, match="All 3 labels have probability 0"):
        averaging.possible_labels(np.full(3, -np.inf))


@pytest.mark.slow
def test_a_posterior_is_diagnosed_beside_an_impossible_label():
    network = keras.Sequential([keras.Input((4,)), WeightNormDense(1)])
    likelihood = bhn_tf.likelihoods.Distribution(between)
    model = bhn_tf.BayesianHypernet(network, "mean_field", likelihood, num_examples=30)
    networks.compiled(model)
    y = np.zeros((30, 1), "float32")
    y[0] = 50.0
    found = bhn_tf.diagnose(model, 0 * X[:30], y, num_samples=4)
    assert "impossible_labels" in {each.name for each in found.findings}
    assert "averaging_hurts" not in {each.name for each in found.findings}
    assert found.measurements["nll"].value == np.inf
    assert np.isfinite(found.measurements["gain_of_nll"]).all()
    assert str(found) and found.plot()


# -- of other models ---------------------------------------------------------------


def plain(seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3),
        ]
    )


@pytest.mark.slow
def test_baselines():
    dropout = bhn_tf.baselines.MCDropout(plain(0))
    found, names = diagnose(dropout, CLASSES_TEST, num_samples=2)
    assert ("few_samples", None) in names
    assert not found.layers and len(found.plot().axes) == 1
    ensemble = bhn_tf.baselines.DeepEnsemble([plain(0), plain(1)])
    found, _ = diagnose(ensemble, CLASSES_TEST)
    assert found.num_samples == 2
    # Jensen's inequality: the average beats its members on average.
    assert found.measurements["gain_of_nll"].low > 0
    assert "monte_carlo_nll_error" not in found.measurements


CASES = [
    "several outputs, loss_weights",
    "categorical ignore_class, iaf, three draws a batch",
    "standardized",
    "prior_stddev learned_per_layer, per_example_noise",
]


def check_case(name):
    model, x, y = every_option.made(name)
    found = bhn_tf.diagnose(model, x, y, num_samples=3)
    values = np.hstack([value for value in found.measurements.values()])
    assert np.isfinite(values).all()
    assert sum(layer.num_values for layer in found.layers) == model.num_random
    assert str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_option(name):
    check_case(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(every_option.CASES.keys() - set(CASES)))
def test_every_option(name):
    check_case(name)


@keras.saving.register_keras_serializable("test_diagnose")
def without_cdf(raw):
    return tfp.distributions.NormalInverseGaussian(raw, 1.0, 2.0, 0.0)


def test_without_a_cdf_all_but_coverage_is_measured():
    likelihood = bhn_tf.likelihoods.Distribution(without_cdf)
    model = bhn_tf.BayesianHypernet(
        primary(1), "mean_field", likelihood, num_examples=NUM_TRAIN
    )
    found = bhn_tf.diagnose(model, X_TEST[:9], TARGETS_TEST[:9], num_samples=3)
    assert "coverage" not in found.measurements
    assert found.measurements["monte_carlo_mean_error"] > 0
    with pytest.raises(ValueError, match="mean, variance and CDF"):
        model.predict_interval(X_TEST[:9])


def test_what_there_is_nothing_to_diagnose_of():
    x, y = networks.data(8)
    unknown = networks.compiled(networks.bayesian())
    model = networks.compiled(networks.bayesian(num_examples=8))
    for given, error, message in (
        (plain(0), TypeError, r"got Sequential\. .*Deterministic"),
        (bhn_tf.baselines.Deterministic(plain(0)), ValueError, "is one network"),
        (bhn_tf.baselines.DeepEnsemble([plain(0)]), ValueError, "more members"),
        (networks.bayesian(networks.plain()), ValueError, "D = 0"),
        (unknown, ValueError, "N, the number of training examples, is not known"),
    ):
        with pytest.raises(error, match=message):
            bhn_tf.diagnose(given, x, y)
    for options, message in (
        ({"num_samples": 1}, "`num_samples`"),
        ({"level": 90}, "`level`"),
        ({"max_rows": 0}, "`max_rows`"),
    ):
        with pytest.raises(ValueError, match=message):
            bhn_tf.diagnose(model, x, y, **options)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    with pytest.raises(ValueError, match="as arrays"):
        bhn_tf.diagnose(model, dataset)
    with pytest.raises(ValueError, match="classes"):
        bhn_tf.diagnose(model, x, y + 7)


# -- the numbers -------------------------------------------------------------------


def test_monte_carlo_errors_are_those_of_repetitions():
    random = np.random.default_rng(0)

    def nll_and_errors(num_samples):
        shared = random.normal(size=(1, num_samples))
        own = random.normal(size=(50, num_samples))
        log_probs = -1 + 0.5 * shared + 0.5 * own
        measured = of_rows(log_probs, log_probs[:, :1])
        nll = -averaging.predictive_log_probs(measured).mean()
        return nll, monte_carlo.monte_carlo(measured, False)

    found = [nll_and_errors(40) for _ in range(400)]
    nlls = np.array([nll for nll, _ in found])
    error = np.mean([errors.nll_error for _, errors in found])
    assert error == pytest.approx(nlls.std(), rel=0.15)
    exact = 1 - (0.5**2 + 0.5**2) / 2
    bias = np.mean([errors.nll_bias for _, errors in found])
    assert bias == pytest.approx(nlls.mean() - exact, abs=3 * nlls.std() / 20)


def test_total_correlation_is_that_of_gaussians():
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    joint = tfp.distributions.MultivariateNormalTriL(
        np.zeros(2), np.linalg.cholesky(covariance)
    )
    draws = joint.sample(4000, seed=(1, 2))
    found = layer_posteriors.total_correlation(
        draws.numpy(), joint.log_prob(draws).numpy()
    )
    exact = -0.5 * np.log(np.linalg.det(covariance))
    assert found.value == pytest.approx(exact, abs=0.04)
    assert found.high - found.low < 0.05


def test_priors_without_moments():
    cauchy = tfp.distributions.Cauchy(0.0, 1.0)
    model = networks.bayesian(prior=cauchy, num_examples=8)
    draws, _ = layer_posteriors.draws_of(model, 0)
    relative = np.ones([2, 8])
    layers = layer_posteriors.layer_posteriors(model, draws, relative)
    for layer in layers:
        assert layer.prior_stddev == pytest.approx(1.8, rel=0.5)


def test_a_model_of_nan_is_not_diagnosed():
    model = networks.bayesian(hypernet="mean_field", num_examples=8)
    model.hypernet.affine.mean.assign(model.hypernet.affine.mean * np.nan)
    with pytest.raises(ValueError, match="answers to 8 of 8 rows are NaN"):
        bhn_tf.diagnose(model, *networks.data(8), num_samples=2)
