"""Bringing images of one data set into the shape of another."""

import numpy as np
import tensorflow as tf

# Bounds the memory of one resizing step.
_BATCH = 1_024


def to_unit_range(images: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """uint8 images with values 0 to 255 as float32 in [0, 1].

    Args:
        images: uint8 images [n, h, w, c].
        out: float32 array of the same shape to write into.

    Returns:
        The images divided by 255, float32 [n, h, w, c].

    Example:
        >>> to_unit_range(np.full([1, 1, 2, 1], 255, np.uint8)).ravel().tolist()
        [1.0, 1.0]
    """
    return np.divide(images, np.float32(255), out=out, dtype=np.float32)


def as_images(x: np.ndarray, height: int, width: int, channels: int) -> np.ndarray:
    """Converts images to another size and to grey or colour.

    Brings an out-of-distribution set into the shape a trained model expects. Colour
    becomes grey by the usual luminance weights (0.2989, 0.587, 0.114), grey becomes
    colour by repetition, and sizes change by bilinear interpolation with antialiasing,
    so that thin strokes survive shrinking. Values stay within the range of the input.
    Brightness is not inverted: Omniglot is black on white while MNIST is white on
    black, so pass `1 - x` if both should have the same background.

    Args:
        x: images [n, h, w, c] with c = 1 or 3: floats, normally in [0, 1], or uint8,
            which is divided by 255.
        height: rows of pixels of the result.
        width: columns of pixels of the result.
        channels: 1 (grey) or 3 (colour).

    Returns:
        Images [n, height, width, channels], float32.

    Raises:
        ValueError: if `x` is empty or not an array of images, or if the wanted shape is
            not that of an image.

    Example:
        >>> omniglot = np.ones([5, 105, 105, 3], np.float32)
        >>> as_images(1 - omniglot, 28, 28, 1).shape
        (5, 28, 28, 1)
    """
    x = _checked(x, height, width, channels)
    result = np.empty((len(x), height, width, channels), np.float32)
    for start in range(0, len(x), _BATCH):
        rows = slice(start, start + _BATCH)
        batch = to_unit_range(x[rows]) if x.dtype == np.uint8 else x[rows]
        batch = batch.astype(np.float32, copy=False)
        result[rows] = _convert(batch, height, width, channels)
    return result


def _convert(batch: np.ndarray, height: int, width: int, channels: int) -> np.ndarray:
    if batch.shape[1:] == (height, width, channels):
        return batch
    images = tf.convert_to_tensor(batch)
    if batch.shape[-1] > channels:
        images = tf.image.rgb_to_grayscale(images)
    if batch.shape[1:3] != (height, width):
        images = tf.image.resize(images, (height, width), "bilinear", antialias=True)
    if batch.shape[-1] < channels:
        images = tf.image.grayscale_to_rgb(images)
    # Each pixel is a weighted mean of its image's pixels; only rounding leaves their
    # range.
    lowest = batch.min(axis=(1, 2, 3), keepdims=True)
    highest = batch.max(axis=(1, 2, 3), keepdims=True)
    return np.clip(images.numpy(), lowest, highest)


def _checked(x: np.ndarray, height: int, width: int, channels: int) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim != 4 or x.shape[-1] not in (1, 3) or 0 in x.shape:
        raise ValueError(
            "Expected `x` to hold at least one image and have the shape [n, h, w, c] "
            f"with c = 1 or 3, got an array of shape {list(x.shape)}. Grey images "
            "without an axis for channels need `x[..., np.newaxis]`."
        )
    if x.dtype != np.uint8 and not np.issubdtype(x.dtype, np.floating):
        raise ValueError(
            "Expected `x` to be floats, normally in [0, 1], or uint8, which is divided "
            f"by 255, got {x.dtype}, whose range of brightness is not known. Convert "
            "it with `x.astype('float32') / largest_value`."
        )
    is_whole = all(isinstance(n, int | np.integer) for n in (height, width))
    if not is_whole or height < 1 or width < 1 or channels not in (1, 3):
        raise ValueError(
            "Expected a whole height and width of at least 1 and 1 or 3 channels, got "
            f"height={height}, width={width}, channels={channels}."
        )
    return x
