"""A calibrated model gives the same answers in Python, files and servers."""

import json
import math
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import bhn_tf
from bhn_tf import conformal
from bhn_tf.baselines import DeepEnsemble, Deterministic, MCDropout
from tests import networks

ROOT = pathlib.Path(__file__).parents[2]
NUM_ROWS = 60
X, CLASSES = networks.data(NUM_ROWS)
Y = np.stack([X[:, 0], 3.0 - X[:, 1]], axis=1)
COLOURS = np.where(X[:, 3] > 0, "blue", "red")


def dropout():
    layers = networks.plain().layers
    return MCDropout(
        keras.Sequential(
            [keras.Input((4,)), layers[0], keras.layers.Dropout(0.4), layers[1]]
        )
    )


MODELS = {
    "hypernet": lambda: networks.bayesian(),
    "nothing random": lambda: networks.bayesian(networks.plain()),
    "deterministic": lambda: Deterministic(networks.plain()),
    "ensemble": lambda: DeepEnsemble([networks.plain(), networks.plain()]),
    "dropout": dropout,
}


def regression():
    network = keras.Sequential(
        [keras.Input((4,)), bhn_tf.layers.WeightNormDense(2, random="kernel")]
    )
    return bhn_tf.BayesianHypernet(network, "mean_field", "gaussian", num_examples=9)


LABELS = {"age": Y, "kind": CLASSES, "late": (X[:, 0] > 0).astype("int32")}
LIKELIHOODS = {"age": "gaussian", "kind": "categorical", "late": "bernoulli"}
UNITS = {"age": 2, "kind": 3, "late": 1}


@pytest.fixture(scope="module")
def several():
    """An output of two numbers, one of three classes, and one of yes or no."""
    inputs = keras.Input((4,))
    hidden = bhn_tf.layers.WeightNormDense(5, activation="tanh")(inputs)
    outputs = {n: keras.layers.Dense(u, name=n)(hidden) for n, u in UNITS.items()}
    network = keras.Model(inputs, outputs)
    return bhn_tf.BayesianHypernet(network, "mean_field", LIKELIHOODS, num_examples=9)


@pytest.fixture(scope="module")
def classifier():
    return networks.bayesian()


@pytest.fixture(scope="module")
def regressor():
    return regression()


def calibrate(model, y, **kwargs):
    return conformal.calibrate(model, X, y, num_samples=3, seed=4, **kwargs)


# -- the same answers everywhere --------------------------------------------------

FRESH = """
import keras, numpy as np, bhn_tf, sys
folder = sys.argv[1]
x = np.load(folder + "/x.npy")
numbers = keras.saving.load_model(folder + "/numbers.keras")
lower, upper = numbers.predict_interval(x, level=0.8, verbose=0)
sets = keras.saving.load_model(folder + "/sets.keras")
by = np.load(folder + "/by.npy")
several = keras.saving.load_model(folder + "/several.keras")
ages = several.predict_interval(x, level=0.8, verbose=0, by=by)
kinds = several.predict_set(x, level=0.8, verbose=0)
np.savez(
    folder + "/answers.npz",
    lower=lower,
    upper=upper,
    set=sets.predict_set(x, level=0.8, verbose=0, by=by),
    mean=sets.predict(x, verbose=0),
    age_lower=ages[0]["age"],
    age_upper=ages[1]["age"],
    kind_set=kinds["kind"],
    late_set=kinds["late"],
)
"""


