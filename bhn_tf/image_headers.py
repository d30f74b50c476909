"""The size of an encoded image and its way up, from its header, before it is decoded.

A file of 2 MB can hold 20,000 x 20,000 pixels, so decoding it first could exhaust
memory. Cameras store a photograph as the sensor lay, and say in the header how it is to
be turned; TensorFlow does not read that.
"""

import functools
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
# Second bytes of a JPEG's markers: what Exif data are in, and where pixels begin.
_JPEG_APP1 = 0xE1
_JPEG_PIXELS = 0xDA
_EXIF = b"Exif\0\0"
_EXIF_ORIENTATION = 0x0112


class ImageSize(NamedTuple):
    """Size of an encoded image.

    Attributes:
        height: Rows of pixels as the image is shown; for a GIF, of its first picture.
        width: Columns of pixels as the image is shown.
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
            size = tf.io.extract_jpeg_shape(contents).numpy().tolist()[:2]
            return _sized(*(reversed(size) if orientation_of(contents) > 4 else size))
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


def orientation_of(contents: bytes) -> int:
    """Returns how a JPEG is to be turned, as Exif numbers it from 1 to 8.

    Args:
        contents: The encoded image.

    Returns:
        1, "as stored", also for other formats, and if there is no such number.

    Example:
        >>> orientation_of(tf.io.encode_jpeg(tf.zeros([2, 2, 1], tf.uint8)).numpy())
        1
    """
    try:
        found = _exif_orientation(contents) if contents.startswith(_JPEG) else 1
    except (struct.error, IndexError):
        found = 1
    return found if 1 <= found <= 8 else 1


def upright(image: tf.Tensor, contents) -> tf.Tensor:
    """Turns a decoded image as its header says, which is how it is shown.

    Args:
        image: [height, width, channels] as TensorFlow decodes it.
        contents: What it was decoded from: bytes, or a scalar of a graph.
    """
    if isinstance(contents, bytes):
        number = tf.constant(orientation_of(contents), tf.int64)
    else:
        number = tf.numpy_function(orientation_of, [contents], tf.int64, stateful=False)
    # From 5 on, rows are columns; then the same four mirrorings follow again.
    image = tf.cond(number > 4, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    mirroring = (number - 1) % 4
    for axis, mirrored in ((0, mirroring >= 2), (1, (mirroring + 1) // 2 == 1)):
        flip = functools.partial(tf.reverse, image, [axis])
        image = tf.cond(mirrored, flip, functools.partial(tf.identity, image))
    return image


def _exif_orientation(contents) -> int:
    """Looks through the blocks before the pixels."""
    at = 2
    while contents[at] == 0xFF and contents[at + 1] != _JPEG_PIXELS:
        if contents[at + 1] == 0xFF:
            # Markers may begin with more such bytes than one.
            at += 1
            continue
        (size,) = struct.unpack_from(">H", contents, at + 2)
        block = contents[at + 4 : at + 2 + size]
        if contents[at + 1] == _JPEG_APP1 and block.startswith(_EXIF):
            return _tiff_orientation(block[len(_EXIF) :])
        at += 2 + size
    return 1


def _tiff_orientation(block) -> int:
    order = "<" if block.startswith(b"II") else ">"
    (at,) = struct.unpack_from(f"{order}I", block, 4)
    (count,) = struct.unpack_from(f"{order}H", block, at)
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        tag, _, _, value = struct.unpack_from(f"{order}HHIH", block, entry)
        if tag == _EXIF_ORIENTATION:
            return value
    return 1


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
