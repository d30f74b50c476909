"""What a callback sets in `fit` ends with `fit`; files keep what was compiled."""

import keras
import numpy as np
import pytest

from bhn_tf.callbacks import KLAnnealing
from tests import networks

GIVEN = 0.75


def annealing():
    return KLAnnealing(start=0.0, epochs=4)


@pytest.fixture
def model():
    model = networks.bayesian(hypernet="mean_field")
    model.compile("adam", kl_weight=GIVEN, run_eagerly=True)
    return model


def fit(model, *callbacks, epochs=3, **kwargs):
    x, y = networks.data(8)
    return model.fit(
        x,
        y,
        epochs=epochs,
        validation_data=(x, y),
        callbacks=[annealing(), *callbacks],
        verbose=0,
        **kwargs,
    ).history


def stopping():
    return keras.callbacks.EarlyStopping(
        "val_predictive_nll", mode="min", patience=1, restore_best_weights=True
    )


@pytest.mark.slow
def test_with_weights_restored_from_an_earlier_epoch(model):
    model.optimizer.learning_rate = 3.0
    history = fit(model, stopping(), epochs=9)
    assert history["kl_weight"][:2] == [0.0, 0.25]
    assert model.kl_weight == GIVEN
    # Training goes on with the whole KL.
    x, y = networks.data(8)
    assert model.fit(x, y, verbose=0).history["kl_weight"] == [GIVEN]


def test_what_a_user_sets_outside_of_fit_stays(model):
    model.kl_weight = 3.0
    fit(model)
    assert model.kl_weight == 3.0
    assert model.get_compile_config()["kl_weight"] == 3.0
    model.compile("adam", kl_weight=GIVEN, run_eagerly=True)
    assert model.kl_weight == GIVEN


@pytest.mark.few(2)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["on_epoch_begin", "on_train_batch_end"])
def test_an_interrupted_fit(model, error, when):
    class Interrupts(keras.callbacks.Callback):
        num_calls = 0

        def interrupt(self, *_, **__):
            self.num_calls += 1
            if self.num_calls == 2:
                assert self.model.kl_weight == 0.25
                raise error("in the middle")

    setattr(Interrupts, when, Interrupts.interrupt)
    with pytest.raises(error, match="in the middle"):
        fit(model, Interrupts())
    assert model.kl_weight == GIVEN
    assert model.get_compile_config()["kl_weight"] == GIVEN


@pytest.mark.slow
@pytest.mark.parametrize("save_freq", ["epoch", 1])
def test_a_file_written_in_the_middle_has_what_was_compiled(model, save_freq, tmp_path):
    path = tmp_path / "epoch_{epoch}.keras"
    fit(model, keras.callbacks.ModelCheckpoint(path, save_freq=save_freq))
    for epoch in (1, 2, 3):
        again = keras.saving.load_model(tmp_path / f"epoch_{epoch}.keras")
        assert again.kl_weight == GIVEN
        assert again.get_compile_config()["kl_weight"] == GIVEN
    history = fit(again, initial_epoch=3, epochs=4)
    np.testing.assert_allclose(history["kl_weight"], [0.75])


@pytest.mark.slow
def test_a_run_that_is_resumed_has_the_weight_of_its_epoch(model, tmp_path):
    class Stops(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise InterruptedError

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path)

    with pytest.raises(InterruptedError):
        fit(model, backup(), Stops())
    again = networks.bayesian(hypernet="mean_field")
    again.compile("adam", kl_weight=GIVEN, run_eagerly=True)
    history = fit(again, backup(), epochs=5)
    np.testing.assert_allclose(history["kl_weight"], [0.5, 0.75, 1.0])
    assert again.kl_weight == GIVEN


def test_fit_within_fit(model):
    """Each ends with the weight it began with."""

    class Fits(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                before = self.model.kl_weight
                x, y = networks.data(4)
                self.model.fit(
                    x, y, callbacks=[KLAnnealing(start=9.0, epochs=1)], verbose=0
                )
                assert self.model.kl_weight == before == 0.25

    x, y = networks.data(8)
    model.fit(x, y, epochs=3, callbacks=[annealing(), Fits()], verbose=0)
    assert model.kl_weight == GIVEN


def test_within_fit_the_settled_weight_is_that_of_compile(model):
    """What `diagnose` judges, whatever a callback has set."""
    settled = []
    asking = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: settled.append(
            (model.kl_weight, model.objective.settled_kl_weight)
        )
    )
    fit(model, asking, epochs=2)
    assert settled == [(0.0, GIVEN), (0.25, GIVEN)]
