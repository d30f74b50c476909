"""Sets that TensorFlow Datasets has prepared: reading, and refusing damaged ones."""

import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import data

SHARD = "tiny-train.tfrecord-00000-of-00001"


@pytest.fixture
def damaged(tiny_root, tmp_path):
    """A copy of the set "tiny" to break: (root, folder of the version)."""
    shutil.copytree(tiny_root / "tiny", tmp_path / "tiny")
    return tmp_path, tmp_path / "tiny" / "1.0.0"


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_images_are_scaled_and_in_the_order_of_the_files(tiny_root, tiny_arrays):
    images, labels = tiny_arrays
    x, y = data.load("tiny", "train", tiny_root)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    np.testing.assert_allclose(x, images[:50] / 255.0, atol=1e-7)
    np.testing.assert_array_equal(y, labels[:50])
    assert (x.min(), x.max()) == (0.0, 1.0)


def test_all_splits_a_version_and_slices(tiny_root, tiny_arrays):
    splits = data.load("tiny", data_dir=tiny_root)
    assert {split: len(x) for split, (x, _) in splits.items()} == {
        "train": 50,
        "test": 10,
    }
    first, rest = (data.load("tiny", f"train[{s}]", tiny_root) for s in (":20", "20:"))
    for part in (0, 1):
        joined = np.concatenate([first[part], rest[part]])
        np.testing.assert_array_equal(joined, splits["train"][part])
    x, _ = data.load("tiny:1.0.0", "test", tiny_root)
    np.testing.assert_array_equal(x, splits["test"][0])


def test_the_newest_complete_version_is_read(tiny_root, tmp_path):
    for version in ("1.0.0", "0.9.0"):
        shutil.copytree(tiny_root / "tiny" / "1.0.0", tmp_path / "tiny" / version)
    (tmp_path / "tiny" / "1.0.10").mkdir()
    (tmp_path / "tiny" / "1.0.11.incomplete_ABC").mkdir()
    assert len(data.load("tiny", "test", tmp_path)[0]) == 10


@pytest.mark.parametrize("split", ["valid", "train[:5", ["train"]])
def test_an_unknown_split_lists_what_exists(tiny_root, split):
    with pytest.raises(ValueError, match=r"has no split .*'train', 'test'"):
        data.load("tiny", split, tiny_root)


@pytest.mark.parametrize("split", ["train[:0]", "train[40:20]"])
def test_an_empty_slice_is_refused(tiny_root, split):
    with pytest.raises(ValueError, match="no examples.*50 in 'train'"):
        data.load("tiny", split, tiny_root)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_one_changed_byte_is_noticed(damaged, share):
    root, folder = damaged
    content = bytearray((folder / SHARD).read_bytes())
    content[round(share * (len(content) - 1))] ^= 1
    (folder / SHARD).write_bytes(content)
    before = contents(root)
    with pytest.raises(ValueError, match="damaged") as error:
        data.load("tiny", "train", root)
    assert str(folder) in str(error.value) and "python -c" in str(error.value)
    assert contents(root) == before
    assert len(data.load("tiny", "test", root)[0]) == 10


def test_a_file_cut_between_two_examples_is_noticed(damaged):
    root, folder = damaged
    records = list(tf.data.TFRecordDataset(str(folder / SHARD)).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(folder / SHARD)) as writer:
        for record in records[:-1]:
            writer.write(record)
    with pytest.raises(ValueError, match="50 examples expected, 49 found"):
        data.load("tiny", "train", root)


def test_examples_too_many_are_noticed(damaged):
    root, folder = damaged
    description = folder / "dataset_info.json"
    description.write_text(description.read_text().replace('"50"', '"49"'))
    with pytest.raises(ValueError, match="49 examples expected, more found"):
        data.load("tiny", "train", root)


def test_a_missing_file_is_named(damaged):
    root, folder = damaged
    (folder / SHARD).unlink()
    with pytest.raises(FileNotFoundError, match="incomplete") as error:
        data.load("tiny", "train", root)
    assert str(folder) in str(error.value) and SHARD in str(error.value)


@pytest.mark.parametrize("file", ["dataset_info.json", "features.json"])
def test_a_cut_description_is_noticed(damaged, file):
    root, folder = damaged
    (folder / file).write_text((folder / file).read_text()[:40])
    with pytest.raises(ValueError, match="cannot be read") as error:
        data.load("tiny", "train", root)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("left", ["1.0.0", "1.0.0.incompleteA1B2", "incomplete.A_1"])
