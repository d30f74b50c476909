"""Keras's own callbacks: what they keep, restore and show of a Bayesian model."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.callbacks import KLAnnealing
from bhn_tf.hypernets import MeanField
from bhn_tf.layers import WeightNormDense
from tests.parity.twins import (
    CLASSES,
    FEATURES,
    X,
    Y,
    assert_same_logs,
    assert_same_weights,
    bayesian,
    twins,
)

VALIDATION = (X[::-1].copy(), Y)
BEST = {"monitor": "val_predictive_nll", "mode": "min"}


def make(optimizer=None, run_eagerly=True, seed=0):
    """Scales, dropout and a batch normalisation: all that a file has to keep."""
    keras.utils.set_random_seed(seed)
    network = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            WeightNormDense(4, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.BatchNormalization(),
            WeightNormDense(CLASSES),
        ]
    )
    model = bayesian(network, hypernet=MeanField(0.3), num_examples=len(X))
    optimizer = optimizer or keras.optimizers.Adam(
        keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    )
    model.compile(optimizer, metrics=["accuracy"], run_eagerly=run_eagerly)
    return model


def fit(model, callbacks=(), epochs=4, **kwargs):
    arguments = {"batch_size": 5, "shuffle": False, "verbose": 0, **kwargs}
    return model.fit(X, Y, epochs=epochs, callbacks=[*callbacks], **arguments).history


class Notes(keras.callbacks.Callback):
    """The weights after each epoch, before other callbacks change them."""

    def on_train_begin(self, logs=None):
        self.weights = []

    def on_epoch_end(self, epoch, logs=None):
        self.weights.append(self.model.get_weights())

    def assert_are(self, epoch, model):
        for value, wanted in zip(model.get_weights(), self.weights[epoch], strict=True):
            np.testing.assert_array_equal(value, wanted)


class Break(keras.callbacks.Callback):
    """Stands for a kill in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 2 and batch == 1:
            raise KeyboardInterrupt

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch


# -- going on ------------------------------------------------------------------------


def test_backup_and_restore_goes_on_as_if_nothing_had_happened(tmp_path):
    """Dropout, the noise of the draws, Adam, its schedule and the KL's weight."""
    annealing = KLAnnealing(0.0, epochs=3)
    whole = make()
    expected = fit(whole, [annealing])
    with pytest.raises(KeyboardInterrupt):
        fit(make(), [annealing, keras.callbacks.BackupAndRestore(tmp_path), Break()])
    # With another seed, so that everything has to come from the file.
    resumed = make(seed=1)
    found = fit(resumed, [annealing, keras.callbacks.BackupAndRestore(tmp_path)])
    assert found == {name: values[2:] for name, values in expected.items()}
    for value, wanted in zip(resumed.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert int(resumed.optimizer.iterations) == int(whole.optimizer.iterations) == 12


@pytest.mark.slow
@pytest.mark.parametrize("run_eagerly", [True, False])
def test_a_loaded_model_goes_on_where_the_saved_one_stopped(tmp_path, run_eagerly):
    whole, saved = (make(run_eagerly=run_eagerly) for _ in range(2))
    expected = fit(whole, epochs=4)
    fit(saved, epochs=2)
    saved.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    rate = float(loaded.optimizer.learning_rate)
    np.testing.assert_allclose(rate, 0.1 * 0.5 ** (6 / 3), rtol=1e-5)
    found = fit(loaded, epochs=4, initial_epoch=2)
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name][2:], rtol=1e-5, err_msg=name)


