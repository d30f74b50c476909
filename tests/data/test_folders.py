"""Folders of class folders of images."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import data


def write_png(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tf.io.encode_png(image).numpy())


@pytest.fixture
def letters(tmp_path):
    """Classes A (2 images), B (1), C (1), all [4, 5, 1]."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, size=(4, 4, 5, 1), dtype=np.uint8)
    names = ["A/b.png", "A/c.png", "B/a.PNG", "C/d.png"]
    for name, image in zip(names, images, strict=True):
        write_png(tmp_path / "letters" / name, image)
    return tmp_path / "letters", images


def test_classes_are_sorted_and_images_scaled(letters):
    folder, images = letters
    x, y = data.load("letters", "all", folder.parent)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    np.testing.assert_allclose(x, images / 255.0, atol=1e-7)
    np.testing.assert_array_equal(y, [0, 0, 1, 2])


def test_the_name_may_be_the_folder_itself(letters, monkeypatch):
    folder, _ = letters
    for name in (folder, str(folder)):
        assert len(data.load(name)["all"][0]) == 4
    monkeypatch.chdir(folder.parent)
    assert len(data.load("letters", "all", folder.parent / "elsewhere")[0]) == 4


def test_files_that_are_no_images_are_ignored(letters):
    folder, _ = letters
    (folder / "readme.txt").write_text("letters")
    (folder / "A" / "Thumbs.db").write_bytes(b"x")
    (folder / "A" / "._b.png").write_bytes(b"x")
    (folder / ".hidden").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, y = data.load(str(folder), "all")
    np.testing.assert_array_equal(y, [0, 0, 1, 2])


def test_unreadable_images_are_left_out_counted_and_named(letters):
    folder, images = letters
    (folder / "A" / "a.png").write_bytes(b"")
    whole = (folder / "A" / "b.png").read_bytes()
    (folder / "C" / "c.png").write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="2 files") as caught:
        x, y = data.load(str(folder), "all")
    assert "A/a.png, C/c.png" in str(caught[0].message)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(x, images / 255.0, atol=1e-7)
    np.testing.assert_array_equal(y, [0, 0, 1, 2])


@pytest.mark.parametrize("content", [None, b"broken"])
def test_a_class_without_images_is_refused(letters, content):
    folder, _ = letters
    (folder / "B" / "a.PNG").unlink()
    if content:
        (folder / "B" / "a.png").write_bytes(content)
    with pytest.raises(ValueError, match="no readable image") as error:
        data.load(str(folder), "all")
    assert str(folder / "B") in str(error.value)


@pytest.mark.parametrize("shape", [(4, 6, 1), (4, 5, 3)])
def test_images_of_two_shapes_are_refused(letters, shape):
    folder, _ = letters
    write_png(folder / "C" / "other.png", np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match="one shape") as error:
        data.load(str(folder), "all")
    assert "C/other.png" in str(error.value) and str(list(shape)) in str(error.value)


def test_there_is_no_train_split(letters):
    with pytest.raises(ValueError, match=r"no split 'train'; it has \['all'\]"):
        data.load(str(letters[0]), "train")


@pytest.mark.slow
def test_real_letters(shared_data):
    x, y = data.load("font_letters", "all", shared_data)
    files = sorted((shared_data / "font_letters").glob("*/*.png"))
    assert x.shape == (len(files), 28, 28, 1)
    assert (x.min(), x.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(y, [ord(f.parent.name) - ord("A") for f in files])


def test_photographs_are_the_way_up_they_are_shown(tmp_path):
    pillow = pytest.importorskip("PIL.Image", reason="images are written by Pillow")
    for name, orientation, size in (("a", 1, (16, 24)), ("b", 6, (24, 16))):
        photograph = pillow.new("L", size)
        photograph.paste(250, (0, 0, 8, 8))
        exif = photograph.getexif()
        exif[0x0112] = orientation
        (tmp_path / name).mkdir()
        photograph.save(tmp_path / name / "x.jpg", exif=exif, quality=100)
    x, _ = data.load(tmp_path)["all"]
    assert x.shape == (2, 24, 16, 1)
    # Turned by a quarter to the right, the bright corner is on the right.
    assert x[0, 0, 0] > 0.9 and x[0, 0, -1] < 0.1
    assert x[1, 0, 0] < 0.1 and x[1, 0, -1] > 0.9
