"""A killed learner goes on as if it had not been killed, and never asks twice."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import baselines
from bhn_tf.callbacks import Diverged
from tests import networks
from tests.active.learners import (
    INITIAL,
    METHODS,
    Labeller,
    Quick,
    learner,
    make,
    nobody,
    pool,
)

ROOT = pathlib.Path(__file__).parents[2]
ROUNDS = 2
#: Files that such a run writes: a state at its start, and in each round labels, backup,
#: state, model and state.
NUM_WRITES = 1 + 5 * (ROUNDS + 1)


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.fixture(scope="module")
def expected():
    """A run without interruption."""
    found = learner()
    found.run(ROUNDS, validation_data=pool(20))
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished run; not to be changed."""
    folder = tmp_path_factory.mktemp("active")
    learner(directory=folder).run(ROUNDS, validation_data=pool(20))
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(finished, tmp_path / "run")


def assert_as_expected(found, expected):
    assert found.labelled_ids.tolist() == expected.labelled_ids.tolist()
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.initial_round == expected.initial_round
    assert found.history == expected.history
    for a, b in zip(
        expected.model.get_weights(), found.model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(a, b)


# -- killed at any moment ------------------------------------------------------------


@pytest.mark.few(12)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, NUM_WRITES + 1))
def test_killed_at_any_write(number, when, expected, tmp_path, monkeypatch):
    replace, written = os.replace, []

    def replace_or_die(source, target):
        written.append(pathlib.Path(target).name)
        if when == "before" and len(written) == number:
            raise Killed
        replace(source, target)
        if len(written) == number:
            raise Killed

    labeller = Labeller()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_or_die)
        with pytest.raises(Killed):
            learner(directory=tmp_path, label_fn=labeller).run(ROUNDS, pool(20))
    again = learner(directory=tmp_path, label_fn=labeller)
    again.run(ROUNDS, validation_data=pool(20))
    assert_as_expected(again, expected)
    # Nobody is asked twice, unless killed before a single file has the answer.
    asked = expected.labelled_ids.tolist()
    if written[-1] == "labels.npy" and when == "before":
        round_number = (number - 2) // 5
        asked = asked[: 4 * (round_number + 1)] + asked[4 * round_number :]
    assert labeller.asked == asked
    # A learner with a complete folder warns of nothing and asks for nothing.
    assert_as_expected(learner(directory=tmp_path, label_fn=nobody), expected)


