"""What `predict*` calls answer, and what they leave alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.models.draws import Draws
from bhn_tf.uncertainty import SCORES
from tests import networks


@pytest.fixture(scope="module")
def model():
    model = networks.compiled(networks.bayesian(seed=1))
    model.fit(*networks.data(65), verbose=0)
    return model


@pytest.fixture(scope="module")
def regression():
    primary = keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            WeightNormDense(5, activation="relu"),
            WeightNormDense(1),
        ]
    )
    likelihood = bhn_tf.likelihoods.Gaussian(stddev=0.5)
    return networks.compiled(
        bhn_tf.BayesianHypernet(primary, networks.realnvp(), likelihood)
    )


@pytest.mark.filterwarnings("ignore:.*have a `quantize` method")
def test_answers_are_those_of_the_quantised_network():
    dense = keras.layers.Dense(5, activation="tanh")
    network = keras.Sequential(
        [keras.Input((networks.NUM_FEATURES,)), dense, WeightNormDense(3)]
    )
    model, asked = networks.bayesian(network), {"num_samples": 2, "seed": 1}
    x, _ = networks.data(5)
    before = model.predict(x, verbose=0, **asked)
    with pytest.warns(UserWarning, match="WeightNormDense does not support quantis"):
        model.quantize("int8")
    assert dense.quantization_mode == "int8"
    found = model.predict(x, verbose=0, **asked)
    assert 0 < np.abs(found - before).max() < 0.1
    raw = [model(x, scales=scales) for scales in model.sample_scales(2, seed=1)]
    np.testing.assert_allclose(found, np.mean(tf.nn.softmax(raw), axis=0), rtol=1e-4)


CALLS = ["predict", "predict_samples", "predict_uncertainty"]


def leaves(answer):
    return answer.values() if isinstance(answer, dict) else [answer]


@pytest.mark.few(1)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("num_samples", [0, 1, 9])
def test_rows_keep_their_values(model, call, num_samples):
    """A row's answer depends neither on its neighbours nor on the batch size."""
    x, _ = networks.data(33)

    def answer(rows, batch_size):
        return getattr(model, call)(
            rows, batch_size, num_samples=num_samples, seed=4, verbose=0
        )

    expected = answer(x, 33)
    for num_rows in (1, 2, 31, 32, 33):
        for batch_size in (1, 7, 32, 10_000):
            if num_rows * num_samples / batch_size > 100:
                continue
            found = answer(x[:num_rows], batch_size)
            for value, wanted in zip(leaves(found), leaves(expected), strict=True):
                assert value.shape == (num_rows, *wanted.shape[1:])
                np.testing.assert_allclose(value, wanted[:num_rows], atol=1e-5)


@pytest.mark.parametrize("call", CALLS)
def test_many_rows(model, call):
    x, _ = networks.data(5_000)
    for num_samples in (0, 2):
        large, small = (
            getattr(model, call)(
                x, batch_size, num_samples=num_samples, seed=0, verbose=0
            )
            for batch_size in (10_000, 1_024)
        )
        for value, wanted in zip(leaves(large), leaves(small), strict=True):
            assert len(value) == 5_000
            np.testing.assert_allclose(value, wanted, atol=1e-5)


@pytest.mark.slow
def test_one_output_keeps_its_axis(regression):
    x, _ = networks.data(3)
    for num_rows in (1, 3):
        arguments = {"num_samples": 1, "verbose": 0}
        rows = x[:num_rows]
        assert regression.predict(rows, **arguments).shape == (num_rows, 1)
        assert regression.predict_samples(rows, **arguments).shape == (num_rows, 1, 1)
        assert regression(rows).shape == (num_rows, 1)
        for value in regression.predict_uncertainty(rows, **arguments).values():
            assert value.shape == (num_rows, 1)
        for bound in regression.predict_interval(rows, **arguments):
            assert bound.shape == (num_rows, 1)


