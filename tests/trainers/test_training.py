"""A stopped run goes on as if it had not been stopped."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from tests.trainers.run_checks import check_refused
from trainers import classification, experiment
from trainers.config import CommonConfig, UsageProblem
from trainers.run_folder import RunFolder
from trainers.training import shuffled_epochs, strategy_of, train


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 3)).astype("float32")
    return x, (x[:, 0] > 0).astype("int32")


def make_model():
    network = keras.Sequential(
        [
            keras.layers.Input((3,)),
            bhn_tf.layers.WeightNormDense(4, activation="relu"),
            bhn_tf.layers.WeightNormDense(2),
        ]
    )
    hypernet = bhn_tf.hypernets.RealNVP(2, (4,))
    model = bhn_tf.BayesianHypernet(network, hypernet, num_examples=50)
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, 16)
    model.compile(keras.optimizers.Adam(schedule), metrics=["accuracy"])
    return model


def test_every_epoch_has_each_row_once_in_an_order_of_its_own(data):
    _, y = data
    ids = np.arange(len(y))
    batches = list(shuffled_epochs(ids, y, 16, 0, 0, 2).as_numpy_iterator())
    epochs = [
        np.concatenate([b[0] for b in half]) for half in (batches[:4], batches[4:])
    ]
    assert [len(b[0]) for b in batches] == [16, 16, 16, 2] * 2
    for order in epochs:
        np.testing.assert_array_equal(np.sort(order), ids)
    assert (epochs[0] != epochs[1]).any()
    resumed = list(shuffled_epochs(ids, y, 16, 0, 1, 2).as_numpy_iterator())
    np.testing.assert_array_equal(np.concatenate([b[0] for b in resumed]), epochs[1])


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(data, tmp_path):
    def run(name, stops):
        config = CommonConfig(output_dir=str(tmp_path / name), batch_size=16)
        annealing = bhn_tf.callbacks.KLAnnealing(start=0.0, epochs=3)
        for epochs in stops:
            with RunFolder(config, "test") as folder:
                model, seconds = train(
                    folder, "bhn", config, make_model, *data, epochs, [annealing]
                )
        return folder, model, seconds

    _, whole, _ = run("whole", [4])
    folder, resumed, seconds = run("resumed", [2, 4])
    assert int(resumed.optimizer.iterations) == 16
    for a, b in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [entry["epoch"] for entry in folder.epochs.read("bhn")] == [1, 2, 3, 4]
    assert seconds > 0


def test_a_process_has_one_strategy_of_a_name():
    # Two would give their collective operations the same keys, and clash.
    assert strategy_of("mirrored") is strategy_of("mirrored")
    assert strategy_of("default") is tf.distribute.get_strategy()


def test_a_run_that_diverges_ends_with_its_last_sound_state_named(data, tmp_path):
    def make_exploding_model():
        model = make_model()
        model.compile(keras.optimizers.SGD(1e30))
        return model

    config = CommonConfig(output_dir=str(tmp_path / "run"), batch_size=16)
    with (
        RunFolder(config, "test") as folder,
        pytest.raises(UsageProblem, match=r"bhn: .*diverged in epoch 1, step \d.*kept"),
    ):
        train(folder, "bhn", config, make_exploding_model, *data, epochs=3)
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


def test_xla_on_several_devices_is_refused_with_nothing_written(tmp_path, monkeypatch):
    two = types.SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(experiment, "strategy_of", lambda name: two)
    flags = {"strategy": "mirrored", "jit_compile": True, "smoke": True}
    message = "--jit_compile --strategy=mirrored: XLA cannot compile steps of 2 devices"
    check_refused(classification, message, tmp_path / "run", flags)