@pytest.mark.slow
@pytest.mark.parametrize("num_kills", ["5", pytest.param("20", marks=pytest.mark.slow)])
def test_killed_by_the_system_at_any_time(num_kills, tmp_path):
    """Neither the lock nor half-written files of a killed run are in the way."""
    script = ROOT / "tests" / "active" / "killed.py"
    process = subprocess.run(
        [sys.executable, script, tmp_path, num_kills],
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    found, whole = learner(directory=tmp_path), learner()
    assert found.run(3) == whole.run(3)
    assert_as_expected(found, whole)
    names = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert names == [".lock"]


def test_interrupted_while_a_person_is_asked(expected, tmp_path):
    def interrupt(number):
        if number == 2:
            raise KeyboardInterrupt

    labeller = Labeller(interrupt)
    found = learner(directory=tmp_path, label_fn=labeller)
    with pytest.raises(KeyboardInterrupt):
        found.run(ROUNDS, validation_data=pool(20))
    assert labeller.asked == INITIAL
    # The same learner object may go on too, as in a notebook.
    found.run(ROUNDS, validation_data=pool(20))
    assert_as_expected(found, expected)
    assert labeller.asked == expected.labelled_ids.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bhn", "dropout"])
def test_a_real_model_goes_on_to_the_same_numbers(method, bhn_run, tmp_path):
    """With the noise, layers and optimizer that are kept in the model's file."""
    if method == "bhn":
        expected, folder = bhn_run
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    else:
        expected = learner(method, directory=tmp_path)
        expected.run(2, validation_data=pool(20))
    names = {path.name for path in tmp_path.iterdir() if path.name != ".lock"}
    models = {"model-00008.keras", "model-00012.keras"}
    assert names == {"state.json", "labels.npy", "labels.backup.npy", *models}
    # The last model is damaged: the round is trained again from the one before.
    (tmp_path / "model-00012.keras").write_bytes(b"PK")
    found = learner(
        make_model=make(method, run_eagerly=method != "bhn"),
        directory=tmp_path,
        label_fn=nobody,
        seed=None,
    )
    with pytest.warns(UserWarning, match="model-00012.keras cannot be loaded"):
        assert found.run(1, validation_data=pool(20)) == expected.history[:1]
    assert found.run(1, validation_data=pool(20)) == expected.history[1:]
    assert_as_expected(found, expected)


@keras.saving.register_keras_serializable("tests.active")
class QuickWithParts(Quick):
    """Reports a metric that has several numbers, one of them NaN."""

    def history_of(self, x):
        found = super().history_of(x)
        found.history["f1"] = [tf.constant([0.5, np.nan])]
        return found

    def evaluate(self, x, y, **kwargs):
        return {"f1": np.float32([[0.5, 0.25]])}


def test_metrics_of_several_numbers_are_lists(tmp_path):
    def make_model():
        return networks.compiled(QuickWithParts(), "sgd")

    kwargs = dict(make_model=make_model, directory=tmp_path)
    found = learner(**kwargs)
    history = found.run(1, validation_data=pool(20))
    assert history[0]["metrics"]["val_f1"] == [[0.5, 0.25]]
    np.testing.assert_array_equal(history[0]["metrics"]["f1"], [0.5, np.nan])
    resumed = learner(**kwargs, label_fn=nobody).run(1, validation_data=pool(20))
    assert str(resumed) == str(history)


@pytest.mark.slow
def test_a_model_is_loaded_where_make_model_makes_it(tmp_path):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")

    def make_model():
        with strategy.scope():
            return make("deterministic")()

    def unfinished(*args, **kwargs):
        raise Killed

    early = learner(make_model=make_model, directory=tmp_path)
    early.run(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines.Deterministic, "fit", unfinished)
        with pytest.raises(Killed):
            early.run(1)
    for found in (early, learner(make_model=make_model, directory=tmp_path)):
        assert found.model.distribute_strategy is strategy
        assert found.model.optimizer.iterations.numpy() > 0


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_model_that_diverges_is_not_kept(has_folder, tmp_path):
    def make_model():
        return networks.compiled(METHODS["deterministic"](), keras.optimizers.SGD(1e30))

    labeller = Labeller()
    directory = tmp_path if has_folder else None
    found = learner(make_model=make_model, directory=directory, label_fn=labeller)
    for _ in range(2):
        with pytest.raises(Diverged, match=r"diverged in epoch \d"):
            found.run(1)
        assert found.model is None
    assert labeller.asked == INITIAL
    assert not list(tmp_path.glob("*.keras"))


# -- what is missing or damaged --------------------------------------------------------


@pytest.mark.few(6)
@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
@pytest.mark.parametrize("warm_start", [True, False, "first_weights"])
@pytest.mark.parametrize("lost", [["model-00012"], ["model-00008", "model-00012"]])
def test_models_that_are_damaged_are_trained_again(damage, warm_start, lost, tmp_path):
    whole = learner(warm_start=warm_start)
    whole.run(ROUNDS, validation_data=pool(20))
    settings = dict(directory=tmp_path, warm_start=warm_start)
    learner(**settings).run(ROUNDS, validation_data=pool(20))
    for name in lost:
        path = tmp_path / f"{name}.keras"
        path.unlink() if damage is None else path.write_bytes(damage)
    found = learner(**settings, label_fn=nobody)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found.run(ROUNDS)
    # Each is named once, the latest first.
    assert [
        str(w.message).split(" cannot")[0] for w in told if w.category is UserWarning
    ] == [str(tmp_path / f"{name}.keras") for name in reversed(lost)]
    assert_as_expected(found, whole)
    # And only once in all.
    assert_as_expected(learner(**settings, label_fn=nobody), whole)


def test_a_model_of_another_run_is_not_taken(folder, expected, tmp_path):
    other = tmp_path / "other"
    learner(directory=other, seed=2).run(ROUNDS)
    shutil.copy(other / "model-00012.keras", folder)
    found = learner(directory=folder, label_fn=nobody)
    with pytest.warns(UserWarning, match="model-00012.keras .*not what was written"):
        found.run(ROUNDS, validation_data=pool(20))
    assert_as_expected(found, expected)


@pytest.mark.parametrize("content", [None, b"", b'{"version": 1, "rou', b"[" * 99_999])
def test_a_state_that_is_lost_is_made_again_from_the_labels(content, folder, expected):
    path = folder / "state.json"
    path.unlink() if content is None else path.write_bytes(content)
    before = (folder / "labels.npy").read_bytes()
    with pytest.warns(UserWarning, match="state.json is (missing|damaged)"):
        found = learner(directory=folder, label_fn=nobody, seed=None)
    assert found.labelled_ids.tolist() == expected.labelled_ids.tolist()
    found.run(ROUNDS, validation_data=pool(20))
    assert_as_expected(found, expected)
    assert (folder / "labels.npy").read_bytes() == before
    # Other arguments are refused, as they are if the state exists.
    path.unlink()
    with pytest.raises(ValueError, match="query_size is 4 there and 5 now"):
        learner(directory=folder, query_size=5)


def test_a_folder_of_an_earlier_version_goes_on(folder, expected):
    """It has no backup, no ids in `labels.npy`, no checksums, and one model."""
    for name in ("labels.backup.npy", "model-00008.keras", ".lock"):
        (folder / name).unlink()
    np.save(folder / "labels.npy", expected.labels)
    state = json.loads((folder / "state.json").read_text())
    del state["models"], state["checksums_of_labels"]
    (folder / "state.json").write_text(json.dumps(state))
    found = learner(directory=folder, label_fn=nobody)
    found.run(ROUNDS)
    assert_as_expected(found, expected)
    # Written anew, the state knows of the model, and still not of its checksum.
    assert learner(directory=folder).model is not None
    # The labels now hold their rows, too, so that the state may be lost.
    np.save(folder / "bare.npy", expected.labels)
    (folder / "state.json").unlink()
    with pytest.warns(UserWarning, match="state.json is missing"):
        assert len(learner(directory=folder).labels) == 12
    for name in ("labels.npy", "labels.backup.npy"):
        shutil.copy(folder / "bare.npy", folder / name)
    with pytest.raises(ValueError, match="of only 0 it is known"):
        learner(directory=folder)


@pytest.mark.few(3)
@pytest.mark.parametrize("warm_start", [True, False, "first_weights"])
@pytest.mark.parametrize("number", range(ROUNDS + 1))
def test_a_label_that_is_corrected_is_learned(number, warm_start, tmp_path):
    """The rounds that had the wrong label are trained again, as from the start."""
    settings = dict(directory=tmp_path / "run", warm_start=warm_start)
    before = learner(**settings)
    before.run(ROUNDS)
    labels = np.load(tmp_path / "run" / "labels.npy")
    labels[4 * number + 1] = (labels[4 * number + 1] + 1) % 3
    np.save(tmp_path / "run" / "labels.npy", labels)
    (tmp_path / "run" / "labels.backup.npy").unlink()
    found = learner(**settings, label_fn=nobody)
    found.run(ROUNDS)
    np.testing.assert_array_equal(found.labels, labels)
    rounds = zip(
        [before.initial_round, *before.history],
        [found.initial_round, *found.history],
        strict=True,
    )
    assert [old == new for old, new in rounds] == [n < number for n in range(3)]
    # Everything is trained from the labels alone.
    (tmp_path / "labels").mkdir()
    shutil.copy(tmp_path / "run" / "labels.npy", tmp_path / "labels")
    settings["directory"] = tmp_path / "labels"
    with pytest.warns(UserWarning, match="state.json is missing"):
        alone = learner(**settings, label_fn=nobody)
    alone.run(ROUNDS)
    assert_as_expected(found, alone)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"query_size": 5}, "query_size is 4 there and 5 now"),
        ({"acquisition": "random"}, "acquisition is 'bald' there"),
        ({"seed": 2}, "seed is 1 there and 2 now"),
        ({"warm_start": False}, "warm_start"),
        ({"initial_ids": [0, 1]}, "initial_ids"),
        ({"fit_kwargs": {"epochs": 4}}, "fit_kwargs"),
        ({"num_rows": 39}, "pool_size is 40 there and 39 now"),
        ({"pool_x": pool()[0] + 1}, "checksum_of_initial_rows"),
    ],
)
def test_a_folder_of_another_configuration_is_refused(kwargs, message, finished):
    before = {path: path.read_bytes() for path in finished.iterdir()}
    with pytest.raises(ValueError, match=message):
        learner(directory=finished, **kwargs)
    assert {path: path.read_bytes() for path in finished.iterdir()} == before


