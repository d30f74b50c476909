"""The toy regression: hypernets and Monte Carlo over the same quantities."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from trainers import toy_regression


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy") / "run"
    config = toy_regression.Config(
        output_dir=str(folder),
        smoke=True,
        num_examples=20,
        units=(4,),
        num_flow_layers=2,
        flow_units=(8,),
        epochs=20,
        train_samples=4,
        num_samples=50,
        num_burnin_steps=50,
    )
    return config, folder, toy_regression.run(config)


def test_results_compare_each_bayesian_panel_with_monte_carlo(finished):
    _, folder, results = finished
    assert json.loads((folder / "results.json").read_text()) == json.loads(
        json.dumps(results)
    )
    panels = results["panels"]
    assert panels["scales"]["num_random"] == 5
    assert panels["all_weights"]["num_random"] == 13
    assert panels["deterministic"]["epistemic_std"] == {"data": 0.0, "outside": 0.0}
    for name in ("scales", "all_weights"):
        found = panels[name]
        # The same noise on both sides: what differs is the posterior alone.
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


def test_the_folder_is_complete(finished):
    _, folder, _ = finished
    assert {path.name for path in folder.iterdir()} >= {
        "config.json",
        "metrics.jsonl",
        "results.json",
        "regression.png",
        "std.png",
        "scales.keras",
        "all_weights.keras",
        "checkpoints",
    }


def test_a_run_killed_before_its_results_repeats_them(finished, tmp_path, capsys):
    config, folder, results = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    again = toy_regression.run(
        dataclasses.replace(config, output_dir=str(tmp_path / "run"))
    )
    printed = capsys.readouterr().out
    assert "Hamiltonian" not in printed and "Training" not in printed
    for name in ("scales", "all_weights"):
        a, b = again["panels"][name], results["panels"][name]
        assert a["epistemic_std"] == pytest.approx(b["epistemic_std"], rel=1e-5)
        assert a["hmc"]["epistemic_std"] == pytest.approx(
            b["hmc"]["epistemic_std"], rel=1e-5
        )