# -- what is kept --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("weights_only", [False, True])
def test_the_checkpoint_is_the_best_by_what_is_predicted(tmp_path, weights_only):
    path = tmp_path / ("best.weights.h5" if weights_only else "best.keras")
    checkpoint = keras.callbacks.ModelCheckpoint(
        path, **BEST, save_best_only=True, save_weights_only=weights_only
    )
    notes, model = Notes(), make(keras.optimizers.SGD(2.0))
    history = fit(model, [notes, checkpoint], epochs=5, validation_data=VALIDATION)
    best = int(np.argmin(history["val_predictive_nll"]))
    if weights_only:
        kept = make(keras.optimizers.SGD(2.0), seed=1)
        kept.load_weights(path)
    else:
        kept = keras.saving.load_model(path)
        assert int(kept.optimizer.iterations) == 3 * (best + 1)
    notes.assert_are(best, kept)


def test_early_stopping_gives_the_best_draws_back():
    stopping = keras.callbacks.EarlyStopping(
        **BEST, patience=2, restore_best_weights=True
    )
    notes, model = Notes(), make(keras.optimizers.SGD(3.0))
    history = fit(model, [notes, stopping], epochs=12, validation_data=VALIDATION)
    notes.assert_are(int(np.argmin(history["val_predictive_nll"])), model)


@pytest.mark.slow
def test_the_learning_rate_falls_on_a_plateau():
    plateau = keras.callbacks.ReduceLROnPlateau(
        **BEST, patience=1, factor=0.1, min_delta=100.0
    )
    model = make(keras.optimizers.SGD(1.0))
    history = fit(model, [plateau], epochs=4, validation_data=VALIDATION)
    np.testing.assert_allclose(
        history["learning_rate"], [1.0, 1.0, 0.1, 0.01], rtol=1e-5
    )


# -- what is shown -------------------------------------------------------------------


@pytest.mark.slow
def test_tensorboard_shows_the_terms_and_histograms_of_all_weights(tmp_path):
    pytest.importorskip("tensorboard")
    model = make(run_eagerly=False)
    board = keras.callbacks.TensorBoard(tmp_path, histogram_freq=1, update_freq=1)
    history = fit(model, [board], epochs=2, validation_data=VALIDATION)
    shown = {name: tags_of(tmp_path / name) for name in ("train", "validation")}
    for name, values in history.items():
        where = "validation" if name.startswith("val_") else "train"
        found = shown[where][f"epoch_{name.removeprefix('val_')}"]
        np.testing.assert_allclose(list(map(float, found)), values, rtol=1e-6)
    histograms = {tag for tag in shown["train"] if tag.endswith("/histogram")}
    weights = [weight for layer in model.layers for weight in layer.weights]
    assert histograms == {f"{weight.path}/histogram" for weight in weights}


def tags_of(folder):
    found = collections.defaultdict(list)
    for path in sorted(folder.glob("*tfevents*.v2")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            for value in tf.compat.v1.Event.FromString(record).summary.value:
                found[value.tag].append(tf.make_ndarray(value.tensor))
    return found


# -- averages of weights -------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("swap_on_epoch", [True, False])
def test_averaged_weights_are_swapped_in_as_in_stock_keras(swap_on_epoch):
    def optimizer():
        return keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.7)

    histories, models = [], twins(optimizer=optimizer)
    for model in models:
        swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=swap_on_epoch)
        histories.append(fit(model, [swap], epochs=3, validation_data=VALIDATION))
    assert_same_logs(*histories)
    assert_same_weights(*models)


@pytest.mark.slow
def test_what_is_saved_at_the_end_of_an_epoch_are_the_averages(tmp_path):
    """Also averages the hypernet's weights; the last step's weights are kept beside."""
    model = make(keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.7))
    callbacks = [
        keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
    ]
    fit(model, callbacks, epochs=2)
    first, last = (
        keras.saving.load_model(tmp_path / f"{epoch}.keras") for epoch in (1, 2)
    )
    for value, kept in zip(model.get_weights(), last.get_weights(), strict=True):
        np.testing.assert_array_equal(value, kept)
    # The weights that training goes on from, and those used meanwhile.
    trained = [v.numpy() for v in first.optimizer._model_variables_moving_average]
    shown = [v.numpy() for v in first.trainable_variables]
    assert all((a != b).any() for a, b in zip(trained, shown, strict=True))