def wider():
    class Wider(Quick):
        def build(self, input_shape):
            self.more = self.add_weight(shape=(2,), name="more")
            super().build(input_shape)

    Wider.__name__ = "Quick"
    return networks.compiled(Wider(), "sgd")


@pytest.mark.parametrize(
    ("make_model", "message"),
    [
        (wider, r"parameters_of_model is 1 there and 3 now; shapes_of_weights"),
        (make("deterministic"), "class_of_model is 'Quick' there and 'Deterministic'"),
    ],
)
def test_a_folder_of_another_model_is_refused(make_model, message, finished):
    before = {path: path.read_bytes() for path in finished.iterdir()}
    found = learner(directory=finished, make_model=make_model, label_fn=nobody)
    for use in (lambda: found.model, lambda: found.run(ROUNDS + 1)):
        with pytest.raises(ValueError, match=f"another configuration: {message}"):
            use()
    assert {path: path.read_bytes() for path in finished.iterdir()} == before


# -- several learners, and folders that cannot be written to ---------------------------


def test_two_runs_in_one_folder(tmp_path):
    """The second is refused, by its constructor or `run`, and changes nothing."""
    early = learner(directory=tmp_path, label_fn=nobody)
    seen = []

    def look_in(number):
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(RuntimeError, match="in use by another run"):
            learner(directory=tmp_path, label_fn=nobody)
        with pytest.raises(RuntimeError, match="in use by another run"):
            early.run(1)
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
        seen.append(number)

    found = learner(directory=tmp_path, label_fn=Labeller(look_in))
    history = found.run(1)
    assert seen == [1, 2]
    # Afterwards it goes on from what the first has done.
    assert early.run(1) == history
    assert_as_expected(early, found)