def test_probabilities_are_averaged_not_logits():
    """Draws with logits [10, 0, 0] and [0, 1, 0] have a mean known by hand."""
    primary = keras.Sequential(
        [keras.Input((1,)), WeightNormDense(3, random="kernel", use_bias=False)]
    )
    model = networks.bayesian(primary, "mean_field", num_examples=1)
    model.compile(run_eagerly=True)
    model.posterior.draw = lambda num_samples, seed: Draws(
        tf.constant([[10.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), tf.zeros([2])
    )
    x = np.ones((1, 1), "float32")
    expected = [[0.6059, 0.2881, 0.1060]]
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-4)
    np.testing.assert_allclose(model.predictive(x), expected, atol=1e-4)
    logs = model.evaluate(x, np.array([0]), verbose=0, return_dict=True)
    assert logs["predictive_nll"] == pytest.approx(0.501, abs=1e-3)


@pytest.mark.parametrize("num_samples", [1, 5])
def test_one_seed_is_the_same_draws_everywhere(model, num_samples):
    x, y = networks.data(6)
    draws = {"num_samples": num_samples, "seed": 11}
    scales = model.sample_scales(num_samples, seed=11)
    raws = np.stack([model(x, scales=g) for g in scales], axis=1)
    expected = tf.nn.softmax(raws).numpy()
    samples = model.predict_samples(x, verbose=0, **draws)
    np.testing.assert_allclose(samples, expected, atol=1e-5)
    mean = expected.mean(axis=1)
    np.testing.assert_allclose(model.predict(x, verbose=0, **draws), mean, atol=1e-5)
    np.testing.assert_allclose(model.predict_on_batch(x, **draws), mean, atol=1e-5)
    np.testing.assert_allclose(model.predictive(x, **draws), mean, atol=1e-5)
    uncertainty = model.predict_uncertainty(x, verbose=0, **draws)
    np.testing.assert_allclose(uncertainty["mean"], mean, atol=1e-5)
    logs = model.evaluate(x, y, verbose=0, return_dict=True, **draws)
    likely = mean[np.arange(6), y]
    assert logs["predictive_nll"] == pytest.approx(-np.log(likely).mean(), rel=1e-5)
    logs = model.test_on_batch(x, y, return_dict=True, **draws)
    assert logs["predictive_nll"] == pytest.approx(-np.log(likely).mean(), rel=1e-5)
    if num_samples == 1:
        network = model.draw(seed=11)
        np.testing.assert_allclose(network(x), raws[:, 0], atol=1e-5)


@pytest.mark.slow
def test_without_a_seed_calls_differ(model):
    x, y = networks.data(6)
    calls = [
        lambda: model(x),
        lambda: model.sample_scales(3),
        lambda: model.predict(x, num_samples=3, verbose=0),
        lambda: model.predict_samples(x, num_samples=3, verbose=0),
        lambda: model.predict_uncertainty(x, num_samples=3, verbose=0)["mean"],
        lambda: model.predict_on_batch(x, num_samples=3),
        lambda: model.predictive(x, num_samples=3),
        lambda: model.evaluate(x, y, verbose=0),
        lambda: model.draw()(x),
    ]
    for call in calls:
        assert not np.allclose(call(), call(), atol=1e-7)
    different = [model.sample_scales(1, seed=seed) for seed in range(20)]
    assert len(np.unique(different, axis=0)) == 20


def test_draws_differ_from_each_other(model):
    x, _ = networks.data(4)
    samples = model.predict_samples(x, num_samples=30, verbose=0)
    assert len(np.unique(samples[0], axis=0)) == 30
    assert (samples.std(axis=1) > 0).all()


@pytest.mark.parametrize("training", [None, True, False])
def test_training_does_not_switch_sampling(model, training):
    x, _ = networks.data(4)
    assert not np.allclose(model(x, training=training), model(x, training=training))


def test_centre_is_bit_equal_from_call_to_call(model):
    x, _ = networks.data(9)
    first = model.predict(x, num_samples=0, verbose=0)
    model(x)
    model.predict(x, num_samples=4, verbose=0)
    np.testing.assert_array_equal(model.predict(x, num_samples=0, verbose=0), first)
    np.testing.assert_array_equal(
        model.predict(x, num_samples=0, seed=3, verbose=0), first
    )
    centre = model.hypernet.center()
    np.testing.assert_allclose(tf.nn.softmax(model(x, scales=centre)), first, atol=1e-6)
    assert model.predict_samples(x, num_samples=0, verbose=0).shape == (9, 1, 3)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ["call", "jit_compile"], [*((call, False) for call in CALLS), ("predict", True)]
)
def test_one_trace_for_any_number_of_samples(call, jit_compile):
    primary, traces = networks.traced()
    model = networks.bayesian(primary, "mean_field", num_examples=1)
    model.compile(jit_compile=jit_compile)
    x, y = networks.data(8)

    def answer(num_samples):
        getattr(model, call)(x, 8, num_samples=num_samples, verbose=0)
        model.evaluate(x, y, num_samples=num_samples, verbose=0)

    answer(2)
    traces.clear()
    for num_samples in (0, 1, 2, 3):
        answer(num_samples)
    assert not traces