def test_saved_served_and_local_answers_are_one(tmp_path, regressor, several):
    numbers = calibrate(regressor, Y, score="quantile")
    score = conformal.RAPS(0.05, 2, randomized=True)
    sets = calibrate(dropout(), CLASSES, score=score, by=COLOURS, temperature=True)
    numbers.save(tmp_path / "numbers.keras")
    sets.save(tmp_path / "sets.keras")
    of_all = calibrate(
        several, LABELS, by={"age": COLOURS, "kind": "class"}, temperature=True
    )
    of_all.save(tmp_path / "several.keras")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "by.npy", COLOURS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", FRESH, str(tmp_path)]
    process = subprocess.Popen(command, env=environment)

    lower, upper = numbers.predict_interval(X, level=0.8, verbose=0)
    found = sets.predict_set(X, level=0.8, verbose=0, by=COLOURS)
    mean = sets.predict(X, batch_size=7, verbose=0)
    served = tf.saved_model.load(
        numbers.export(tmp_path / "numbers", "predict_interval")
    )
    request = {"inputs": tf.constant(X), "level": tf.constant(0.8)}
    answers = served.signatures["predict_interval"](**request)
    np.testing.assert_allclose(answers["lower"], lower, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(answers["upper"], upper, rtol=1e-6, atol=1e-6)
    path = sets.export(tmp_path / "sets", metrics={"coverage": 0.8})
    served = tf.saved_model.load(path)
    request["by"] = tf.constant(COLOURS)
    answers = served.signatures["predict_set"](**request)
    np.testing.assert_array_equal(answers["set"], found)
    answers = served.signatures["serving_default"](inputs=tf.constant(X))
    np.testing.assert_allclose(answers["mean"], mean, rtol=1e-6, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not calibrated"):
        served.signatures["predict_set"](
            **{**request, "by": tf.fill([NUM_ROWS], "green")}
        )
    card = json.loads(pathlib.Path(path, "assets.extra/model_card.json").read_text())
    assert card["calibration"]["num_rows"] == NUM_ROWS
    assert card["calibration"]["score"] == "RAPS"
    assert card["calibration"]["by"] == ["blue", "red"]
    assert card["calibration"]["highest_level"] == sets.highest_level
    reached = card["calibration"]["coverage"]
    assert "0.9" in reached and "0.99" not in reached
    for level, coverage in reached.items():
        fewest = min(sets.of_output().counts)
        assert float(level) <= coverage < float(level) + 1 / (fewest + 1)

    lowers, uppers = of_all.predict_interval(X, level=0.8, verbose=0, by=COLOURS)
    kinds = of_all.predict_set(X, level=0.8, verbose=0)
    assert set(lowers) == set(uppers) == {"age"} and set(kinds) == {"kind", "late"}
    asked = ("serving_default", "predict_interval", "predict_set")
    path = of_all.export(tmp_path / "several", asked)
    served = tf.saved_model.load(path).signatures
    request = {"inputs": tf.constant(X), "level": tf.constant(0.8)}
    found_sets = served["predict_set"](**request)
    assert set(found_sets) == {"kind_set", "late_set"}
    bounds = served["predict_interval"](**request, by=tf.constant(COLOURS))
    np.testing.assert_allclose(bounds["age_lower"], lowers["age"], atol=1e-6)
    np.testing.assert_allclose(bounds["age_upper"], uppers["age"], atol=1e-6)
    means = served["serving_default"](inputs=tf.constant(X))
    for name, mean_of_output in of_all.predict(X, verbose=0).items():
        np.testing.assert_allclose(means[f"{name}_mean"], mean_of_output, atol=1e-6)
    card = json.loads(pathlib.Path(path, "assets.extra/model_card.json").read_text())
    assert {k: v["score"] for k, v in card["calibration"].items()} == {
        "age": "Normalized",
        "kind": "LAC",
        "late": "LAC",
    }

    assert process.wait(timeout=300) == 0
    with np.load(tmp_path / "answers.npz") as elsewhere:
        np.testing.assert_allclose(elsewhere["age_lower"], lowers["age"], atol=1e-6)
        np.testing.assert_allclose(elsewhere["age_upper"], uppers["age"], atol=1e-6)
        for name in kinds:
            np.testing.assert_array_equal(elsewhere[f"{name}_set"], kinds[name])
            np.testing.assert_array_equal(found_sets[f"{name}_set"], kinds[name])
        np.testing.assert_allclose(elsewhere["lower"], lower, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(elsewhere["upper"], upper, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(elsewhere["set"], found)
        np.testing.assert_allclose(elsewhere["mean"], mean, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_draws_are_those_of_predict(name, tmp_path):
    model = networks.compiled(MODELS[name]())
    calibrated = calibrate(model, CLASSES)
    expected = model.predict(X, num_samples=3, seed=4, verbose=0)
    np.testing.assert_allclose(calibrated.predict(X, verbose=0), expected, atol=1e-6)
    samples = model.predict_samples(X, num_samples=3, seed=4, verbose=0)
    found = calibrated.predict_samples(X, verbose=0)
    np.testing.assert_allclose(found, samples, atol=1e-6)
    own = 1 - expected[np.arange(NUM_ROWS), CLASSES]
    scores = calibrated.calibration_scores
    np.testing.assert_allclose(scores[:, 0], np.sort(own), atol=1e-6)
    calibrated.save(tmp_path / "calibrated.keras")
    loaded = keras.saving.load_model(tmp_path / "calibrated.keras")
    np.testing.assert_array_equal(loaded.calibration_scores, scores)
    sets = calibrated.predict_set(X, 0.8, verbose=0)
    np.testing.assert_array_equal(loaded.predict_set(X, 0.8, verbose=0), sets)


# -- what is promised -------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "score", [None, "absolute", "quantile", "lower_bound", "upper_bound"]
)
def test_calibration_rows_are_inside_as_often_as_their_rank(score, regressor):
    calibrated = calibrate(regressor, Y, score=score)
    lower, upper = calibrated.predict_interval(X, level=0.8, verbose=0)
    inside = (lower <= Y) & (upper >= Y)
    # 61 · 0.8 = 48.8, for each column; the last row is exactly on the bound.
    rank = np.array([49, 49])
    assert np.all((inside.sum(axis=0) >= rank - 1) & (inside.sum(axis=0) <= rank))


def test_each_class_has_a_promise_of_its_own(classifier):
    calibrated = calibrate(classifier, CLASSES, by="class")
    sets = calibrated.predict_set(X, level=0.8, verbose=0)
    for label in range(networks.NUM_CLASSES):
        assert sets[label == CLASSES, label].mean() >= 0.8


def test_each_group_has_a_promise_of_its_own(regressor):
    calibrated = calibrate(regressor, Y, by=COLOURS)
    lower, upper = calibrated.predict_interval(X, 0.8, verbose=0, by=COLOURS)
    width = upper - lower
    for index, colour in enumerate(("blue", "red")):
        rows = colour == COLOURS
        alone = conformal.calibrate(regressor, X[rows], Y[rows], None, 3, 4)
        limits = calibrated.thresholds(0.8)[index]
        np.testing.assert_allclose(limits, alone.thresholds(0.8)[0], rtol=1e-5)
        own = alone.predict_interval(X[rows], 0.8, verbose=0)
        np.testing.assert_allclose(width[rows], own[1] - own[0], rtol=1e-5)
    for texts in (tf.constant(COLOURS), np.char.encode(COLOURS)):
        again = calibrated.predict_interval(X, 0.8, verbose=0, by=texts)
        np.testing.assert_array_equal(again, (lower, upper))


def test_a_class_without_rows_is_refused_and_no_other_promise_is_hurt(classifier):
    rows = CLASSES != 2
    x, y = X[rows], CLASSES[rows]
    by_class = conformal.calibrate(classifier, x, y, num_samples=2, by="class")
    with pytest.raises(ValueError, match=r"groups \[2\] have \[0\]"):
        by_class.predict_set(X, level=0.8, verbose=0)
    plain = conformal.calibrate(classifier, x, y, num_samples=2)
    assert plain.predict_set(X, level=0.8, verbose=0).shape == (NUM_ROWS, 3)


@pytest.mark.slow
def test_a_temperature_changes_probabilities_and_not_the_sets(classifier):
    plain = calibrate(classifier, CLASSES)
    cooled = calibrate(classifier, CLASSES, temperature=True)
    rows = np.arange(NUM_ROWS)

    def nll(model):
        return -np.log(model.predict(X, verbose=0)[rows, CLASSES]).mean()

    assert cooled.temperature != 1.0
    assert nll(cooled) < nll(plain)
    measured = bhn_tf.metrics.ExpectedCalibrationError()
    after = float(measured(CLASSES, cooled.predict(X, verbose=0)))
    assert cooled.ece_after == pytest.approx(after, abs=1e-5)
    np.testing.assert_array_equal(
        plain.predict_set(X, verbose=0), cooled.predict_set(X, verbose=0)
    )


def test_a_row_of_nan_is_unknown(classifier, regressor):
    x = X[:3].copy()
    x[1, 0] = np.nan
    lower, upper = calibrate(regressor, Y).predict_interval(x, verbose=0)
    assert np.isnan(lower[1]).all() and np.isnan(upper[1]).all()
    assert np.isfinite(lower[[0, 2]]).all()
    sets = calibrate(classifier, CLASSES).predict_set(x, 0.5, verbose=0)
    assert sets[1].all()
    with pytest.raises(ValueError, match="NaN"):
        conformal.calibrate(regressor, x, Y[:3])


def test_one_yes_or_no_output_has_sets_of_two():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    y = (X[:, 0] > 0).astype("int32")
    calibrated = calibrate(Deterministic(network, "bernoulli"), y, temperature=True)
    sets = calibrated.predict_set(X, level=0.8, verbose=0)
    assert sets.shape == (NUM_ROWS, 2)
    assert bhn_tf.metrics.coverage(y, sets) >= 0.8
    assert calibrated.predict(X, verbose=0).shape == (NUM_ROWS, 1)


def test_a_drifted_input_raises_the_alarm_and_others_do_not():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    x, y = networks.data(400)
    calibrated = conformal.calibrate(Deterministic(network), x[:200], y[:200])
    monitor = conformal.DriftMonitor(calibrated, false_alarm_rate=0.01)
    assert not monitor.update(x[200:])
    assert monitor.alarm is False
    assert monitor.update(20 * x[200:])
    assert monitor.alarm is True and monitor.evidence > math.log(100)
    assert 200 < monitor.alarm_at <= monitor.num_rows == 400


def test_only_a_calibrated_model_is_watched(classifier):
    for model in (classifier, None):
        with pytest.raises(TypeError, match=r"got .*`bhn_tf\.conformal\.calibrate\("):
            conformal.DriftMonitor(model)


@pytest.mark.parametrize("seed", [-1, 1.5, "1"])
def test_a_seed_of_a_monitor_is_one(classifier, seed):
    with pytest.raises(ValueError, match="`seed` to be None or a non-negative int"):
        conformal.DriftMonitor(calibrate(classifier, CLASSES), seed=seed)


def test_rejecting_uses_the_scores_of_the_calibration_rows(classifier):
    calibrated = calibrate(classifier, CLASSES)
    answers = classifier.predict_uncertainty(X, num_samples=3, seed=4, verbose=0)
    wrong = answers["mean"].argmax(axis=1) != CLASSES
    expected = conformal.controlled_threshold(
        answers["mutual_information"], wrong, 0.9, 0.7
    )
    found = calibrated.reject_threshold(0.9, 0.7, score="mutual_information")
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.coverage > 0


@keras.saving.register_keras_serializable("tests")
def squared(y, answers):
    return tf.square(y - answers["mean"])


@keras.saving.register_keras_serializable("tests")
def odds(probabilities):
    return (1 - probabilities) / probabilities


@pytest.mark.slow
def test_a_function_is_a_score_and_is_saved(classifier, regressor, tmp_path):
    own, known = (
        calibrate(regressor, Y, score=squared),
        calibrate(regressor, Y, score="absolute"),
    )
    own.save(tmp_path / "own.keras")
    loaded = keras.saving.load_model(tmp_path / "own.keras")
    expected = known.predict_interval(X, 0.8, verbose=0)
    for calibrated in (own, loaded):
        found = calibrated.predict_interval(X, 0.8, verbose=0)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    # Any function that grows with 1 - p orders classes as LAC does.
    own, known = (
        calibrate(classifier, CLASSES, score=odds),
        calibrate(classifier, CLASSES),
    )
    np.testing.assert_array_equal(
        own.predict_set(X, 0.8, verbose=0), known.predict_set(X, 0.8, verbose=0)
    )


@keras.saving.register_keras_serializable("tests")
def falling(y, answers):
    return -tf.abs(y - answers["mean"])


@keras.saving.register_keras_serializable("tests")
def signed(y, answers):
    return y - answers["mean"]


@keras.saving.register_keras_serializable("tests")
def of_a_batch(y, answers):
    return tf.reduce_mean(tf.abs(y - answers["mean"]))


@keras.saving.register_keras_serializable("tests")
def of_rows(y, answers):
    return tf.abs(y - answers["mean"])[:, 0]


@keras.saving.register_keras_serializable("tests")
def of_one_class(probabilities):
    return 1 - probabilities[:, :1]


@pytest.mark.parametrize(
    ("score", "message"),
    [
        # Intervals of these held no row at a level of 0.9, or few at low levels.
        (falling, "smallest at the mean.*miss"),
        (signed, "smallest at the mean.*miss"),
        (of_a_batch, r"returned the shape \(\): expected \(.*, 2\)"),
        (of_rows, "a score for each target"),
        (conformal.Absolute, "expected `score` to be one of.*got <class"),
    ],
)
def test_functions_that_promise_nothing_are_refused(score, message, regressor):
    with pytest.raises(ValueError, match=message):
        calibrate(regressor, Y, score=score)


@keras.saving.register_keras_serializable("tests")
def insensitive(y, answers):
    return tf.nn.relu(tf.abs(y - answers["mean"]) - 0.5)


@keras.saving.register_keras_serializable("tests")
def log_cosh(y, answers):
    """Has few digits at the mean, where it is a difference of nearly equal numbers."""
    distance = 0.05 * tf.abs(y - answers["mean"])
    return distance + tf.nn.softplus(-2 * distance) - tf.math.log(2.0)


@keras.saving.register_keras_serializable("tests")
def overflowing(y, answers):
    return tf.exp(100 * tf.abs(y - answers["mean"]))


@pytest.mark.few(1)
@pytest.mark.parametrize("score", [insensitive, log_cosh, overflowing])
def test_functions_that_are_flat_rounded_or_infinite_hold_their_share(score, regressor):
    calibrated = calibrate(regressor, Y, score=score)
    for level in (0.1, 0.9):
        lower, upper = calibrated.predict_interval(X, level=level, verbose=0)
        assert np.mean((lower <= Y) & (upper >= Y)) >= level


def test_a_function_gives_each_class_a_score(classifier):
    with pytest.raises(ValueError, match="a score for each class of each row"):
        calibrate(classifier, CLASSES, score=of_one_class)


def test_a_function_that_no_file_can_name_is_warned_of(regressor):
    with pytest.warns(UserWarning, match="not registered.*register_keras"):
        calibrate(regressor, Y, score=lambda y, answers: tf.abs(y - answers["mean"]))


def test_several_inputs_of_other_kinds_with_groups():
    words, numbers = keras.Input((2,), dtype="int32"), keras.Input((4,))
    embedded = keras.layers.Flatten()(keras.layers.Embedding(9, 2)(words))
    joined = keras.layers.Concatenate()([embedded, numbers])
    network = keras.Model([words, numbers], keras.layers.Dense(3)(joined))
    x = [np.arange(2 * NUM_ROWS).reshape(-1, 2) % 9, X.astype("float64")]
    calibrated = conformal.calibrate(
        Deterministic(network), x, CLASSES, conformal.APS(randomized=True), by=COLOURS
    )
    sets = calibrated.predict_set(x, 0.8, verbose=0, by=COLOURS)
    for colour in ("blue", "red"):
        rows = colour == COLOURS
        assert bhn_tf.metrics.coverage(CLASSES[rows], sets[rows]) >= 0.8
    # A row's set depends neither on the batch nor on its neighbours.
    part = [leaf[20:23] for leaf in x]
    alone = calibrated.predict_set(part, 0.8, verbose=0, by=COLOURS[20:23])
    np.testing.assert_array_equal(alone, sets[20:23])


# -- what is refused --------------------------------------------------------------


def test_what_makes_no_sense_is_refused_with_advice(classifier, regressor):
    with pytest.raises(ValueError, match="aps"):
        calibrate(classifier, CLASSES, score="quantile")
    with pytest.raises(ValueError, match="quantile"):
        calibrate(regressor, Y, score=conformal.LAC())
    with pytest.raises(ValueError, match="temperature"):
        calibrate(regressor, Y, temperature=True)
    with pytest.raises(ValueError, match="by"):
        calibrate(regressor, Y, by="class")
    with pytest.raises(ValueError, match="as arrays"):
        conformal.calibrate(regressor, tf.data.Dataset.from_tensors((X, Y)))
    with pytest.raises(ValueError, match="60 rows"):
        calibrate(regressor, Y, by=COLOURS[:5])
    for score in ({}, {"age": "absolute"}):
        with pytest.raises(ValueError, match="the model has one output"):
            calibrate(regressor, Y, score=score)
    calibrated = calibrate(regressor, Y, by=COLOURS)
    for by in ({}, {"age": COLOURS}):
        with pytest.raises(ValueError, match="the model has one output"):
            calibrated.predict_interval(X, verbose=0, by=by)
    with pytest.raises(ValueError, match="by groups"):
        calibrated.predict_interval(X, verbose=0)
    with pytest.raises(ValueError, match=r"\['green'\]"):
        calibrated.predict_interval(X[:1], verbose=0, by=["green"])
    with pytest.raises(ValueError, match="predict_interval"):
        calibrated.predict_set(X)
    with pytest.raises(ValueError, match="99 calibration rows"):
        calibrated.predict_interval(X, 0.99, verbose=0, by=COLOURS)


# -- what the wrapped model takes and refuses ---------------------------------------


@pytest.mark.parametrize(
    ("x", "words"),
    [((255 * np.abs(X)).astype("uint8"), "uint8"), (X.astype("str"), "are text")],
)
def test_what_the_model_refuses_is_refused(x, words, classifier):
    calibrated = calibrate(classifier, CLASSES)
    for ask in (classifier.predict, calibrated.predict, calibrated.predict_set):
        with pytest.raises(ValueError, match=words):
            ask(x, verbose=0)


@pytest.mark.slow
def test_sparse_rows_are_rows(classifier):
    x = scipy.sparse.csr_matrix(X)
    sparse = conformal.calibrate(classifier, x, CLASSES, num_samples=3, by=COLOURS)
    dense = conformal.calibrate(classifier, X, CLASSES, num_samples=3, by=COLOURS)
    np.testing.assert_array_equal(
        sparse.predict_set(x, 0.8, by=COLOURS, verbose=0),
        dense.predict_set(X, 0.8, by=COLOURS, verbose=0),
    )


@pytest.mark.parametrize("argument", ["steps", "batch_size"])
def test_what_is_no_number_of_batches_is_refused(classifier, argument):
    calibrated = calibrate(classifier, CLASSES)
    for ask in (calibrated.predict, calibrated.predict_set):
        with pytest.raises(ValueError, match=f"`{argument}` .* at least 1, got -1"):
            ask(X, verbose=0, **{argument: -1})


def test_steps_are_of_the_batches_that_were_asked_for(classifier, monkeypatch):
    calibrated = calibrate(classifier, CLASSES)
    every = calibrated.predict_set(X, 0.8, verbose=0)
    monkeypatch.setattr("bhn_tf.models.answers._MOST_SAMPLES", 3 * 3 * 4)
    found = calibrated.predict_set(X, 0.8, batch_size=10, steps=3, verbose=0)
    np.testing.assert_array_equal(found, every[:30])


@pytest.mark.slow
def test_a_number_too_large_for_the_network_is_unknown_everywhere(classifier):
    x = X.astype("float64")
    x[1, 0] = 1e39
    data = tf.data.Dataset.from_tensors((x, CLASSES))
    with np.errstate(over="ignore"):  # Keras makes float32 of arrays.
        answers = (
            classifier.predict(x, num_samples=3, verbose=0),
            classifier.predict_on_batch(x),
            classifier.predict(data, verbose=0),
        )
    for answer in answers:
        assert np.isnan(answer[1]).all() and np.isfinite(answer[0]).all()
    calibrated = calibrate(classifier, CLASSES, by=COLOURS)
    assert calibrated.predict_set(x, 0.8, by=COLOURS, verbose=0)[1].all()
    classifier.compile("sgd")
    with pytest.raises(ValueError, match="infinite"):
        classifier.fit(data, verbose=0)


def test_what_is_frozen_names_the_model_to_train(classifier):
    calibrated = conformal.calibrate(classifier, X, CLASSES, num_samples=2)
    for ask in (
        lambda: calibrated.compile("adam", metrics=["accuracy"]),
        lambda: calibrated.fit(X, CLASSES),
        lambda: calibrated.evaluate(X, CLASSES),
        lambda: calibrated.train_on_batch(X, CLASSES),
        lambda: calibrated.test_on_batch(X, CLASSES),
        lambda: calibrated.quantize("int8"),
    ):
        with pytest.raises(ValueError, match=r"`calibrated\.model\.\w+\(\.\.\.\)`"):
            ask()
    with pytest.raises(TypeError, match=r"got Calibrated\. Give .* its `model`"):
        conformal.calibrate(calibrated, X, CLASSES)
    with pytest.raises(TypeError, match=r"got Sequential\. .*from_keras"):
        conformal.calibrate(networks.plain(), X, CLASSES)