def test_a_folder_that_was_emptied_gets_the_labels_again(tmp_path):
    found = learner(directory=tmp_path)
    found.run(1)
    for path in tmp_path.iterdir():
        path.unlink()
    found.run(1)
    assert len(np.load(tmp_path / "labels.npy")) == 12


@pytest.mark.parametrize("rounds", [0, 2])
def test_labels_of_another_run_are_not_overwritten(rounds, tmp_path):
    """Another learner, which began in the folder after this one."""
    found = learner(directory=tmp_path)
    found.run(1)
    for path in tmp_path.iterdir():
        path.unlink()
    _, y = pool()
    learner(directory=tmp_path, label_fn=lambda ids: 2 - y[ids]).run(rounds)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="other rows or labels than this learner"):
        found.run(1)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.fixture
def full_disk():
    """A function that lets writes of more than some bytes to a file fail."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size=usual[0]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))

    yield limit
    limit()


def test_a_disk_that_is_full_is_found_before_anybody_labels(full_disk, tmp_path):
    found = learner(directory=tmp_path, label_fn=nobody)
    full_disk(10)
    with pytest.raises(OSError, match="state.json cannot be written.*Nobody is asked"):
        found.run(1)
    full_disk()
    with pytest.raises(OSError, match="cannot be written"):
        learner(directory="/proc/nowhere", label_fn=nobody).run(1)


@pytest.mark.parametrize("size", [10, 600, 3_000])
def test_a_disk_that_fills_up_loses_no_label(size, full_disk, expected, tmp_path):
    """During writes of labels, the state, and a model."""

    def fill(number):
        if number == 2:
            full_disk(size)

    labeller = Labeller(fill)
    found = learner(directory=tmp_path, label_fn=labeller)
    with pytest.raises(OSError, match="cannot be written.*make room"):
        found.run(ROUNDS, validation_data=pool(20))
    full_disk()
    assert len(found.labels) == 8
    assert len(np.load(tmp_path / "labels.npy")) >= 4
    found.run(ROUNDS, validation_data=pool(20))
    assert labeller.asked == expected.labelled_ids.tolist()
    assert_as_expected(found, expected)
    assert_as_expected(learner(directory=tmp_path, label_fn=nobody), expected)
