"""Labels in every coding, and sample and class weights, work as in stock Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from tests import networks

X, Y = networks.data(9)
WEIGHTS = np.array([1.0, 0.0, 5.0] * 3, "float32")


def twins(run_eagerly=True):
    """A model without noise, and the stock network that it has to equal."""
    stock = networks.plain()
    stock.compile(
        keras.optimizers.SGD(0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
        run_eagerly=run_eagerly,
        jit_compile=False,
    )
    primary = networks.plain()
    primary.set_weights(stock.get_weights())
    model = bhn_tf.BayesianHypernet(primary)
    model.compile(
        keras.optimizers.SGD(0.5),
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
        run_eagerly=run_eagerly,
        jit_compile=False,
    )
    return stock, model


def batches(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(9)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ["args", "kwargs"],
    [
        ((X, Y), {}),
        ((X, Y), {"sample_weight": WEIGHTS}),
        ((X, Y), {"sample_weight": WEIGHTS[:, None]}),
        ((X, Y), {"class_weight": {0: 1.0, 1: 0.0, 2: 5.0}}),
        ((batches(X, Y, WEIGHTS),), {}),
        ((batches(X, Y),), {"class_weight": {0: 1.0, 1: 0.0, 2: 5.0}}),
    ],
    ids=["none", "[B]", "[B, 1]", "classes", "dataset", "classes of dataset"],
)
@pytest.mark.parametrize("run_eagerly", [True, False])
def test_a_step_is_that_of_stock_keras(args, kwargs, run_eagerly):
    stock, model = twins(run_eagerly)
    before = stock.get_weights()
    # Given a data set, stock Keras warns of its own default.
    expected = stock.fit(*args, **kwargs, shuffle=False, verbose=0).history
    history = model.fit(*args, **kwargs, verbose=0).history
    assert any(
        np.abs(value - old).max() > 1e-3
        for value, old in zip(stock.get_weights(), before, strict=True)
    )
    for value, wanted in zip(
        model.primary.get_weights(), stock.get_weights(), strict=True
    ):
        np.testing.assert_allclose(value, wanted, atol=1e-6)
    for name, value in expected.items():
        np.testing.assert_allclose(history[name], value, rtol=1e-5)
    assert history["loss"] == history["nll"]


def test_evaluate_with_weights_is_that_of_stock_keras():
    stock, model = twins()
    for kwargs in ({}, {"sample_weight": WEIGHTS}):
        for batch_size in (2, 9):
            arguments = {"batch_size": batch_size, "verbose": 0, "return_dict": True}
            expected = stock.evaluate(X, Y, **kwargs, **arguments)
            logs = model.evaluate(X, Y, **kwargs, **arguments)
            for name, value in expected.items():
                np.testing.assert_allclose(logs[name], value, rtol=1e-5)
            assert logs["predictive_nll"] == pytest.approx(logs["nll"], rel=1e-5)


def test_on_batch_calls_are_those_of_stock_keras():
    stock, model = twins()
    arguments = {"sample_weight": WEIGHTS, "return_dict": True}
    assert model.test_on_batch(X, Y, **arguments)["loss"] == pytest.approx(
        stock.test_on_batch(X, Y, **arguments)["loss"], rel=1e-5
    )
    model.train_on_batch(X, Y, WEIGHTS)
    stock.train_on_batch(X, Y, WEIGHTS)
    model.train_on_batch(X, Y, class_weight={0: 1.0, 1: 0.0, 2: 5.0})
    stock.train_on_batch(X, Y, class_weight={0: 1.0, 1: 0.0, 2: 5.0})
    for value, wanted in zip(
        model.primary.get_weights(), stock.get_weights(), strict=True
    ):
        np.testing.assert_allclose(value, wanted, atol=1e-6)


def test_gradient_accumulation_is_that_of_larger_batches():
    results = []
    for batch_size, steps in ((8, None), (4, 2)):
        keras.utils.set_random_seed(1)
        model = bhn_tf.BayesianHypernet(networks.plain())
        optimizer = keras.optimizers.Adam(gradient_accumulation_steps=steps)
        model.compile(optimizer, jit_compile=False)
        model.fit(*networks.data(16), batch_size=batch_size, shuffle=False, verbose=0)
        results.append(networks.weights_of(model.primary))
    for value, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(value, wanted, atol=1e-6)


@pytest.fixture(scope="module")
def model():
    return networks.compiled(networks.bayesian(num_examples=9))


@pytest.fixture(scope="module")
def regression():
    model = bhn_tf.BayesianHypernet(
        keras.Sequential(
            [
                keras.Input((networks.NUM_FEATURES,)),
                bhn_tf.layers.WeightNormDense(1),
            ]
        ),
        "mean_field",
        "gaussian",
        num_examples=9,
    )
    return networks.compiled(model)


def loss(model, y):
    return model.evaluate(X, y, seed=1, verbose=0, return_dict=True)["loss"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "y",
    [
        Y[:, None],
        Y.astype("float32"),
        Y.astype("float64")[:, None],
        Y.astype("uint8"),
        keras.utils.to_categorical(Y, 3),
        keras.utils.to_categorical(Y, 3).astype("int32"),
    ],
    ids=lambda y: f"{y.dtype}{y.shape}",
)
def test_codings_of_classes_are_equal(model, y):
    assert loss(model, y) == pytest.approx(loss(model, Y), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["numbers", "one_hot"])
def test_accuracy_is_that_of_either_coding_whichever_came_first(first):
    codings = {"numbers": Y, "one_hot": keras.utils.to_categorical(Y, 3)}
    model = networks.bayesian(hypernet="mean_field", num_examples=9)
    model.compile("adam", metrics=["accuracy"], jit_compile=False)
    right = model.predict(X, verbose=0, seed=1, num_samples=8).argmax(axis=1) == Y
    # As many rows as classes, where a wrong coding would not even raise an error.
    for rows in (slice(None), slice(3)):
        for y in (codings[first], *codings.values(), Y[:, None]):
            found = model.evaluate(
                X[rows], y[rows], seed=1, verbose=0, return_dict=True
            )
            assert found["accuracy"] == pytest.approx(right[rows].mean())


def test_metrics_of_censored_times_are_refused():
    network = keras.Sequential([keras.Input((2,)), bhn_tf.layers.WeightNormDense(1)])
    model = bhn_tf.BayesianHypernet(network, "mean_field", "weibull")
    for given in (
        {"metrics": ["mae"]},
        {"weighted_metrics": ["mae"]},
        {"metrics": {"the_output": ["mae"]}},
    ):
        with pytest.raises(ValueError, match=r"\[time, event\]"):
            model.compile("adam", **given)
    # Older files may have some, and are loaded without them.
    with pytest.warns(UserWarning, match=r"`metrics=\['mae'\]` of labels"):
        model.compile_from_config({"optimizer": "adam", "metrics": ["mae"]})
    assert model.compiled


def test_a_dictionary_of_labels_for_one_output_is_refused(model):
    with pytest.raises(ValueError, match=r"dictionary of labels, \['y'\]"):
        model.evaluate(X, {"y": Y}, verbose=0)


def test_shapes_of_targets_are_equal(regression):
    y = X[:, 0]
    assert loss(regression, y[:, None]) == pytest.approx(loss(regression, y), rel=1e-6)
    assert loss(regression, Y) == pytest.approx(loss(regression, Y * 1.0), rel=1e-6)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "y",
    [
        np.where(np.arange(9) == 7, -1, Y),
        np.where(np.arange(9) == 7, 3, Y),
        np.where(np.arange(9) == 7, 0.5, Y),
        np.where(np.arange(9) == 7, np.nan, Y),
        np.where(np.arange(9) == 7, np.inf, Y),
        keras.utils.to_categorical(Y, 4),
        np.ones((9, 3), "float32"),
        np.stack([Y, Y], axis=1),
    ],
    ids=["-1", "C", "half", "nan", "inf", "C + 1 columns", "sum 3", "two columns"],
)
@pytest.mark.parametrize("as_dataset", [False, True])
def test_labels_without_a_meaning_are_refused(y, as_dataset):
    model = bhn_tf.BayesianHypernet(networks.plain())
    # XLA drops assertions, so the check must not be part of the step.
    model.compile(jit_compile=True)
    before = networks.weights_of(model)
    args = (batches(X, y),) if as_dataset else (X, y)
    with pytest.raises(ValueError, match="[Ll]abels"):
        model.fit(*args, verbose=0)
    with pytest.raises(ValueError, match="[Ll]abels"):
        model.evaluate(*args, verbose=0)
    for value, old in zip(networks.weights_of(model), before, strict=True):
        np.testing.assert_array_equal(value, old)


@pytest.mark.parametrize("y", [X[:, :2], X[:, 0] * np.nan], ids=["[B, 2]", "nan"])
def test_targets_without_a_meaning_are_refused(regression, y):
    for call in (regression.fit, regression.evaluate, regression.train_on_batch):
        with pytest.raises(ValueError, match="do not (fit|match)|NaN"):
            call(X, y)


@pytest.mark.parametrize(
    "args", [(X,), (batches(X),), (X[:, :, None], None)], ids=["array", "(x,)", "None"]
)
def test_missing_labels_are_asked_for(args):
    model = bhn_tf.BayesianHypernet(networks.plain())
    model.compile("sgd", run_eagerly=True)
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="labels"):
            call(*args, verbose=0)


@pytest.mark.parametrize(
    "weights",
    [WEIGHTS[:8], WEIGHTS * np.nan, np.ones((9, 3)), -np.ones(9)],
    ids=["8", "nan", "[9, 3]", "negative"],
)
def test_weights_without_a_meaning_are_refused(model, weights):
    before = networks.weights_of(model)
    with pytest.raises(ValueError, match="weight"):
        model.fit(X, Y, sample_weight=weights, verbose=0)
    for value, old in zip(networks.weights_of(model), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_options_without_a_meaning_are_refused(model):
    with pytest.raises(ValueError, match="no numbers.*0 to 2"):
        model.fit(X, np.array(["one"] * 9), verbose=0)
    for share in (-0.5, 1.0):
        with pytest.raises(ValueError, match="validation_split"):
            model.fit(X, Y, validation_split=share, verbose=0)
    inputs = keras.Input((5, 4))
    tokens = networks.compiled(
        bhn_tf.BayesianHypernet(
            keras.Model(inputs, bhn_tf.layers.WeightNormDense(3)(inputs))
        )
    )
    x, y = np.ones((9, 5, 4)), np.zeros((9, 5), int)
    with pytest.raises(ValueError, match="class_weight"):
        tokens.fit(x, y, class_weight={0: 2.0}, verbose=0)


@pytest.mark.slow
def test_rows_that_are_not_finite_are_refused():
    x = np.where(np.arange(9)[:, None] == 5, np.nan, X)
    model = networks.compiled(networks.bayesian(num_examples=9))
    before = networks.weights_of(model.primary)
    with pytest.raises(ValueError, match="row 5"):
        model.fit(x, Y, verbose=0)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(batches(x, Y), verbose=0)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, Y, validation_data=(x, Y), verbose=0)
    with pytest.raises(ValueError, match="NaN"):
        model.train_on_batch(x, Y)
    for value, old in zip(networks.weights_of(model.primary), before, strict=True):
        np.testing.assert_array_equal(value, old)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "data",
    [
        lambda: {"x": X, "y": [Y], "sample_weight": [WEIGHTS]},
        lambda: {"x": X, "y": (Y,), "validation_data": (X, [Y], [WEIGHTS])},
        lambda: {"x": batches(X, (Y,), (WEIGHTS,))},
        lambda: {"x": ((X, (Y,)) for _ in range(2)), "steps_per_epoch": 1},
    ],
    ids=["lists", "tuples", "data set", "generator"],
)
def test_a_list_of_one_is_what_it_holds(data):
    stock, model = twins()
    model.num_examples = len(X)
    expected = stock.fit(**data(), shuffle=False, verbose=0).history
    history = model.fit(**data(), shuffle=False, verbose=0).history
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5)


@pytest.mark.slow
def test_a_list_of_one_in_every_call_of_arrays():
    _, model = twins()
    model.num_examples = len(X)
    model.train_on_batch(X, [Y], [WEIGHTS])
    on_lists = model.test_on_batch(X, (Y,), [WEIGHTS])
    assert on_lists == model.test_on_batch(X, Y, WEIGHTS)
    assert model.elbo(X, [Y]) == model.elbo(X, Y)
    model.check_labels([Y])
    found = [bhn_tf.conformal.calibrate(model, X, y, seed=0) for y in (Y, [Y])]
    sets = [calibrated.predict_set(X, level=0.5) for calibrated in found]
    np.testing.assert_array_equal(*sets)


def test_noise_starts_at_targets_in_a_list_of_one():
    targets = X[:, :3] * [1.0, 10.0, 100.0]
    found = []
    for y in (targets, [targets]):
        model = bhn_tf.BayesianHypernet(
            networks.plain(), likelihood="gaussian", normalize_targets=True
        )
        model.initialize_from_data(X, y)
        found.append(np.concatenate(model.likelihood.get_weights(), axis=None))
    np.testing.assert_array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "weights", "advice"),
    [
        (X, WEIGHTS, "Labels of shape .* give class numbers"),
        (Y, np.ones([9, 7]), "`weight` of shape"),
        (Y.astype(str), WEIGHTS, "Labels of dtype string are no numbers"),
    ],
    ids=["labels", "weights", "text"],
)
def test_what_does_not_fit_in_a_data_set_is_refused_by_one_sentence(
    labels, weights, advice
):
    _, model = twins()
    with pytest.raises(ValueError, match=advice) as refused:
        model.fit(batches(X, labels, weights), verbose=0)
    assert "\n" not in str(refused.value)