def test_an_unfinished_preparation_is_named_and_kept(damaged, left):
    root, folder = damaged
    (folder / "dataset_info.json").unlink()
    folder.rename(folder.with_name(left))
    before = contents(root)
    with pytest.raises(FileNotFoundError, match="has not finished") as error:
        data.load("tiny", "train", root)
    assert str(folder.with_name(left)) in str(error.value)
    assert contents(root) == before


def test_another_version_is_not_taken_silently(tiny_root):
    with pytest.raises(FileNotFoundError, match=r"versions \['1.0.0'\]"):
        data.load("tiny:2.0.0", "train", tiny_root)


def test_configurations_are_listed(tiny_root, tmp_path):
    shutil.copytree(tiny_root / "tiny", tmp_path / "several" / "letters")
    with pytest.raises(ValueError, match="several/letters"):
        data.load("several", data_dir=tmp_path)
    assert len(data.load("several/letters", "test", tmp_path)[0]) == 10


def test_an_empty_folder_of_the_name_is_refused(tmp_path):
    (tmp_path / "mnist").mkdir()
    with pytest.raises(FileNotFoundError, match="holds no data"):
        data.load("mnist", "train", tmp_path)


def test_other_kinds_of_sets_are_refused(prepare, tiny_arrays):
    features = pytest.importorskip("tensorflow_datasets").features
    images, labels = tiny_arrays
    label = features.ClassLabel(num_classes=3)

    root = prepare("texts", {"label": label}, {"train": {"label": labels}})
    with pytest.raises(ValueError, match="no image classification set"):
        data.load("texts", "train", root)

    root = prepare(
        "sizes",
        {"image": features.Image(shape=(None, None, 1)), "label": label},
        {"train": {"image": images, "label": labels}},
    )
    with pytest.raises(ValueError, match="one fixed size"):
        data.load("sizes", "train", root)

    root = prepare(
        "hidden",
        {"image": features.Image(shape=(8, 8, 1)), "label": label},
        {"test": {"image": images, "label": np.full(60, -1)}},
    )
    with pytest.raises(ValueError, match="without labels"):
        data.load("hidden", "test", root)


def test_further_features_of_varying_length_do_no_harm(prepare, tiny_arrays):
    tensorflow_datasets = pytest.importorskip("tensorflow_datasets")
    features = tensorflow_datasets.features
    images, labels = tiny_arrays
    root = prepare(
        "boxes",
        {
            "image": features.Image(shape=(8, 8, 1)),
            "label": features.ClassLabel(num_classes=3),
            "points": features.Sequence(np.int64),
        },
        {
            "train": {
                "image": images,
                "label": labels,
                "points": tf.ragged.range(labels),
            }
        },
    )
    assert data.load("boxes", "train", root)[0].shape == (60, 8, 8, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, shapes",
    [
        ("fashion_mnist", {"test": (10_000, 28, 28, 1)}),
        (
            "omniglot",
            {"small1": (2_720, 105, 105, 3), "small2": (3_120, 105, 105, 3)},
        ),
    ],
)
def test_real_sets(shared_data, name, shapes):
    splits = data.load(name, data_dir=shared_data / "tfds")
    assert {split: x.shape for split, (x, _) in splits.items()} == shapes
    for x, y in splits.values():
        assert (x.min(), x.max()) == (0.0, 1.0)
        assert len(x) == len(y) and y.min() >= 0


@pytest.mark.slow
def test_real_mnist_loads_quickly_and_has_disjoint_splits(shared_data):
    start = time.process_time()
    splits = data.load("mnist", data_dir=shared_data / "tfds")
    assert time.process_time() - start < 20
    images = {split: {i.tobytes() for i in x} for split, (x, _) in splits.items()}
    assert {split: len(i) for split, i in images.items()} == {
        "train": 60_000,
        "test": 10_000,
    }
    assert not images["train"] & images["test"]


def test_prepared_data_are_read_quickly_without_network(run_offline, tiny_root):
    process, seconds = run_offline(
        f"print(len(data.load('tiny', 'train', {str(tiny_root)!r})[0]))"
    )
    assert process.stdout.strip() == "50", process.stderr
    assert seconds < 20
