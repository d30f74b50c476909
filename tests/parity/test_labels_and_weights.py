"""Labels and weights in every coding give stock Keras's losses, metrics, gradients."""

import keras
import numpy as np
import pytest

from bhn_tf.baselines import Deterministic
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Bernoulli, Categorical, Gaussian
from tests.parity.twins import (
    CLASSES,
    FEATURES,
    OURS,
    ROWS,
    X,
    Y,
    assert_same_logs,
    assert_same_weights,
    bayesian,
    crossentropy,
    twins,
)

STEPS = 5
RNG = np.random.default_rng(1)
SEQUENCES = RNG.normal(size=(ROWS, STEPS, FEATURES)).astype("float32")
TAGS = RNG.integers(0, CLASSES, size=(ROWS, STEPS))
ROW_WEIGHTS = np.array([1.0, 0.0, 5.0] * 4, "float32")
STEP_WEIGHTS = RNG.integers(0, 3, size=(ROWS, STEPS)).astype("float32")
CLASS_WEIGHTS = {0: 1.0, 1: 0.0, 2: 5.0}
METRICS = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}
ARGUMENTS = {"batch_size": 6, "verbose": 0}


def assert_same_training(
    stock, model, x, y, factor=1.0, our_y=None, our_weight=None, **weights
):
    """The results of `fit` and `evaluate`, and the trained weights."""
    ours = {**weights} if our_weight is None else {"sample_weight": our_weight}
    our_y = y if our_y is None else our_y
    arguments = {**ARGUMENTS, "shuffle": False}
    expected = stock.fit(x, y, **arguments, **weights).history
    history = model.fit(x, our_y, **arguments, **ours).history
    assert_same_logs(expected, history, factor)
    assert_same_weights(stock, model)
    weights.pop("class_weight", None)
    ours.pop("class_weight", None)
    arguments = {**ARGUMENTS, "return_dict": True}
    expected = stock.evaluate(x, y, **arguments, **weights)
    assert_same_logs(expected, model.evaluate(x, our_y, **arguments, **ours), factor)


# -- one class a row -------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"sample_weight": ROW_WEIGHTS},
        {"sample_weight": ROW_WEIGHTS[:, None]},
        {"class_weight": CLASS_WEIGHTS},
    ],
    ids=["none", "rows", "column", "classes"],
)
def test_class_numbers(ours, weights):
    stock, model = twins(ours=OURS[ours], **METRICS)
    assert_same_training(stock, model, X, Y, **weights)


def test_one_hot_rows():
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    stock, model = twins(loss=loss, metrics=["accuracy"])
    assert_same_training(stock, model, X, np.eye(CLASSES, dtype="float32")[Y])


def test_probabilities_instead_of_logits():
    def make():
        return keras.Sequential(
            [keras.Input((FEATURES,)), keras.layers.Dense(CLASSES, "softmax")]
        )

    loss = keras.losses.SparseCategoricalCrossentropy()
    stock, model = twins(make, loss=loss, **METRICS)
    assert_same_training(stock, model, X, Y, sample_weight=ROW_WEIGHTS)


def several_answers():
    return keras.Sequential(
        [keras.Input((FEATURES,)), WeightNormDense(2, random="none")]
    )


def test_several_answers_of_yes_or_no():
    y = (X[:, :2] > 0).astype("float32")
    rate, outputs = 0.5, 2
    stock, model = twins(
        several_answers,
        lambda network: Deterministic(network, Bernoulli(True)),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["mse"],
    )
    # Stock Keras takes the mean over the outputs of a row, and we their sum.
    model.optimizer.learning_rate = rate / outputs
    expected = stock.fit(X, y, shuffle=False, **ARGUMENTS).history["loss"]
    history = model.fit(X, y, shuffle=False, **ARGUMENTS).history
    np.testing.assert_allclose(history["loss"], outputs * np.array(expected), rtol=1e-5)
    assert_same_weights(stock, model)


