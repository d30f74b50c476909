"""Prediction without randomness, of regressions, of nothing, and of nonsense."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.models import answers
from bhn_tf.models.draws import Draws
from tests import networks

CALLS = ["predict", "predict_samples", "predict_uncertainty"]


def linear(units=1):
    return keras.Sequential([keras.Input((1,)), WeightNormDense(units)])


@pytest.mark.slow
def test_interval_covers_what_it_says():
    """Targets from the model's own predictive distribution: S draws and noise."""
    likelihood = bhn_tf.likelihoods.Gaussian(stddev=0.3)
    hypernet = bhn_tf.hypernets.MeanField(initial_stddev=0.5)
    model = networks.compiled(bhn_tf.BayesianHypernet(linear(), hypernet, likelihood))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4_000, 1)).astype("float32")
    draws = {"num_samples": 64, "seed": 1, "verbose": 0}
    means = model.predict_samples(x, **draws)[..., 0]
    y = means[np.arange(4_000), rng.integers(0, 64, 4_000)]
    y += rng.normal(size=4_000, scale=0.3)
    widths = []
    for level in (0.5, 0.9, 0.99):
        lower, upper = model.predict_interval(x, level, **draws)
        covered = (lower[:, 0] <= y) & (y <= upper[:, 0])
        assert covered.mean() == pytest.approx(level, abs=0.03)
        widths.append((upper - lower).mean())
    assert widths == sorted(widths)


def test_moments_of_a_regression():
    """N(0, 1) and N(2, 1): mean 1, variance 2."""
    model = networks.compiled(
        bhn_tf.BayesianHypernet(linear(), "mean_field", "gaussian")
    )
    model.posterior.draw = lambda num_samples, seed: Draws(
        tf.constant([[0.0], [2.0]]), tf.zeros([2])
    )
    kernel = model.primary.layers[0].kernel
    kernel.assign(tf.ones_like(kernel))
    answer = model.predict_uncertainty(np.ones((1, 1), "float32"), verbose=0)
    expected = {
        "mean": 1.0,
        "std": 2**0.5,
        "epistemic_std": 1.0,
        "aleatoric_std": 1.0,
    }
    assert answer.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(answer[name], [[value]], rtol=1e-5)


def test_interval_of_classes_is_refused():
    model = networks.compiled(networks.bayesian())
    x, _ = networks.data(2)
    with pytest.raises(ValueError, match="regression"):
        model.predict_interval(x, verbose=0)
    # The last rounds to 1 in float32, whose bounds are infinite.
    for level in (90, 1.0, 1 - 1e-9):
        with pytest.raises(ValueError, match="level"):
            model.predict_interval(x, level=level, verbose=0)


@pytest.mark.slow
def test_without_anything_random(caplog):
    x, y = networks.data(9)
    model = networks.compiled(bhn_tf.BayesianHypernet(networks.plain()))
    assert model.num_random == 0
    (said,) = caplog.messages
    assert "nothing in it is random (D = 0)" in said and "from_keras" in said
    logs = model.evaluate(x, y, verbose=0, return_dict=True)
    assert logs["kl"] == 0 and logs["loss"] == logs["nll"] > 0
    expected = tf.nn.softmax(model.primary(x))
    for num_samples in (0, 1, 5):
        arguments = {"num_samples": num_samples, "verbose": 0}
        np.testing.assert_allclose(model.predict(x, **arguments), expected, atol=1e-6)
        np.testing.assert_allclose(
            model.predict_samples(x, **arguments)[:, 0], expected, atol=1e-6
        )
        answer = model.predict_uncertainty(x, **arguments)
        np.testing.assert_allclose(answer["mutual_information"], 0, atol=1e-6)
    np.testing.assert_array_equal(model(x), model(x))
    assert model.sample_scales(3).shape == (3, 0)
    np.testing.assert_allclose(model.draw()(x), model(x), atol=1e-6)


@pytest.fixture(scope="module")
def model():
    return networks.compiled(networks.bayesian(num_examples=9))


