"""Labels under a mask, or of weight 0, change nothing, whatever they hold."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.data_feeds import feed_of
from bhn_tf.layers import WeightNormDense
from bhn_tf.models.targets import warn_of_units

ROWS, STEPS = 10, 4
GENERATOR = np.random.default_rng(0)
REAL = np.arange(STEPS) < GENERATOR.integers(1, STEPS, size=ROWS)[:, None]
SEQUENCES = np.where(REAL[..., None], GENERATOR.normal(size=(ROWS, STEPS, 2)), 0.0)
X = GENERATOR.normal(size=(ROWS, 3))
Y = 4.0 + 2.0 * GENERATOR.normal(size=(ROWS, 2))
#: Weights of elements, some of them 0.
WEIGHTS = np.where(GENERATOR.uniform(size=(ROWS, 2)) < 0.3, 0.0, 2.0)
WEIGHTS[0] = [0.0, 1.0]


def without(values, counted, other):
    """Labels in which those that do not count are replaced by something else."""
    return np.where(counted, values, other).astype("float32")


def regression(num_outputs=2, **kwargs):
    layers = [keras.Input((3,)), keras.layers.Dense(num_outputs)]
    return bhn_tf.baselines.Deterministic(
        keras.Sequential(layers), "gaussian", **kwargs
    )


def tagger(**kwargs):
    """One number for each step."""
    return keras.Sequential(
        [
            keras.Input((STEPS, 2)),
            keras.layers.Masking(),
            WeightNormDense(3, activation="tanh", **kwargs),
            WeightNormDense(1, **kwargs),
        ]
    )


def two_outputs():
    inputs = keras.Input((STEPS, 2))
    steps = keras.layers.Masking()(inputs)
    whole = keras.layers.Flatten()(inputs)
    outputs = {
        "steps": keras.layers.Dense(1, name="steps")(steps),
        "whole": keras.layers.Dense(2, name="whole")(whole),
    }
    return keras.Model(inputs, outputs)


def metrics_of_numbers():
    return [
        "mae",
        keras.metrics.MeanSquaredError(name="mse"),
        keras.losses.huber,
        keras.metrics.RootMeanSquaredError(name="rmse"),
        keras.metrics.R2Score(name="r2"),
    ]


def test_metrics_of_weighted_elements_are_weighted_means():
    model = regression()
    model.compile("sgd", weighted_metrics=metrics_of_numbers())
    arguments = {"sample_weight": WEIGHTS, "return_dict": True, "verbose": 0}
    error = model.predict(X, verbose=0) - Y
    square = np.average(error**2, weights=WEIGHTS)
    found = [
        model.evaluate(X, without(Y, WEIGHTS > 0, other), batch_size=4, **arguments)
        for other in (7.0, np.nan)
    ]
    for logs in found:
        assert logs["mae"] == pytest.approx(
            np.average(np.abs(error), weights=WEIGHTS), rel=1e-5
        )
        assert logs["mse"] == pytest.approx(square, rel=1e-5)
        assert logs["rmse"] == pytest.approx(np.sqrt(square), rel=1e-5)
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    history = model.fit(
        X, without(Y, WEIGHTS > 0, np.nan), sample_weight=WEIGHTS, verbose=0
    )
    assert np.isfinite([value for (value,) in history.history.values()]).all()


def test_metrics_of_weighted_rows_do_not_see_labels_of_weight_0():
    model = regression(1)
    model.compile("sgd", weighted_metrics=metrics_of_numbers())
    arguments = {"sample_weight": WEIGHTS[:, 0], "return_dict": True, "verbose": 0}
    logs = [
        model.evaluate(X, without(Y[:, 0], WEIGHTS[:, 0] > 0, other), **arguments)
        for other in (7.0, np.nan)
    ]
    assert logs[0] == pytest.approx(logs[1], rel=1e-6)


def test_metrics_of_classes_do_not_see_labels_of_weight_0():
    layers = [keras.Input((3,)), keras.layers.Dense(4)]
    model = bhn_tf.baselines.Deterministic(keras.Sequential(layers))
    crossentropy = keras.metrics.SparseCategoricalCrossentropy(name="crossentropy")
    model.compile("sgd", weighted_metrics=["accuracy", crossentropy])
    weight = WEIGHTS[:, 0]
    arguments = {"sample_weight": weight, "return_dict": True, "verbose": 0}
    logs = [
        model.evaluate(X, np.where(weight > 0, 2, other), **arguments)
        for other in (0, -1)
    ]
    assert logs[0] == pytest.approx(logs[1])


@pytest.mark.few(1)
@pytest.mark.parametrize("void", [255, -1, 1])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_metrics_do_not_see_missing_labels(void, is_weighted):
    network = keras.Sequential([keras.Input((STEPS, 2)), keras.layers.Dense(3)])
    likelihood = bhn_tf.likelihoods.Categorical(ignore_class=void)
    model = bhn_tf.baselines.Deterministic(network, likelihood)
    ece = bhn_tf.metrics.ExpectedCalibrationError(5)
    metrics = ["accuracy", bhn_tf.metrics.BrierScore(), ece]
    model.compile("sgd", **{"weighted_metrics" if is_weighted else "metrics": metrics})
    classes = GENERATOR.integers(0, 3, size=(ROWS, STEPS))
    labels = np.where(REAL, np.where(classes == void, 0, classes), void)
    weights = 1.0 + np.arange(ROWS) if is_weighted else None
    logs = model.evaluate(
        SEQUENCES, labels, sample_weight=weights, return_dict=True, verbose=0
    )
    p = model.predict(SEQUENCES, verbose=0)
    of_rows = np.ones(ROWS) if weights is None else weights
    counts = np.where(REAL, of_rows[:, None], 0.0)
    one_hot = np.eye(3)[np.where(REAL, labels, 0)]
    is_right = p.argmax(axis=-1) == labels
    brier = np.square(p - one_hot).sum(axis=-1)
    for name, values in (("accuracy", is_right), ("brier_score", brier)):
        assert logs[name] == pytest.approx(np.average(values, weights=counts), 1e-5)
    wanted = bhn_tf.metrics.ExpectedCalibrationError(5)(one_hot, p, counts)
    assert logs["expected_calibration_error"] == pytest.approx(float(wanted), 1e-4)


def right_in_row(y, p):
    """A metric with a value for each row, such as the overlap in an image."""
    is_right = tf.cast(y, tf.int64) == tf.argmax(p, axis=-1)
    return tf.reduce_mean(tf.cast(is_right, "float32"), axis=-1)


def largest(y, p):
    """A metric with one value for a batch."""
    return tf.reduce_max(p)


@pytest.mark.slow
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_missing_labels_and_metrics_of_all_kinds(run_eagerly):
    network = keras.Sequential([keras.Input((STEPS, 2)), keras.layers.Dense(3)])
    likelihood = bhn_tf.likelihoods.Categorical(ignore_class=255)
    model = bhn_tf.baselines.Deterministic(network, likelihood)
    overlap = keras.metrics.MeanIoU(3, ignore_class=255, sparse_y_pred=False)
    metrics = ["sparse_categorical_crossentropy", overlap, right_in_row, largest]
    model.compile("sgd", metrics=metrics, run_eagerly=run_eagerly)
    classes = GENERATOR.integers(0, 3, size=(ROWS, STEPS))
    labels = np.where(REAL, classes, 255)
    logs = model.evaluate(SEQUENCES, labels, ROWS, return_dict=True, verbose=0)
    p = model.predict(SEQUENCES, verbose=0)
    nll = -np.log(np.take_along_axis(p, classes[..., None], axis=-1))[..., 0]
    assert logs["sparse_categorical_crossentropy"] == pytest.approx(nll[REAL].mean())
    overlap.reset_state()
    assert logs[overlap.name] == pytest.approx(float(overlap(labels, p)))
    assert logs["right_in_row"] == pytest.approx(
        float(np.mean(right_in_row(labels, p)))
    )
    assert logs["largest"] == pytest.approx(p.max())


def test_metrics_do_not_see_what_is_masked():
    y = np.where(REAL, GENERATOR.normal(size=REAL.shape), 0.0)[..., None]
    model = bhn_tf.baselines.Deterministic(tagger(), "gaussian")
    model.compile("sgd", metrics=["mae", largest], weighted_metrics=["mse"])
    mean = model.predict(SEQUENCES, verbose=0)
    for other in (0.0, np.nan):
        labels = without(y, REAL[..., None], other)
        logs = model.evaluate(SEQUENCES, labels, return_dict=True, verbose=0)
        error = (mean - y)[REAL]
        assert logs["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
        assert logs["mse"] == pytest.approx(np.square(error).mean(), rel=1e-5)
        # No mask fits it, and there is one.
        assert logs["largest"] == pytest.approx(mean.max(), rel=1e-6)


@pytest.mark.slow
def test_metrics_of_several_outputs_see_what_counts_in_each():
    model = bhn_tf.baselines.Deterministic(
        two_outputs(), {"steps": "gaussian", "whole": "gaussian"}
    )
    model.compile("sgd", weighted_metrics={"steps": ["mae"], "whole": ["mae"]})
    steps = GENERATOR.normal(size=(ROWS, STEPS, 1))
    found = []
    for other in (3.0, np.nan):
        y = {
            "steps": without(steps, REAL[..., None], other),
            "whole": without(Y, WEIGHTS > 0, other),
        }
        weight = {"steps": np.ones(ROWS), "whole": WEIGHTS}
        data = tf.data.Dataset.from_tensor_slices((SEQUENCES, y, weight)).batch(4)
        found.append(model.evaluate(data, return_dict=True, verbose=0))
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    mean = model.predict(SEQUENCES, verbose=0)
    assert found[1]["steps_mae"] == pytest.approx(
        np.abs(mean["steps"] - steps)[REAL].mean(), rel=1e-5
    )
    assert found[1]["whole_mae"] == pytest.approx(
        np.average(np.abs(mean["whole"] - Y), weights=WEIGHTS), rel=1e-5
    )


class InUnits(keras.metrics.MeanAbsoluteError):
    """A mean metric that knows which axis is the last."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        units = [1.0, 10.0]
        super().update_state(y_true * units, y_pred * units, sample_weight)


