"""`fit`, optimizers and layers with state give stock Keras's numbers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import WeightNormDense
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
    dense,
    network_of,
    twins,
)

ARGUMENTS = {"batch_size": 5, "shuffle": False, "verbose": 0}
WEIGHTS = np.array([1.0, 0.0, 5.0] * 4, "float32")


def assert_same_fit(stock, model, *args, rtol=1e-5, **kwargs):
    arguments = {**ARGUMENTS, "epochs": 2, **kwargs}
    args = args or (X, Y)
    expected = stock.fit(*args, **arguments).history
    history = model.fit(*args, **arguments).history
    assert_same_logs(expected, history)
    assert_same_weights(stock, model)
    return expected, history


def dataset(rows=slice(None)):
    return tf.data.Dataset.from_tensor_slices((X[rows], Y[rows])).batch(5)


@pytest.mark.few(4)
@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize(
    "options",
    [
        {"validation_split": 0.25},
        {"validation_data": (X[:7], Y[:7])},
        {"validation_data": (X[:6], Y[:6], WEIGHTS[:6]), "validation_batch_size": 4},
        {"validation_data": dataset(slice(7))},
        {"validation_data": dataset(), "validation_steps": 1, "validation_freq": 2},
        {"steps_per_epoch": 1},
        {"sample_weight": WEIGHTS, "validation_split": 0.5},
        {"initial_epoch": 1, "epochs": 3},
    ],
    ids=lambda options: "-".join(options),
)
def test_options_of_fit(ours, options):
    stock, model = twins(
        ours=OURS[ours], metrics=["accuracy"], weighted_metrics=["accuracy"]
    )
    assert_same_fit(stock, model, **options)


def test_shuffled_batches():
    """`shuffle="batch"` is for HDF5; with one batch there is one order."""
    stock, model = twins()
    assert_same_fit(stock, model, shuffle="batch", batch_size=ROWS)


def test_an_endless_validation_set():
    def endless():
        while True:
            yield X[:5], Y[:5]

    stock, model = twins(metrics=["accuracy"])
    expected = stock.fit(
        X, Y, validation_data=endless(), validation_steps=2, **ARGUMENTS
    )
    found = model.fit(X, Y, validation_data=endless(), validation_steps=2, **ARGUMENTS)
    assert_same_logs(expected.history, found.history)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {"run_eagerly": False},
        {"run_eagerly": False, "steps_per_execution": 2},
        {"run_eagerly": False, "jit_compile": True},
    ],
    ids=["graph", "steps_per_execution", "jit_compile"],
)
def test_compiled_steps(options):
    stock, model = twins(metrics=["accuracy"], **options)
    assert_same_fit(stock, model, batch_size=3, validation_split=0.5)
    found = model.predict(X, num_samples=0, verbose=0)
    assert found == pytest.approx(
        keras.ops.softmax(stock.predict(X, verbose=0)), abs=1e-5
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {"use_ema": True, "ema_momentum": 0.5},
        {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
        {"gradient_accumulation_steps": 2},
        {"clipnorm": 0.01},
        {"global_clipnorm": 0.01},
        {"clipvalue": 0.01},
        {"weight_decay": 0.1},
        {"loss_scale_factor": 8.0},
    ],
    ids=lambda options: "-".join(options),
)
def test_optimizers(options):
    optimizer = (
        keras.optimizers.AdamW if "weight_decay" in options else keras.optimizers.SGD
    )
    stock, model = twins(optimizer=lambda: optimizer(0.1, **options))
    assert_same_fit(stock, model, batch_size=3)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_policies(policy):
    def make():
        # The network has a `softmax`, so that both losses start from its output.
        return keras.Sequential(
            [
                keras.Input((FEATURES,), dtype="float32"),
                keras.layers.Dense(5, activation="relu", dtype=policy),
                keras.layers.Dense(CLASSES, dtype="float32"),
            ]
        )

    stock, model = twins(make)
    assert_same_fit(stock, model)


# -- layers --------------------------------------------------------------------------


def network(*layers, inputs=(FEATURES,), **kwargs):
    return keras.Sequential(
        [
            keras.Input(inputs, **kwargs),
            *layers,
            WeightNormDense(CLASSES, random="none"),
        ]
    )


@keras.saving.register_keras_serializable("tests")
class LossOfItsOwn(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


LAYERS = {
    "weights regularised": lambda: keras.layers.Dense(5, kernel_regularizer="l2"),
    "activity regularised": lambda: keras.layers.Dense(5, activity_regularizer="l2"),
    "constrained": lambda: keras.layers.Dense(5, kernel_constraint="unit_norm"),
    "frozen": lambda: keras.layers.Dense(5, trainable=False),
    "normalised": lambda: keras.layers.BatchNormalization(momentum=0.5),
    "dropout": lambda: keras.layers.Dropout(0.5, seed=1),
    "noise": lambda: keras.layers.GaussianNoise(0.5, seed=1),
    "a loss of its own": LossOfItsOwn,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "ours",
    ["bayesian", pytest.param("deterministic", marks=pytest.mark.slow)],
)
def test_layers(ours, name):
    stock, model = twins(lambda: network(LAYERS[name]()), OURS[ours])
    assert_same_fit(stock, model, validation_split=0.25)


def test_state_of_recurrent_layers_moves_as_in_stock_keras():
    sequences = X[:, :, None]

    def make():
        return network(
            keras.layers.SimpleRNN(3, stateful=True),
            inputs=(FEATURES, 1),
            batch_size=6,
        )

    stock, model = twins(make)
    arguments = {"batch_size": 6, "shuffle": False, "verbose": 0}
    expected = stock.fit(sequences, Y, **arguments).history
    assert_same_logs(expected, model.fit(sequences, Y, **arguments).history)
    assert_same_weights(stock, model)
    for _ in range(2):
        expected = keras.ops.softmax(stock.predict(sequences, batch_size=6, verbose=0))
        found = model.predict(sequences, batch_size=6, verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        expected = stock.evaluate(sequences, Y, 6, verbose=0)
        logs = model.evaluate(sequences, Y, 6, verbose=0, return_dict=True)
        assert logs["loss"] == pytest.approx(expected, rel=1e-5)


# -- the model as an object -----------------------------------------------------------


@pytest.mark.slow
def test_compile_twice():
    stock, model = twins(metrics=["accuracy"])
    assert_same_fit(stock, model)
    stock.compile(keras.optimizers.Adam(), crossentropy(), weighted_metrics=["mse"])
    stock.compile(
        keras.optimizers.Adam(0.1),
        crossentropy(),
        metrics=["accuracy"],
        run_eagerly=True,
    )
    model.compile(keras.optimizers.Adam(), weighted_metrics=["mse"])
    model.compile(keras.optimizers.Adam(0.1), metrics=["accuracy"], run_eagerly=True)
    _, history = assert_same_fit(stock, model)
    assert "mse" not in history


@pytest.mark.slow
def test_without_an_optimizer_a_model_evaluates(tmp_path):
    stock, model = twins()
    stock.compile(None, crossentropy(), metrics=["accuracy"])
    model.compile(None, metrics=["accuracy"])
    arguments = {"verbose": 0, "return_dict": True}
    expected = stock.evaluate(X, Y, **arguments)
    model.num_examples = len(X)
    assert_same_logs(expected, model.evaluate(X, Y, **arguments))
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    assert_same_logs(expected, loaded.evaluate(X, Y, **arguments))
    for call in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match="needs an optimizer"):
            call(X, Y)


@pytest.mark.slow
def test_frozen_and_thawed():
    stock, model = twins()
    for trainable in (False, True):
        for inner in (stock, network_of(model)):
            inner.layers[0].trainable = trainable
        stock.compile("sgd", crossentropy(), run_eagerly=True)
        model.compile("sgd", run_eagerly=True)
        assert_same_fit(stock, model)


def test_batches_one_by_one_accumulate_their_metrics():
    stock, model = twins(metrics=["accuracy"])
    for _ in range(2):
        for rows in (slice(5), slice(5, ROWS)):
            expected = stock.train_on_batch(X[rows], Y[rows], return_dict=True)
            logs = model.train_on_batch(X[rows], Y[rows], return_dict=True)
            assert_same_logs(expected, logs)
    for _ in range(2):
        # Before 3.15, stock Keras goes on with the sums of earlier training.
        model.reset_metrics()
        stock.reset_metrics()
        expected = stock.test_on_batch(X, Y, return_dict=True)
        assert_same_logs(expected, model.test_on_batch(X, Y, return_dict=True))
    assert_same_weights(stock, model)


@pytest.mark.parametrize("weighted", [False, True])
def test_names_belong_to_values(weighted):
    _, model = twins(
        metrics=["accuracy", "mse"] if weighted else [], weighted_metrics=["accuracy"]
    )
    model.fit(X, np.eye(CLASSES)[Y], verbose=0)
    y = np.eye(CLASSES)[Y]
    values = model.evaluate(X, y, verbose=0)
    logs = model.evaluate(X, y, verbose=0, return_dict=True)
    assert dict(zip(model.metrics_names, values, strict=True)) == pytest.approx(logs)


class Counts(keras.metrics.Metric):
    """A metric with several results."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rows = self.add_weight(initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.rows.assign_add(len(y_pred))

    def result(self):
        return {"rows": self.rows + 0, "twice": 2 * self.rows}