@pytest.mark.parametrize("call", [*CALLS, "predictive", "__call__"])
def test_unknown_keywords_are_refused(model, call):
    x, y = networks.data(4)
    for keyword in ({"n_samples": 3}, {"sample": True}):
        with pytest.raises(TypeError, match=next(iter(keyword))):
            getattr(model, call)(x, **keyword)
        with pytest.raises(ValueError, match=next(iter(keyword))):  # As in Keras.
            model.evaluate(x, y, **keyword)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("num_samples", [-1, 1.5, None, "3", True])
def test_what_is_no_number_of_samples_is_refused(model, call, num_samples):
    x, _ = networks.data(4)
    with pytest.raises(ValueError, match="num_samples"):
        getattr(model, call)(x, num_samples=num_samples, verbose=0)


@pytest.mark.parametrize("argument", ["steps", "batch_size"])
@pytest.mark.parametrize("value", [0, -1])
def test_what_is_no_number_of_batches_is_refused(model, argument, value):
    x, _ = networks.data(4)
    with pytest.raises(ValueError, match=f"`{argument}` .* at least 1"):
        model.predict(x, verbose=0, **{argument: value})


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True])
def test_what_is_no_seed_is_refused(model, seed):
    x, _ = networks.data(4)
    for call in (
        lambda: model.predict(x, seed=seed, verbose=0),
        lambda: model.sample_scales(2, seed=seed),
        lambda: model.draw(seed=seed),
    ):
        with pytest.raises(ValueError, match="seed"):
            call()


@pytest.mark.parametrize(
    "scales", [np.zeros(7), np.zeros((3, 8)), np.zeros((4, 7)), np.zeros((4, 8, 1))]
)
def test_scales_of_another_shape_are_refused(model, scales):
    x, _ = networks.data(4)
    with pytest.raises(ValueError, match="scales"):
        model(x, scales=scales)


def test_a_draw_for_each_row_of_whole_kernels_is_refused():
    model = networks.bayesian(networks.sequential(random="kernel"), "mean_field")
    x, _ = networks.data(4)
    with pytest.raises(ValueError, match="random='scale'"):
        model(x, scales=np.zeros((4, model.num_random)))
    model.compile(per_example_noise=True, run_eagerly=True)
    with pytest.raises(ValueError, match="`per_example_noise`.*random='scale'"):
        model.fit(*networks.data(4), verbose=0)


class NoBatches(keras.utils.PyDataset):
    num_batches = 0

    def __getitem__(self, index):
        raise IndexError(index)


def rows():
    return tf.data.Dataset.from_tensor_slices(networks.data(8))


EMPTY = {
    "arrays": lambda: networks.data(0),
    "dataset": lambda: (rows().take(0).batch(4),),
    "filtered": lambda: (rows().filter(lambda x, y: y > 5).batch(4),),
    "filtered without batches": lambda: (
        rows().batch(16, drop_remainder=True).filter(lambda x, y: True),
    ),
    "PyDataset": lambda: (NoBatches(),),
    "generator": lambda: ((batch for batch in ()),),
}


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("name", EMPTY)
def test_empty_data_are_refused(model, name):
    # The noise of a draw may be spent before a data set shows that it yields nothing.
    before = [variable.numpy() for variable in model.trainable_variables]
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="empty|no batch|no row|No data"):
            call(*EMPTY[name](), verbose=0)
    for call in CALLS:
        with pytest.raises(ValueError, match="empty|no batch|no row|No data"):
            getattr(model, call)(*EMPTY[name]()[:1], verbose=0)
    for variable, old in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_empty_validation_data_are_refused(model):
    x, y = networks.data(9)
    for name in ("arrays", "dataset", "filtered"):
        data = EMPTY[name]()
        data = data if len(data) == 2 else data[0]
        with pytest.raises(ValueError, match="empty|no batch|no row"):
            model.fit(x, y, validation_data=data, verbose=0)


