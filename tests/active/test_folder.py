"""Labels survive files that are missing, damaged, older or from another run."""

import itertools
import json
import warnings

import numpy as np
import pytest

from bhn_tf.active.folder import LearnerFolder
from bhn_tf.active.progress import Progress

CONFIGURATION = {"pool_size": 40, "seed": 1}
IDS = np.array([3, 0, 7, 12, 30, 31, 20, 21])
LABELS = np.array([2, 0, 1, 1, 0, 2, 1, 0])
FILES = ("labels.npy", "labels.backup.npy", "state.json")


def progress(num_rounds=2, seed=1):
    found = Progress({**CONFIGURATION, "seed": seed})
    for start in range(0, 4 * num_rounds, 4):
        found.add(IDS[start : start + 4], LABELS[start : start + 4])
        found.rounds[-1]["metrics"] = {"loss": 0.5}
    return found


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The content of each file in each condition; `None` for no file."""
    found = {name: {"missing": None, "empty": b""} for name in FILES}
    for condition, written in (
        ("whole", progress()),
        ("older", progress(1)),
        ("other", progress(seed=2)),
    ):
        folder = LearnerFolder(tmp_path_factory.mktemp("active") / condition)
        with folder.locked():
            folder.write(written)
        for name in FILES:
            found[name][condition] = (folder.path / name).read_bytes()
    for name in FILES:
        found[name]["cut"] = found[name]["whole"][:-70]
    np.save(folder.path / "bare.npy", LABELS)
    found["labels.npy"]["bare"] = (folder.path / "bare.npy").read_bytes()
    return found


#: Labels that a file of labels in some condition holds; the others cannot be read.
HELD = {"whole": 8, "older": 4, "bare": 8}
DAMAGED = ("empty", "cut")
CASES = list(
    itertools.product(
        ("whole", "older", "missing", "empty", "cut", "other", "bare"),
        ("whole", "older", "missing", "empty", "cut", "other"),
        ("whole", "older", "missing", "empty", "cut", "other"),
    )
)


def expected_labels(labels, backup, state):
    """How many labels a learner goes on from; `None` if it refuses."""
    conditions = (labels, backup, state)
    if "other" in conditions:
        return None
    held = max(HELD.get(labels, 0), HELD.get(backup, 0))
    told = [HELD.get(c, 0) for c in conditions if c != "bare"]
    if not held and not any(told):
        return None if set(conditions) & set(DAMAGED) else 0
    return held if held == max(told) else None


def write_files(folder, contents, conditions):
    for name, condition in zip(FILES, conditions, strict=True):
        if contents[name][condition] is not None:
            (folder / name).write_bytes(contents[name][condition])


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("conditions", CASES, ids="-".join)
def test_files_that_are_missing_damaged_older_or_foreign(
    conditions, contents, tmp_path
):
    write_files(tmp_path, contents, conditions)
    before = bytes_of(tmp_path)
    expected = expected_labels(*conditions)
    folder = LearnerFolder(tmp_path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if expected is None:
            with pytest.raises(ValueError, match="Nothing was changed|belongs to"):
                folder.look(CONFIGURATION)
        else:
            found = folder.look(CONFIGURATION)
    # Looking changes nothing, whatever is there.
    assert bytes_of(tmp_path) == before
    if expected is None:
        return
    np.testing.assert_array_equal(found.ids, IDS[:expected])
    assert found.round_sizes == [4] * (expected // 4)
    if not expected:
        return
    np.testing.assert_array_equal(found.labels, LABELS[:expected])
    # Each wrong file is named.
    for name, condition in zip(FILES, conditions, strict=True):
        is_told = any(str(tmp_path / name) in str(w.message) for w in told)
        is_state = name == "state.json"
        assert is_told == (
            condition in DAMAGED or (is_state and condition == "missing")
        ), [str(w.message) for w in told]
    # Known metrics stay; rounds without them are trained again.
    known = HELD.get(conditions[2], 0)
    assert [e["metrics"] is not None for e in found.rounds] == [
        e["num_labelled"] <= known for e in found.rounds
    ]
    # The next write mends all files, and destroys none that it could not read.
    with folder.locked():
        folder.write(found)
    after = bytes_of(tmp_path)
    aside = [content for name, content in after.items() if "labels.damaged" in name]
    unread = [n for n, c in zip(FILES[:2], conditions, strict=False) if c in DAMAGED]
    assert sorted(aside) == sorted(before[name] for name in unread)
    for name in FILES[:2]:
        np.testing.assert_array_equal(np.load(tmp_path / name), LABELS[:expected])
    again = LearnerFolder(tmp_path).look(CONFIGURATION)
    np.testing.assert_array_equal(again.ids, found.ids)
    assert again.rounds == found.rounds


def test_each_file_of_labels_is_enough(contents, tmp_path):
    """The seed too, if the learner was given none."""
    (tmp_path / "labels.npy").write_bytes(contents["labels.npy"]["whole"])
    with pytest.warns(UserWarning, match=r"state.json is missing"):
        found = LearnerFolder(tmp_path).look({**CONFIGURATION, "seed": None})
    assert found.configuration == CONFIGURATION and len(found.labels) == 8


@pytest.mark.parametrize("position", [20, 140, 180, 300, -5])
def test_a_flipped_bit_is_noticed(position, contents, tmp_path):
    write_files(tmp_path, contents, ("whole", "whole", "whole"))
    content = bytearray(contents["labels.npy"]["whole"])
    content[position] ^= 1
    (tmp_path / "labels.npy").write_bytes(content)
    with pytest.warns(UserWarning, match="labels.npy is damaged"):
        found = LearnerFolder(tmp_path).look(CONFIGURATION)
    np.testing.assert_array_equal(found.labels, LABELS)


def test_a_label_that_was_corrected_by_hand(contents, tmp_path):
    """A person must decide between files that disagree; without the backup it holds."""
    write_files(tmp_path, contents, ("whole", "whole", "whole"))
    corrected = LABELS.copy()
    corrected[2] = 0
    np.save(tmp_path / "labels.npy", corrected)
    with pytest.raises(ValueError, match="different labels for the same rows"):
        LearnerFolder(tmp_path).look(CONFIGURATION)
    (tmp_path / "labels.backup.npy").unlink()
    found = LearnerFolder(tmp_path).look(CONFIGURATION)
    np.testing.assert_array_equal(found.labels, corrected)
    np.testing.assert_array_equal(found.ids, IDS)


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        (IDS[:4] + 1, LABELS[:4], "different rows of the pool.*different runs"),
        (IDS[:4], 1 - LABELS[:4], "different labels for the same rows"),
        (IDS[:4], LABELS[:4, None], "different labels for the same rows"),
    ],
)
def test_a_file_of_another_run_with_equal_arguments(
    ids, values, message, contents, tmp_path
):
    write_files(tmp_path, contents, ("whole", "missing", "whole"))
    other = Progress(CONFIGURATION)
    other.add(ids, values)
    folder = LearnerFolder(tmp_path / "other")
    with folder.locked():
        folder.write(other)
    (folder.path / "labels.npy").rename(tmp_path / "labels.backup.npy")
    with pytest.raises(ValueError, match=message):
        LearnerFolder(tmp_path).look(CONFIGURATION)


def test_nothing_that_came_in_is_executed(contents, tmp_path):
    write_files(tmp_path, contents, ("missing", "whole", "whole"))

    class Bomb:
        def __reduce__(self):
            return exec, ("raise SystemExit('executed')",)

    np.save(tmp_path / "labels.npy", np.array([Bomb()], object), allow_pickle=True)
    with pytest.warns(UserWarning, match="labels.npy is damaged"):
        found = LearnerFolder(tmp_path).look(CONFIGURATION)
    np.testing.assert_array_equal(found.labels, LABELS)


@pytest.mark.parametrize(
    "state",
    [
        [],
        {"version": 1},
        {"version": 1, "configuration": CONFIGURATION, "rounds": [{"ids": [1]}]},
        {"version": 1, "configuration": {"seed": "x"}, "rounds": []},
        {"version": 1, "configuration": CONFIGURATION, "rounds": 3},
    ],
)
def test_a_state_of_another_form_is_damaged(state, contents, tmp_path):
    write_files(tmp_path, contents, ("whole", "whole", "missing"))
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.warns(UserWarning, match="state.json is damaged.*trained again"):
        found = LearnerFolder(tmp_path).look(CONFIGURATION)
    np.testing.assert_array_equal(found.ids, IDS)


def test_a_newer_version_is_refused(contents, tmp_path):
    write_files(tmp_path, contents, ("whole", "whole", "missing"))
    (tmp_path / "state.json").write_text('{"version": 2, "configuration": {}}')
    with pytest.raises(ValueError, match="version 2, and this library reads version 1"):
        LearnerFolder(tmp_path).look(CONFIGURATION)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="'thesis.tex' but no state"):
        LearnerFolder(tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        LearnerFolder(tmp_path / "thesis.tex")


def test_what_a_run_did_not_write_is_not_its_to_delete(contents, tmp_path):
    write_files(tmp_path, contents, ("whole", "whole", "whole"))
    half = f".{'7' * 32}."
    mine = ["model-best.keras", f"{half}notes.txt", "labels.npz", "model-00004.keras"]
    for name in [*mine, f"{half}state.json"]:
        (tmp_path / name).write_text("")
    folder = LearnerFolder(tmp_path)
    with folder.locked():
        folder.tidy(folder.read(CONFIGURATION))
    assert {path.name for path in tmp_path.iterdir()} == {*mine, *FILES, ".lock"}


def test_a_relative_folder_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = LearnerFolder("labels")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert folder.path == tmp_path / "labels"