def test_a_regression_is_half_the_squared_error_and_a_constant():
    y = X @ np.ones((FEATURES, 2), "float32")
    stock, model = twins(
        several_answers, lambda network: bayesian(network, likelihood=Gaussian()), "mse"
    )
    constant, outputs = 0.5 * np.log(2 * np.pi), 2
    stock.optimizer.learning_rate = 0.1
    # Half the sum of squares has the gradient of their mean, times half the outputs.
    model.optimizer.learning_rate = 0.1 * 2 / outputs
    expected = np.array(stock.fit(X, y, shuffle=False, **ARGUMENTS).history["loss"])
    history = model.fit(X, y, shuffle=False, **ARGUMENTS).history
    np.testing.assert_allclose(
        history["loss"], outputs * (expected / 2 + constant), rtol=1e-5
    )
    assert_same_weights(stock, model)


# -- several axes ----------------------------------------------------------------------


def tagger():
    return keras.Sequential(
        [keras.Input((STEPS, FEATURES)), WeightNormDense(CLASSES, random="none")]
    )


def tagger_twins(ours=bayesian, loss=None, **kwargs):
    """Trained at rates that make up for the sum over the steps."""
    stock, model = twins(tagger, ours, loss, **kwargs)
    model.optimizer.learning_rate = float(stock.optimizer.learning_rate) / STEPS
    return stock, model


def as_stock_keras_takes(weight):
    """Stock Keras needs an axis of steps for weights of rows, no other for steps."""
    if weight is None:
        return None
    return weight[:, None] if weight.ndim == 1 else weight.reshape(ROWS, -1)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "weight",
    [None, ROW_WEIGHTS, ROW_WEIGHTS[:, None], STEP_WEIGHTS, STEP_WEIGHTS[..., None]],
    ids=["none", "rows", "column", "steps", "steps column"],
)
def test_sequences(weight):
    stock, model = tagger_twins(**METRICS)
    assert_same_training(
        stock,
        model,
        SEQUENCES,
        TAGS,
        STEPS,
        sample_weight=as_stock_keras_takes(weight),
        our_weight=weight,
    )


def test_the_mean_over_an_example_is_the_loss_of_stock_keras():
    def ours(network):
        return bayesian(network, likelihood=Categorical(reduction="mean"))

    stock, model = twins(tagger, ours, **METRICS)
    assert_same_training(stock, model, SEQUENCES, TAGS, sample_weight=STEP_WEIGHTS)


def test_one_hot_steps():
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    stock, model = tagger_twins(loss=loss, metrics=["accuracy"])
    y = np.eye(CLASSES, dtype="float32")[TAGS]
    assert_same_training(stock, model, SEQUENCES, y, STEPS, sample_weight=STEP_WEIGHTS)


@pytest.mark.parametrize("void", [255, -1, 1])
def test_an_ignored_class(void):
    tags = np.where(STEP_WEIGHTS > 0, np.where(TAGS == 1, 0, TAGS), void)

    def ours(network):
        return bayesian(network, likelihood=Categorical(ignore_class=void))

    stock, model = twins(tagger, ours, crossentropy(ignore_class=void))
    # Stock Keras divides by the elements that count, and we by the rows.
    factor = (tags != void).sum() / ROWS
    arguments = {"batch_size": ROWS, "verbose": 0}
    stock.optimizer.learning_rate = 0.1 * factor
    model.optimizer.learning_rate = 0.1
    expected = stock.fit(SEQUENCES, tags, **arguments).history
    history = model.fit(SEQUENCES, tags, **arguments).history
    assert_same_logs(expected, history, factor)
    assert_same_weights(stock, model)


def as_numbers(logs):
    return {name: float(value) for name, value in logs.items()}


