"""`as_images` gives one set's images the shape of another's."""

import numpy as np
import pytest

from bhn_tf import data


@pytest.mark.parametrize("channels_in", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(28, 28), (40, 17), (32, 32)])
def test_shape_type_and_range(channels_in, channels, size):
    x = np.random.default_rng(0).random((5, 32, 32, channels_in), np.float32)
    result = data.as_images(x, *size, channels)
    assert result.shape == (5, *size, channels)
    assert result.dtype == np.float32
    assert x.min() <= result.min() and result.max() <= x.max()


def test_same_shape_changes_nothing():
    x = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    np.testing.assert_array_equal(data.as_images(x, 8, 8, 1), x)


def test_colour_to_grey_and_back():
    x = np.array([[0.2, 0.4, 0.8]], np.float32).reshape(1, 1, 1, 3)
    grey = data.as_images(x, 1, 1, 1)
    np.testing.assert_allclose(grey.item(), 0.2989 * 0.2 + 0.587 * 0.4 + 0.114 * 0.8)
    np.testing.assert_array_equal(data.as_images(grey, 1, 1, 3), grey.repeat(3, -1))


def test_thin_strokes_survive_shrinking():
    x = np.zeros((1, 105, 105, 1), np.float32)
    x[:, :, 49:52] = 1
    shrunk = data.as_images(x, 28, 28, 1)
    np.testing.assert_allclose(shrunk.mean(), x.mean(), rtol=0.05)


def test_bytes_equal_floats():
    x = np.random.default_rng(0).integers(0, 256, (3, 9, 9, 3), dtype=np.uint8)
    from_bytes = data.as_images(x, 5, 5, 1)
    np.testing.assert_allclose(
        from_bytes, data.as_images(x / 255.0, 5, 5, 1), atol=1e-6
    )


def test_many_images_equal_one_by_one():
    x = np.random.default_rng(0).random((1030, 6, 6, 1), np.float32)
    result = data.as_images(x, 4, 4, 1)
    np.testing.assert_allclose(result[[0, -1]], data.as_images(x[[0, -1]], 4, 4, 1))


def test_values_outside_the_unit_range_are_kept():
    x = data.gaussian(10, (32, 32, 3))
    result = data.as_images(x, 32, 32, 1)
    assert result.min() < -1 and result.max() > 1


def test_nan_stays_in_its_row():
    x = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    x[1, 0, 0] = np.nan
    is_nan = np.isnan(data.as_images(x, 4, 4, 1)).any(axis=(1, 2, 3))
    np.testing.assert_array_equal(is_nan, [False, True, False])


@pytest.mark.parametrize(
    "x, message",
    [
        (np.zeros((3, 8, 8), np.float32), "np.newaxis"),
        (np.zeros((3, 8, 8, 2), np.float32), "c = 1 or 3"),
        (np.zeros((0, 8, 8, 1), np.float32), "at least one image"),
        (np.zeros((3, 8, 8, 1), np.int64), "int64"),
    ],
)
def test_what_is_no_image_is_refused(x, message):
    with pytest.raises(ValueError, match=message):
        data.as_images(x, 4, 4, 1)


@pytest.mark.parametrize("shape", [(2.5, 4, 1), (0, 4, 1), (4, -1, 1), (4, 4, 2)])
def test_an_impossible_shape_is_refused(shape):
    with pytest.raises(ValueError, match="height"):
        data.as_images(np.zeros((1, 8, 8, 1)), *shape)