@pytest.mark.parametrize(
    "metric",
    [keras.metrics.CosineSimilarity(name="own"), InUnits(name="own")],
    ids=["cosine", "subclass"],
)
def test_a_metric_that_takes_no_weights_of_elements_is_named(metric):
    model = regression()
    model.compile("sgd", weighted_metrics=[metric])
    with pytest.raises(ValueError, match="'own', .* has no value for each"):
        model.evaluate(X, Y, sample_weight=WEIGHTS, verbose=0)


def test_metrics_of_weighted_answers_of_yes_or_no():
    layers = [keras.Input((3,)), keras.layers.Dense(2, activation="sigmoid")]
    model = bhn_tf.baselines.Deterministic(keras.Sequential(layers), "bernoulli")
    y = (Y > 4).astype("float32")
    arguments = {"sample_weight": WEIGHTS, "return_dict": True, "verbose": 0}
    focal = keras.losses.binary_focal_crossentropy
    model.compile("sgd", weighted_metrics=["binary_accuracy", focal])
    logs = model.evaluate(X, y, **arguments)
    mean = model.predict(X, verbose=0)
    assert logs["binary_accuracy"] == pytest.approx(
        np.average((mean > 0.5) == y, weights=WEIGHTS)
    )
    of_label = np.where(y == 1, mean, 1 - mean)
    assert logs["binary_focal_crossentropy"] == pytest.approx(
        np.average(-np.log(of_label) * (1 - of_label) ** 2, weights=WEIGHTS), rel=1e-5
    )
    # As in Keras, "accuracy" of several columns is that of the largest.
    model.compile("sgd", weighted_metrics=["accuracy"])
    with pytest.raises(ValueError, match="CategoricalAccuracy.*'binary_accuracy'"):
        model.evaluate(X, y, **arguments)