@pytest.mark.few(1)
@pytest.mark.parametrize("filler", [np.nan, -1, 1000])
@pytest.mark.parametrize("axes", ["rows", "steps"])
def test_labels_of_weight_0_may_be_anything(filler, axes):
    weight = ROW_WEIGHTS if axes == "rows" else STEP_WEIGHTS
    where = weight[:, None] == 0 if axes == "rows" else weight == 0
    tags = np.where(where, filler, TAGS)
    stock, model = tagger_twins(weighted_metrics=["accuracy"])
    assert_same_training(
        stock,
        model,
        SEQUENCES,
        TAGS,
        STEPS,
        our_y=tags,
        our_weight=weight,
        sample_weight=as_stock_keras_takes(weight),
    )
    _, plain = tagger_twins()
    for call in (plain.evaluate, plain.test_on_batch):
        wanted = call(SEQUENCES, TAGS, sample_weight=weight, return_dict=True)
        found = call(SEQUENCES, tags, sample_weight=weight, return_dict=True)
        # Arrays without an axis in Keras 3.11, of which `approx` would want all bits.
        assert as_numbers(found) == pytest.approx(as_numbers(wanted))
        assert np.isfinite(list(found.values())).all()


# -- several outputs -------------------------------------------------------------------


def of_two_outputs(structure):
    def make():
        inputs = keras.Input((FEATURES,))
        hidden = keras.layers.Dense(5, activation="relu")(inputs)
        kind = WeightNormDense(CLASSES, random="none", name="kind")(hidden)
        size = WeightNormDense(2, random="none", name="size")(hidden)
        return keras.Model(inputs, structure(kind, size))

    return make


def as_dict(kind, size):
    return {"kind": kind, "size": size}


def as_list(kind, size):
    return [kind, size]


SIZES = (X[:, 0] > 0).astype("int64")
FIVES = np.full(ROWS, 5.0, "float32")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ["structure", "weights"],
    [
        (as_dict, {}),
        (as_list, {}),
        (as_dict, {"sample_weight": as_dict(ROW_WEIGHTS, FIVES)}),
        (as_list, {"sample_weight": as_list(ROW_WEIGHTS, FIVES)}),
    ],
    ids=["dict", "list", "weights by name", "weights in order"],
)
@pytest.mark.parametrize("loss_weights", [None, (1.0, 0.25)])
def test_several_outputs(structure, weights, loss_weights):
    losses = structure(crossentropy(), crossentropy())
    likelihoods = structure("categorical", "categorical")
    options = {"metrics": structure(["accuracy"], ["accuracy"])}
    options["weighted_metrics"] = structure(["accuracy"], ["accuracy"])
    if loss_weights is not None:
        options["loss_weights"] = structure(*loss_weights)
    stock, model = twins(
        of_two_outputs(structure),
        lambda network: bayesian(network, likelihood=likelihoods),
        losses,
        **options,
    )
    arguments = {**ARGUMENTS, "shuffle": False, **weights}
    y = structure(Y, SIZES)
    expected = stock.fit(X, y, **arguments).history
    history = model.fit(X, y, **arguments).history
    # Ours are named as the likelihoods' terms, without `loss_weights`.
    for name in ("kind", "size"):
        wanted = expected.pop(f"{name}_loss")
        np.testing.assert_allclose(history[f"{name}_nll"], wanted, rtol=1e-5)
    assert_same_logs(expected, history)
    assert_same_weights(stock, model)


def test_one_output_without_labels_is_an_error_that_says_so():
    _, model = twins(
        of_two_outputs(as_dict),
        lambda network: bayesian(
            network, likelihood=as_dict("categorical", "categorical")
        ),
        as_dict(crossentropy(), crossentropy()),
    )
    for y in (as_dict(Y, None), {"kind": Y}):
        with pytest.raises(ValueError, match="outputs .*size"):
            model.fit(X, y, verbose=0)


@pytest.mark.parametrize("call", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
def test_no_labels_at_all_is_an_error_that_says_so(call):
    _, model = twins()
    with pytest.raises(ValueError, match="need labels"):
        getattr(model, call)(X)


def test_one_weight_for_two_outputs_is_refused_in_a_list_too():
    """A list of one equals its content if there is one output, and only then."""
    inputs = keras.Input((4,))
    outputs = [keras.layers.Dense(3, name=name)(inputs) for name in "ab"]
    model = Deterministic(keras.Model(inputs, outputs), ["categorical"] * 2)
    model.compile("sgd")
    x, y = np.ones((6, 4), "float32"), np.arange(6) % 3
    with pytest.raises(ValueError, match="Give one for each"):
        model.fit(x, [y, y], sample_weight=[np.ones(6)], verbose=0)
