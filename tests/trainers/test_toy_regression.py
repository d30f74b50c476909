"""The toy regression: hypernets and Monte Carlo over the same quantities."""

import numpy as np
import pytest

from tests.trainers.run_checks import (
    check_folder,
    finish,
    repeat_without_results,
)
from trainers import toy_regression


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(
        toy_regression,
        tmp_path_factory,
        num_examples=20,
        units=(4,),
        num_flow_layers=2,
        flow_units=(8,),
        epochs=20,
        train_samples=4,
        num_samples=50,
        num_chains=2,
        num_burnin_steps=50,
    )


def test_results_compare_each_bayesian_panel_with_monte_carlo(finished):
    panels = finished.results["panels"]
    assert panels["scales"]["num_random"] == 5
    assert panels["all_weights"]["num_random"] == 13
    assert panels["deterministic"]["epistemic_std"] == {"data": 0.0, "outside": 0.0}
    for name in ("scales", "all_weights"):
        found = panels[name]
        # The same noise on both sides, so that only the posterior differs.
        assert found["noise_std"] == pytest.approx(found["hmc"]["noise_std"])
        for region in ("data", "outside"):
            compared = found["epistemic_std_to_hmc"][region]
            ours, theirs = (f["epistemic_std"][region] for f in (found, found["hmc"]))
            assert compared["ratio_of_means"] == pytest.approx(ours / theirs, rel=1e-4)
            assert compared["smallest_ratio"] <= compared["ratio_of_means"]
            assert compared["mean_absolute_difference"] >= abs(ours - theirs) - 1e-6
            assert found["hmc"]["max_r_hat_of_outputs"][region] > 0.9


def test_regions_are_where_data_are_and_the_rest():
    regions = toy_regression._regions(np.array([[-0.1], [0.0], [0.3], [0.6]]))
    assert regions["data"].tolist() == [False, True, True, False]
    assert regions["outside"].tolist() == [True, False, False, True]


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    models = {"model.keras", "all_weights.keras"}
    check_folder(
        finished, {"regression.png", "std.png", *models}, capsys, is_exported=True
    )


def test_a_run_killed_before_its_results_repeats_them(finished, tmp_path, capsys):
    again = repeat_without_results(finished, tmp_path / "run", capsys)
    for name in ("scales", "all_weights"):
        a, b = again["panels"][name], finished.results["panels"][name]
        assert a["epistemic_std"] == pytest.approx(b["epistemic_std"], rel=1e-5)
        assert a["hmc"]["epistemic_std"] == pytest.approx(
            b["hmc"]["epistemic_std"], rel=1e-5
        )
