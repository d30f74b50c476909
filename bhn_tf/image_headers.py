"""The size of an encoded image, from its header, before anything is decoded.

A file of 2 MB can hold 20,000 x 20,000 pixels, so decoding it first could exhaust
memory.
"""

import struct
from typing import NamedTuple

import tensorflow as tf

#: The most pixels that are decoded if no size is expected.
MAX_PIXELS = 1 << 25

_PNG = b"\x89PNG"
_JPEG = b"\xff\xd8\xff"
_BMP = b"BM"
_GIF = b"GIF8"
# First bytes of a GIF's blocks: an image, and the end of the file.
_GIF_IMAGE = 0x2C
_GIF_TRAILER = 0x3B


class ImageSize(NamedTuple):
    """Size of an encoded image.

    Attributes:
        height: Rows of pixels; for a GIF, of its first picture.
        width: Columns of pixels.
        num_pixels: Pixels that decoding unpacks; for a GIF, of all pictures.
    """

    height: int
    width: int
    num_pixels: int


def is_image(contents: bytes) -> bool:
    """Whether bytes begin like an encoded image.

    Example:
        >>> is_image(tf.io.encode_png(tf.zeros([2, 2, 1], tf.uint8)).numpy())
        True
    """
    return contents.startswith((_PNG, _JPEG, _BMP, _GIF))


def size_of(contents: bytes) -> ImageSize:
    """Returns the size in the header of a PNG, JPEG, BMP or GIF.

    Args:
        contents: The encoded image.

    Raises:
        ValueError: If it is none of these, its header is damaged, or it is a BMP with
            a table of colours.

    Example:
        >>> size_of(tf.io.encode_png(tf.zeros([2, 3, 1], tf.uint8)).numpy())
        ImageSize(height=2, width=3, num_pixels=6)
    """
    try:
        if contents.startswith(_PNG):
            return _sized(*reversed(struct.unpack_from(">II", contents, 16)))
        if contents.startswith(_JPEG):
            height, width, _ = tf.io.extract_jpeg_shape(contents).numpy().tolist()
            return _sized(height, width)
        if contents.startswith(_BMP):
            width, height = struct.unpack_from("<ii", contents, 18)
            _refuse_palette(contents)
            # A negative height means that rows start at the top.
            return _sized(abs(height), abs(width))
        if contents.startswith(_GIF):
            return _of_gif(contents)
    except (struct.error, IndexError, tf.errors.InvalidArgumentError) as error:
        raise ValueError("The header of the image is damaged.") from error
    raise ValueError("The bytes are no PNG, JPEG, BMP or GIF image.")


def _sized(height, width) -> ImageSize:
    return ImageSize(height, width, height * width)


def _refuse_palette(contents) -> None:
    """Refuses a BMP with a table of colours, which TensorFlow would take for grey."""
    (size_of_header,) = struct.unpack_from("<I", contents, 14)
    (num_bits,) = struct.unpack_from("<H", contents, 28)
    if num_bits != 8:
        return
    (num_colours,) = struct.unpack_from("<I", contents, 46)
    start, count = 14 + size_of_header, num_colours or 256
    table = contents[start : start + 4 * count]
    grey = bytes(value for index in range(256) for value in (index, index, index))
    if b"".join(table[at : at + 3] for at in range(0, len(table), 4)) != grey:
        raise ValueError(
            "A BMP with a table of colours, which TensorFlow does not read: save it as "
            "PNG, or with 24 bits for each pixel."
        )


def _of_gif(contents) -> ImageSize:
    """Sums over all blocks, as decoders unpack every picture to return the first."""
    pictures = []
    at = 13 + _bytes_of_colours(contents[10])
    while at < len(contents) and contents[at] != _GIF_TRAILER:
        if contents[at] == _GIF_IMAGE:
            width, height, flags = struct.unpack_from("<HHB", contents, at + 5)
            pictures.append((height, width))
            # Skips the descriptor, its colours, and one byte before the data.
            at += 10 + _bytes_of_colours(flags) + 1
        else:
            # Skips the marker and the kind of an extension.
            at += 2
        while contents[at]:
            at += 1 + contents[at]
        at += 1
    height, width = pictures[0]
    return ImageSize(height, width, sum(rows * columns for rows, columns in pictures))


def _bytes_of_colours(flags) -> int:
    return 3 << (1 + (flags & 7)) if flags & 0x80 else 0
