"""Two modes: exact numbers beside those from draws, in a complete folder."""

import numpy as np
import pytest

from tests.trainers.run_checks import check_folder, finish
from trainers import multimodal


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(
        multimodal,
        tmp_path_factory,
        hypernet="realnvp",
        num_flow_layers=2,
        flow_units=(8,),
        epochs=20,
        train_samples=8,
        num_samples=1_000,
        num_chains=2,
        num_burnin_steps=50,
    )


def test_results_hold_the_mass_of_each_mode(finished):
    results = finished.results
    assert set(results["methods"]) == {"realnvp", "hmc"}
    for found in results["methods"].values():
        assert sum(found["mass"].values()) == pytest.approx(1.0)
    assert results["methods"]["hmc"]["max_r_hat"] > 0.9
    assert results["methods"]["realnvp"]["elbo"] < results["exact"]["log_evidence"]


def test_the_exact_modes_are_equal(finished):
    exact = finished.results["exact"]
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
    check_folder(finished, {"modes.png", "model.keras"}, capsys, is_exported=True)
