"""Two modes: exact numbers beside those of the draws, in a complete folder."""

import json

import numpy as np
import pytest

from trainers import multimodal


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multimodal") / "run"
    config = multimodal.Config(
        output_dir=str(folder),
        smoke=True,
        hypernet="realnvp",
        num_flow_layers=2,
        flow_units=(8,),
        epochs=20,
        train_samples=8,
        num_samples=1_000,
        num_chains=2,
        num_burnin_steps=50,
    )
    return config, folder, multimodal.run(config)


def test_results_hold_the_mass_of_each_mode(finished):
    _, folder, results = finished
    assert json.loads((folder / "results.json").read_text()) == json.loads(
        json.dumps(results)
    )
    assert set(results["methods"]) == {"realnvp", "hmc"}
    for found in results["methods"].values():
        assert sum(found["mass"].values()) == pytest.approx(1.0)
    assert results["methods"]["hmc"]["max_r_hat"] > 0.9
    assert results["methods"]["realnvp"]["elbo"] < results["exact"]["log_evidence"]


def test_the_exact_modes_are_equal(finished):
    exact = finished[2]["exact"]
    assert exact["mass"]["both_positive"] == pytest.approx(0.5, abs=1e-4)
    assert exact["mass"]["both_negative"] == pytest.approx(0.5, abs=1e-4)


def test_mass_counts_the_quadrants():
    draws = np.array([[1, 2], [1, 1], [-1, -2], [1, -1]], "float32")
    found = multimodal._measure(draws)
    assert found["mass"] == {
        "both_positive": 0.5,
        "both_negative": 0.25,
        "between": 0.25,
    }
    assert found["product_mean"] == {"both_positive": 1.5, "both_negative": 2.0}
    alone = multimodal._measure(draws[:2])
    assert alone["product_mean"]["both_negative"] is None


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    config, folder, results = finished
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.json",
        "metrics.jsonl",
        "results.json",
        "modes.png",
        "model.keras",
        "checkpoints",
    }
    assert multimodal.run(config) == json.loads(json.dumps(results))
    assert "finished" in capsys.readouterr().out
