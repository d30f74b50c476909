"""What people do to any Keras model beside `fit`, done to a Bayesian one."""

import csv

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import networks


@pytest.fixture
def model():
    return networks.compiled(networks.bayesian(hypernet="mean_field"))


def answers(model, x):
    return model.predict(x, seed=1, verbose=0)


def test_a_callback_stops_training_in_mid_epoch(model):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2

    x, y = networks.data(40)
    history = model.fit(x, y, batch_size=4, epochs=5, verbose=0, callbacks=[Stop()])
    assert len(history.history["loss"]) == 1
    assert int(model.optimizer.iterations) == 3


@pytest.mark.slow
def test_logs_are_rows_of_a_table(model, tmp_path):
    x, y = networks.data(40)
    logger = keras.callbacks.CSVLogger(tmp_path / "logs.csv")
    history = model.fit(
        x, y, epochs=2, validation_split=0.2, verbose=0, callbacks=[logger]
    ).history
    with open(tmp_path / "logs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"epoch", *history}
    assert [float(row["val_loss"]) for row in rows] == history["val_loss"]


@pytest.mark.slow
def test_how_it_runs_is_changed_after_compile(model):
    x, y = networks.data(40)
    model.steps_per_execution = 4
    model.fit(x, y, batch_size=4, verbose=0)
    assert int(model.optimizer.iterations) == 10
    for change in ("jit_compile", "run_eagerly"):
        setattr(model, change, True)
        history = model.fit(x, y, batch_size=4, verbose=0).history
        networks.assert_identity(history, 40)
        np.testing.assert_allclose(answers(model, x).sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.slow
def test_losses_are_scaled_where_that_is_asked_for():
    x, y = networks.data(40)
    plain, scaled = (networks.bayesian(hypernet="mean_field") for _ in range(2))
    scaled.set_weights(plain.get_weights())
    optimizers = keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1)
    networks.compiled(plain, optimizers[0])
    networks.compiled(scaled, keras.optimizers.LossScaleOptimizer(optimizers[1]))
    for one in (plain, scaled):
        one.fit(x, y, shuffle=False, verbose=0)
    np.testing.assert_allclose(answers(scaled, x), answers(plain, x), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["shards", "checkpoint", "json"])
def test_weights_go_through_all_that_keras_has(model, how, tmp_path):
    x, y = networks.data(40)
    model.fit(x, y, verbose=0)
    other = keras.models.model_from_json(model.to_json())
    networks.compiled(other).fit(x, y, verbose=0)
    if how == "shards":
        model.save_weights(tmp_path / "model.weights.json", max_shard_size=1e-6)
        other.load_weights(tmp_path / "model.weights.json")
    elif how == "checkpoint":
        path = tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")
        tf.train.Checkpoint(model=other).read(path).assert_consumed()
    else:
        other.set_weights(model.get_weights())
    np.testing.assert_array_equal(answers(other, x), answers(model, x))
