"""The weight of the KL over the epochs."""

import keras
import numpy as np
import pytest

from bhn_tf.callbacks import KLAnnealing
from tests import networks


@pytest.mark.parametrize(
    ["arguments", "expected"],
    [
        ({"start": 0.0, "epochs": 4}, [0, 0.25, 0.5, 0.75, 1, 1]),
        ({"start": 0.0, "epochs": 2.5}, [0, 0.4, 0.8, 1, 1]),
        ({"start": 1000.0, "epochs": 3}, [1000, 100, 10, 1, 1]),
        ({"start": 1.0, "end": 0.0, "epochs": 2}, [1, 0.5, 0, 0]),
        ({"start": 2.0, "end": 8.0, "epochs": 1}, [2, 8, 8]),
        ({"start": 2.0, "end": 8.0, "epochs": 0}, [8, 8]),
    ],
    ids=str,
)
def test_the_way_from_start_to_end(arguments, expected):
    callback = KLAnnealing(**arguments)
    found = [callback.weight(epoch) for epoch in range(len(expected))]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ["arguments", "name"],
    [
        ({"start": -1.0}, "start"),
        ({"start": float("nan")}, "start"),
        ({"start": float("inf")}, "start"),
        ({"start": 0.0, "end": -0.5}, "end"),
        ({"start": 0.0, "epochs": 0.5}, "epochs"),
        ({"start": 0.0, "patience": 0}, "patience"),
        ({"start": 0.0, "min_delta": -1.0}, "min_delta"),
    ],
    ids=str,
)
def test_values_without_a_meaning_are_refused(arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        KLAnnealing(**arguments)


@pytest.fixture(scope="module")
def model():
    model = networks.bayesian(hypernet="mean_field")
    model.compile("adam", kl_weight=7.0, jit_compile=False)
    return model


def test_the_logs_of_every_epoch_obey_the_identity(model):
    x, y = networks.data(10)
    history = model.fit(
        x,
        y,
        batch_size=4,
        epochs=5,
        validation_data=(x, y),
        callbacks=[KLAnnealing(start=0.0, epochs=2)],
        verbose=0,
    ).history
    weights = [0, 0.5, 1, 1, 1]
    np.testing.assert_allclose(history["kl_weight"], weights)
    np.testing.assert_allclose(history["val_kl_weight"], weights)
    networks.assert_identity(history, 10)
    networks.assert_identity(history, 10, "val_")
    assert model.kl_weight == 7.0


def test_moves_within_one_trace(model):
    """The weight is not a constant of the compiled step."""
    x, y = networks.data(10)
    model.fit(x, y, verbose=0)
    traced = model.train_function
    callback = KLAnnealing(start=1e4, end=0.0, epochs=3)
    history = model.fit(x, y, epochs=4, callbacks=[callback], verbose=0).history
    assert model.train_function is traced
    losses = np.array(history["loss"]) - history["nll"]
    assert losses[0] > 1e3 and losses[3] == 0


def test_continues_where_training_continues(model):
    x, y = networks.data(10)
    callback = KLAnnealing(start=0.0, epochs=4)
    arguments = {"callbacks": [callback], "verbose": 0}
    model.fit(x, y, epochs=2, **arguments)
    history = model.fit(x, y, initial_epoch=2, epochs=4, **arguments).history
    np.testing.assert_allclose(history["kl_weight"], [0.5, 0.75])


class Losses(keras.callbacks.Callback):
    """Puts given numbers in place of the losses of the epochs."""

    def __init__(self, name, losses):
        super().__init__()
        self.name, self.losses = name, losses

    def on_epoch_end(self, epoch, logs=None):
        if self.losses[epoch] is None:
            logs.pop(self.name, None)
        else:
            logs[self.name] = self.losses[epoch]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ["losses", "options", "stopped"],
    [
        # A rise while the weight moves does not count; a new minimum does.
        ([1, 2, 3, 4, 3, 3.5, 2.5, 2, 2, 2, 2], {"epochs": 3}, 9),
        ([1, 2, 3, 4, 3, 2, 1, 0, -1, -2, -3], {"epochs": 3}, None),
        ([4, 3.9, 3.8, 3.7, 3, 2, 1, 0, 0, 0, 0], {"epochs": 1, "min_delta": 0.5}, 3),
        ([1, np.nan, np.nan, np.nan, 1, 1, 1, 1, 1, 1, 1], {"epochs": 1}, 2),
        ([1] * 11, {"epochs": 3, "patience": None}, None),
    ],
    ids=["gains", "always", "little", "nan", "never"],
)
@pytest.mark.parametrize("name", ["loss", "val_loss"])
def test_training_stops_where_the_bound_no_longer_gains(
    model, name, losses, options, stopped
):
    x, y = networks.data(4)
    callback = KLAnnealing(**{"start": 0.0, "patience": 2, **options})
    history = model.fit(
        x,
        y,
        epochs=len(losses),
        # The loss of validation decides.
        validation_data=(x, y) if name == "val_loss" else None,
        callbacks=[Losses(name, losses), callback],
        verbose=0,
    )
    assert callback.stopped_epoch == stopped
    assert history.epoch[-1] == (len(losses) - 1 if stopped is None else stopped)
    assert model.kl_weight == 7.0


def test_epochs_without_validation_do_not_count(model):
    x, y = networks.data(4)
    callback = KLAnnealing(start=1.0, epochs=1, patience=2)
    # Far above the training loss, which comes before the first of them.
    losses = Losses("val_loss", [None, None, 99, 98, None, 99, None, None, 98.5, 97])
    model.fit(x, y, epochs=10, callbacks=[losses, callback], verbose=0)
    assert callback.stopped_epoch == 8


def test_a_model_without_a_bound_is_told(model):
    stock = networks.plain()
    stock.compile("sgd", "mse", run_eagerly=True)
    x, _ = networks.data(4)
    with pytest.raises(ValueError, match="BayesianHypernet"):
        stock.fit(x, x[:, :3], callbacks=[KLAnnealing(start=0.0)], verbose=0)


def test_serialisation():
    given = {"start": 5.0, "end": 0.5, "epochs": 7, "patience": 3, "min_delta": 0.1}
    callback = KLAnnealing(**given)
    config = keras.saving.serialize_keras_object(callback)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is KLAnnealing
    assert again.get_config() == given