@pytest.mark.few(1)
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_metrics_of_steps_whose_labels_lack_the_last_axis(is_masked, is_weighted):
    network = tagger()
    if not is_masked:
        network = keras.Sequential([keras.Input((STEPS, 2)), *network.layers[1:]])
    model = bhn_tf.baselines.Deterministic(network, "gaussian")
    similarity = keras.metrics.CosineSimilarity(name="similarity")
    model.compile("sgd", metrics=["mae", similarity], weighted_metrics=["mse"])
    y = GENERATOR.normal(size=(ROWS, STEPS)).astype("float32")
    weight = GENERATOR.uniform(size=(ROWS, STEPS)) if is_weighted else None
    arguments = {"sample_weight": weight, "return_dict": True, "verbose": 0}
    logs = model.evaluate(SEQUENCES, y, batch_size=4, **arguments)
    mean = model.predict(SEQUENCES, verbose=0)[..., 0]
    counted = REAL if is_masked else np.ones_like(REAL)
    assert logs["mae"] == pytest.approx(np.abs(mean - y)[counted].mean(), rel=1e-5)
    weights = (1.0 if weight is None else weight) * counted
    assert logs["mse"] == pytest.approx(
        np.average((mean - y) ** 2, weights=weights), rel=1e-5
    )
    if not is_masked:
        # What works in stock Keras has its numbers.
        similarity = keras.metrics.CosineSimilarity(name="similarity")
        network.compile(loss="mse", metrics=[similarity])
        stock = network.evaluate(SEQUENCES, y, return_dict=True, verbose=0)
        assert logs["similarity"] == pytest.approx(stock["similarity"], rel=1e-5)


