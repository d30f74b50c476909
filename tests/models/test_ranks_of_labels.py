"""Labels may come in another number of axes each time, also in validation."""

import keras
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense
from tests import networks

X, _ = networks.data(6)
Y = X[:, :1]
QUIET = {"verbose": 0}


def regression(*more):
    network = keras.Sequential([keras.Input((4,)), *more, WeightNormDense(1)])
    model = bhn_tf.BayesianHypernet(network, "mean_field", "gaussian")
    model.compile("sgd", metrics=["mae"])
    return model


@pytest.mark.slow
def test_validation_after_labels_with_fewer_axes():
    model = regression()
    model.fit(X, Y, validation_data=(X, Y[:, 0]), **QUIET)
    model.fit(X, Y, validation_data=(X, Y), **QUIET)
    model.evaluate(X, Y[:, 0], **QUIET)
    model.fit(X, Y, validation_split=0.5, **QUIET)


@pytest.mark.slow
def test_an_evaluation_with_fewer_axes_between_two_validations():
    model = regression()

    class Evaluate(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["flat"] = model.evaluate(X, Y[:, 0], seed=epoch, **QUIET)[0]

    arguments = {"epochs": 2, "validation_data": (X, Y), "callbacks": [Evaluate()]}
    history = model.fit(X, Y, **arguments, **QUIET).history
    assert history["flat"][-1] == pytest.approx(
        model.evaluate(X, Y, seed=1, **QUIET)[0], rel=1e-5
    )


def test_a_column_of_class_numbers_before_one_hot_rows():
    model = networks.bayesian(num_examples=6)
    model.compile("sgd")
    _, y = networks.data(6)
    losses = [
        model.evaluate(X, labels, seed=1, **QUIET)
        for labels in (y[:, None], keras.utils.to_categorical(y, 3))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
def test_one_compiled_function_for_each_number_of_axes(tmp_path):
    traces = []

    @keras.saving.register_keras_serializable("tests_of_ranks")
    class Traced(keras.layers.Layer):
        def call(self, inputs):
            traces.append(1)
            return inputs

    model = regression(Traced())
    model.fit(X, Y, **QUIET)
    for is_repetition in (False, True):
        traces.clear()
        for y in (Y, Y[:, 0]):
            model.evaluate(X, y, **QUIET)
            model.train_on_batch(X, y)
        assert bool(traces) != is_repetition
    # What is kept in memory is not part of a file.
    tf.train.Checkpoint(model).save(tmp_path / "checkpoint")
    model.save(tmp_path / "model.keras")
    keras.saving.load_model(tmp_path / "model.keras")
    model.export(tmp_path / "served", 2)