def test_before_the_model_has_weights():
    primary = keras.Sequential([WeightNormDense(3)])
    model = networks.bayesian(primary, "mean_field")
    for call in (
        lambda: model.num_random,
        lambda: model.sample_scales(2),
        lambda: model.draw(),
    ):
        with pytest.raises(ValueError, match="build"):
            call()
    x, _ = networks.data(4)
    assert model.predict(x, verbose=0).shape == (4, 3)
    assert model.num_random == 3


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["build", "call", "fit", "predictive"])
def test_built_by_whatever_comes_first(how):
    x, y = networks.data(4)
    primary = keras.Sequential([WeightNormDense(3)])
    model = networks.bayesian(primary, "mean_field")
    model.compile(run_eagerly=True)
    assert not model.built
    if how == "build":
        model.build((None, networks.NUM_FEATURES))
    elif how == "fit":
        model.fit(x, y, verbose=0)
    else:
        getattr(model, {"call": "__call__"}.get(how, how))(x)
    assert model.built and model.num_random == 3
    names = [variable.path for variable in model.trainable_variables]
    assert len(set(names)) == len(names) == 4
    model.fit(x, y, verbose=0)


@pytest.mark.slow
def test_many_draws_of_many_rows_are_predicted_a_few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(answers, "_MOST_SAMPLES", 10 * networks.NUM_CLASSES * 3)
    model, (x, _) = networks.bayesian(), networks.data(20)
    rows = []

    class Watched(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            rows.append(len(logs["outputs"]))

    found = model.predict(
        x, batch_size=20, num_samples=10, seed=1, verbose=0, callbacks=[Watched()]
    )
    assert max(rows) == 3
    monkeypatch.undo()
    expected = model.predict(x, batch_size=20, num_samples=10, seed=1, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("batch_size", "steps"), [(8, 2), (7, 1), (None, 1)])
def test_steps_are_of_the_batches_that_were_asked_for(monkeypatch, batch_size, steps):
    model, (x, _) = networks.bayesian(), networks.data(70)
    expected = model.predict(x, num_samples=10, seed=1, verbose=0)
    monkeypatch.setattr(answers, "_MOST_SAMPLES", 10 * networks.NUM_CLASSES * 3)
    arguments = {"batch_size": batch_size, "steps": steps, "verbose": 0}
    found = model.predict(x, num_samples=10, seed=1, **arguments)
    wanted = expected[: steps * (batch_size or 32)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, tf.constant, tf.Variable])
def test_a_row_with_an_infinity_is_not_answered_of_any_kind_of_array(kind):
    saturated = [keras.Input((4,)), WeightNormDense(3, activation="tanh")]
    model = networks.bayesian(keras.Sequential([*saturated, WeightNormDense(2)]))
    x = np.array([[np.inf, 0, 0, 0], [1, 0, 0, 0]], "float32")
    found = model.predictive(kind(x), seed=1)
    np.testing.assert_array_equal(np.isnan(found).all(axis=1), [True, False])


def test_a_row_that_is_nan_is_not_answered_where_relu_and_pooling_lose_it():
    primary = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            bhn_tf.layers.WeightNormConv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            WeightNormDense(networks.NUM_CLASSES),
        ]
    )
    x = np.random.default_rng(0).random((5, 8, 8, 1), dtype="float32")
    x[2, 3, 3] = np.nan
    answers = networks.bayesian(primary).predict_uncertainty(x, verbose=0)
    for values in answers.values():
        is_nan = np.isnan(values.reshape(5, -1)).all(axis=1)
        np.testing.assert_array_equal(is_nan, np.arange(5) == 2)
        assert np.isfinite(np.delete(values, 2, axis=0)).all()


def test_a_strategy_can_be_used_after_a_call_that_failed():
    model = networks.compiled(networks.bayesian(), "sgd", run_eagerly=False)
    with pytest.raises(ValueError, match="expected axis -1"):
        model.predict(np.zeros([3, networks.NUM_FEATURES + 1]), verbose=0)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        assert networks.sequential().built