#: Numbers of the steps that are not padding.
STEPS_Y = 40.0 + 9.0 * GENERATOR.normal(size=(ROWS, STEPS, 1))


def as_arrays(x, y, weight=None):
    return {"x": x, "y": y, "sample_weight": weight}


def as_dataset(*arrays):
    arrays = tuple(values for values in arrays if values is not None)
    return {"x": tf.data.Dataset.from_tensor_slices(arrays).batch(4)}


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", [as_arrays, as_dataset])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("other", [0.0, np.nan])
def test_units_are_those_of_what_counts(kind, is_weighted, other):
    weight = np.repeat([[0.0, 1.0, 2.0, 3.0]], ROWS, axis=0) if is_weighted else None
    model = bhn_tf.baselines.Deterministic(tagger(), "gaussian", normalize_targets=True)
    model.compile("sgd", run_eagerly=True)
    y = without(STEPS_Y, REAL[..., None], other)
    model.fit(**kind(SEQUENCES, y, weight), verbose=0)
    weights = (1.0 if weight is None else weight) * REAL
    loc = np.average(STEPS_Y[..., 0], weights=weights)
    scale = np.sqrt(np.average((STEPS_Y[..., 0] - loc) ** 2, weights=weights))
    np.testing.assert_allclose(model.likelihood.loc, [loc], rtol=1e-5)
    np.testing.assert_allclose(model.likelihood.scale, [scale], rtol=1e-5)


def test_units_of_several_outputs_are_those_of_what_counts_in_each():
    model = bhn_tf.baselines.Deterministic(
        two_outputs(),
        {"steps": "gaussian", "whole": "gaussian"},
        normalize_targets=True,
    )
    model.compile("sgd", run_eagerly=True)
    y = {"steps": without(STEPS_Y, REAL[..., None], np.nan), "whole": Y}
    model.fit(SEQUENCES, y, verbose=0)
    steps, whole = model.likelihood.parts
    np.testing.assert_allclose(steps.loc, [STEPS_Y[REAL].mean()], rtol=1e-5)
    np.testing.assert_allclose(whole.loc, Y.mean(axis=0), rtol=1e-5)


def test_padding_is_not_warned_of():
    """Only padding is far; a warning would be an error in the tests."""
    model = bhn_tf.baselines.Deterministic(tagger(), "gaussian")
    model.compile("sgd", run_eagerly=True)
    model.fit(SEQUENCES, without(STEPS_Y / 40, REAL[..., None], 1e4), verbose=0)
    with pytest.warns(UserWarning, match="normalize_targets=True"):
        model.fit(SEQUENCES, without(STEPS_Y, REAL[..., None], 0.0), verbose=0)


def test_the_first_rows_show_whether_targets_are_far():
    """Not every row is passed through the network before training."""
    model = bhn_tf.baselines.Deterministic(tagger(), "gaussian")
    repetitions = 3000 // ROWS
    x, y = (
        np.tile(SEQUENCES, (repetitions, 1, 1)),
        np.tile(STEPS_Y, (repetitions, 1, 1)),
    )
    rows = []

    def padding(inputs):
        rows.append(len(inputs))
        return np.tile(REAL, (repetitions, 1))[: len(inputs)]

    feed = feed_of(x, y / 40)
    feed.y[0] = 11.0
    warn_of_units(model.likelihood, feed, padding)
    with pytest.warns(UserWarning, match="normalize_targets=True"):
        warn_of_units(model.likelihood, feed_of(x, y), padding)
    assert rows == [1024, 1024]


@pytest.mark.parametrize("other", [0.0, np.nan])
def test_noise_starts_at_the_spread_of_what_counts(other):
    likelihood = bhn_tf.likelihoods.Gaussian(trainable=True)
    model = bhn_tf.BayesianHypernet(tagger(), "mean_field", likelihood)
    y = without(STEPS_Y, REAL[..., None], other)
    model.initialize_from_data(SEQUENCES, y)
    assert model.likelihood.stddev == pytest.approx(y[REAL].std(), rel=1e-5)


@pytest.mark.parametrize("random", ["scale", "none"])
def test_layers_are_standardised_over_what_is_no_padding(random):
    hypernet = bhn_tf.hypernets.MeanField(initial_stddev=1e-9)
    model = bhn_tf.BayesianHypernet(tagger(random=random), hypernet, "gaussian")
    assert model.initialize_from_data(SEQUENCES)
    outputs = model.predict(SEQUENCES, num_samples=0, verbose=0)[REAL]
    np.testing.assert_allclose(outputs.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(outputs.std(axis=0), 1, atol=1e-4)