def test_names_belong_to_values_of_a_metric_with_several():
    stock, model = twins(metrics=[Counts(), "accuracy"])
    expected = stock.evaluate(X, Y, verbose=0, return_dict=True)
    values = model.evaluate(X, Y, verbose=0)
    logs = dict(zip(model.metrics_names, values, strict=True))
    assert logs["rows"] == ROWS and logs["twice"] == 2 * ROWS
    assert_same_logs(expected, logs)


def test_a_data_set_that_repeats_itself_warns_of_n():
    model = bayesian(dense())
    model.compile("sgd", run_eagerly=True)
    with pytest.warns(UserWarning, match="repeats itself.*num_examples"):
        model.fit(dataset().repeat(3), verbose=0)


@pytest.mark.slow
def test_early_stopping_restores_and_stops_as_in_stock_keras():
    def stopping():
        return [
            keras.callbacks.EarlyStopping(
                "val_loss", patience=1, restore_best_weights=True
            ),
            keras.callbacks.ReduceLROnPlateau("loss", patience=1),
        ]

    stock, model = twins(optimizer=lambda: keras.optimizers.SGD(10.0))
    options = {**ARGUMENTS, "epochs": 6, "validation_data": (X[::-1], Y)}
    expected = stock.fit(X, Y, callbacks=stopping(), **options).history
    history = model.fit(X, Y, callbacks=stopping(), **options).history
    assert len(history["loss"]) < 6
    assert_same_logs(expected, history)
    assert_same_weights(stock, model)
