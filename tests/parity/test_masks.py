"""With Keras's masks, padding reaches neither loss nor metrics nor scores."""

import keras
import numpy as np
import pytest

from bhn_tf import baselines, layers
from bhn_tf.hypernets import MeanField
from bhn_tf.likelihoods import Categorical
from tests.keras_versions import keras_before
from tests.parity.twins import (
    OURS,
    assert_same_logs,
    assert_same_weights,
    bayesian,
    crossentropy,
    probabilities,
    twins,
)

ROWS, STEPS, REAL, CLASSES = 12, 8, 3, 2
RNG = np.random.default_rng(0)
IS_REAL = np.arange(STEPS) < REAL
#: Word 1 has class 0, word 2 class 1; 0 is padding, with class 0 under it.
WORDS = np.where(IS_REAL, RNG.integers(1, 3, size=(ROWS, STEPS)), 0)
TAGS = np.where(IS_REAL, WORDS - 1, 0)
ARGUMENTS = {"batch_size": ROWS, "verbose": 0}


def tagger(random="none"):
    return keras.Sequential(
        [
            keras.Input((STEPS,), dtype="int32"),
            keras.layers.Embedding(3, 4, mask_zero=True),
            keras.layers.GRU(4, return_sequences=True),
            layers.WeightNormDense(CLASSES, random=random),
        ]
    )


def of_numbers():
    return keras.Sequential(
        [
            keras.Input((STEPS, 1)),
            keras.layers.Masking(),
            layers.WeightNormDense(CLASSES, random="none"),
        ]
    )


def metrics():
    return [keras.metrics.Recall(class_id=1, name="recall"), "accuracy"]


def one_hot(tags):
    return np.eye(CLASSES, dtype="float32")[tags]


def comparable(logs, weighted=False):
    """What stock Keras logs, except for metrics that mean something else there.

    Recall counts from a probability of 0.5, but it gets logits. Keras before 3.12
    counts padding in metrics without weights.
    """
    others = {"recall"}
    if keras_before("3.12"):
        others |= {name for name in logs if name.endswith("accuracy")}
        others -= {"weighted_accuracy"} if weighted else set()
    return {name: value for name, value in logs.items() if name not in others}


@pytest.mark.few(1)
@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize(
    ["make", "x"],
    [(tagger, WORDS), (of_numbers, WORDS[..., None].astype("float32"))],
    ids=["Embedding", "Masking"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_training_is_that_of_stock_keras(ours, make, x, weighted):
    weight = RNG.integers(0, 3, size=(ROWS, STEPS)).astype("float32")
    weights = {"sample_weight": weight} if weighted else {}
    stock, model = twins(
        make,
        OURS[ours],
        keras.losses.CategoricalCrossentropy(from_logits=True),
        metrics=metrics(),
        weighted_metrics=["accuracy"],
    )
    # Stock Keras divides by the elements that are real, and we by the rows.
    model.optimizer.learning_rate = float(stock.optimizer.learning_rate) / REAL
    y = one_hot(TAGS)
    expected = stock.fit(x, y, **ARGUMENTS, **weights, epochs=2).history
    history = model.fit(x, y, **ARGUMENTS, **weights, epochs=2).history
    assert_same_logs(comparable(expected, weighted), history, REAL)
    assert_same_weights(stock, model)
    expected = stock.evaluate(x, y, return_dict=True, **ARGUMENTS, **weights)
    logs = model.evaluate(x, y, return_dict=True, **ARGUMENTS, **weights)
    assert_same_logs(comparable(expected, weighted), logs, REAL)


def test_the_mean_divides_by_what_is_real_as_stock_keras():
    def ours(network):
        return bayesian(network, likelihood=Categorical(reduction="mean"))

    stock, model = twins(tagger, ours, metrics=["accuracy"])
    expected = stock.fit(WORDS, TAGS, **ARGUMENTS).history
    history = model.fit(WORDS, TAGS, **ARGUMENTS).history
    assert_same_logs(comparable(expected), history)
    assert_same_weights(stock, model)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ours",
    [pytest.param("bayesian", marks=pytest.mark.slow), "deterministic", "random"],
)
def test_a_class_that_is_rare_beside_padding_is_learned(ours):
    keras.utils.set_random_seed(0)
    if ours == "random":
        model = bayesian(tagger("scale"), hypernet=MeanField(0.01))
    else:
        model = OURS[ours](tagger())
    model.compile(
        keras.optimizers.Adam(0.1), metrics=metrics(), jit_compile=False, eval_samples=2
    )
    history = model.fit(WORDS, one_hot(TAGS), epochs=8, **ARGUMENTS).history
    assert history["recall"][-1] == 1.0
    assert model.evaluate(WORDS, one_hot(TAGS), verbose=0, return_dict=True)[
        "recall"
    ] == pytest.approx(1.0)


def test_scores_of_padding_are_nan_and_its_mean_that_of_stock_keras():
    stock, model = twins(tagger)
    scores = model.predict_uncertainty(WORDS, verbose=0)
    expected = probabilities(stock.predict(WORDS, verbose=0))
    np.testing.assert_allclose(scores.pop("mean"), expected, atol=1e-5)
    for name, values in scores.items():
        assert values.shape == (ROWS, STEPS), name
        np.testing.assert_array_equal(np.isnan(values), np.tile(~IS_REAL, (ROWS, 1)))


@pytest.mark.few(1)
@pytest.mark.parametrize("call", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
@pytest.mark.parametrize("filler", [-1, 1000, np.nan])
def test_labels_under_a_mask_may_be_anything(call, filler):
    results = []
    for tags in (TAGS, np.where(IS_REAL, TAGS, filler)):
        _, model = twins(tagger, metrics=["accuracy"], weighted_metrics=["accuracy"])
        kwargs = {"verbose": 0} if call in ("fit", "evaluate") else {}
        result = getattr(model, call)(WORDS, tags, **kwargs)
        results.append(list(result.history.values()) if call == "fit" else result)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
    assert np.isfinite(results[1]).all()


@pytest.mark.slow
def test_one_of_two_outputs_with_a_mask():
    def make():
        words = keras.Input((STEPS,), dtype="int32")
        hidden = keras.layers.Embedding(3, 4, mask_zero=True)(words)
        hidden = keras.layers.GRU(4, return_sequences=True)(hidden)
        tag = layers.WeightNormDense(CLASSES, random="none", name="tag")(hidden)
        last = keras.layers.GRU(3)(hidden)
        kind = layers.WeightNormDense(CLASSES, random="none", name="kind")(last)
        return keras.Model(words, {"tag": tag, "kind": kind})

    y = {"tag": TAGS, "kind": TAGS[:, 0]}
    losses = {"tag": crossentropy(), "kind": crossentropy()}
    likelihood = {"tag": Categorical(reduction="mean"), "kind": "categorical"}
    stock, model = twins(
        make,
        lambda network: baselines.Deterministic(network, likelihood),
        losses,
        metrics={"tag": ["accuracy"], "kind": ["accuracy"]},
    )
    expected = stock.fit(WORDS, y, **ARGUMENTS).history
    history = model.fit(WORDS, y, **ARGUMENTS).history
    for name in y:
        wanted = expected.pop(f"{name}_loss")
        np.testing.assert_allclose(history[f"{name}_nll"], wanted, rtol=1e-5)
    assert_same_logs(comparable(expected), history)
    assert_same_weights(stock, model)