def state_of(model):
    optimizer = map(keras.ops.convert_to_numpy, model.optimizer.variables)
    return [*networks.weights_of(model), *optimizer]


@pytest.mark.few(1)
@pytest.mark.parametrize("run_eagerly", [True, False])
def test_answering_changes_no_weight(run_eagerly):
    """Batch statistics, the noise and the optimizer do not change."""
    primary = keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Dense(5),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            WeightNormDense(networks.NUM_CLASSES),
        ]
    )
    model = networks.bayesian(primary, "mean_field")
    model.compile("adam", run_eagerly=run_eagerly, jit_compile=False)
    x, y = networks.data(8)
    model.fit(x, y, verbose=0)
    before = state_of(model)
    for call in CALLS:
        getattr(model, call)(x, 3, num_samples=2, verbose=0)
    model.predict_on_batch(x)
    model.predictive(x, num_samples=2)
    model.evaluate(x, y, verbose=0)
    model.test_on_batch(x, y)
    model.sample_scales(2)
    model.draw()
    for value, old in zip(state_of(model), before, strict=True):
        np.testing.assert_array_equal(value, old)
    alone = model.predict(x[:1], num_samples=0, verbose=0)
    together = model.predict(np.repeat(x, 8, axis=0), num_samples=0, verbose=0)
    np.testing.assert_allclose(together[0], alone[0], atol=1e-6)


def test_uncertainty_is_that_of_the_samples(model):
    x, _ = networks.data(20)
    draws = {"num_samples": 6, "seed": 2, "verbose": 0}
    answer = model.predict_uncertainty(x, 7, **draws)
    samples = model.predict_samples(x, **draws)
    assert set(answer) == {"mean", *SCORES}
    np.testing.assert_allclose(answer["mean"], samples.mean(axis=1), atol=1e-6)
    for name, score in SCORES.items():
        np.testing.assert_allclose(answer[name], score(samples), atol=1e-5)


@pytest.mark.parametrize("call", CALLS)
def test_a_row_that_is_nan_affects_only_itself(model, call):
    x, _ = networks.data(6)
    bad = x.copy()
    bad[2, 1] = np.nan
    draws = {"num_samples": 3, "seed": 2, "verbose": 0}
    answers = leaves(getattr(model, call)(bad, **draws))
    wanted = leaves(getattr(model, call)(x, **draws))
    for value, expected in zip(answers, wanted, strict=True):
        assert np.isnan(value[2]).all()
        others = [0, 1, 3, 4, 5]
        np.testing.assert_allclose(value[others], expected[others], atol=1e-6)


def test_predictive_is_differentiable(model):
    x = tf.constant(networks.data(3)[0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = -tf.math.log(model.predictive(x, num_samples=4, seed=1)[:, 0])
    gradient = tape.gradient(loss, x).numpy()
    assert np.isfinite(gradient).all() and np.abs(gradient).sum() > 0
