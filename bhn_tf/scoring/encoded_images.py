"""Encoded images as the input of a model."""

import tensorflow as tf

from bhn_tf.serving.problems import ScoringProblem

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif")

_BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8")


def is_image(contents: bytes) -> bool:
    """Whether bytes begin as an encoded image does.

    Example:
        >>> is_image(tf.io.encode_png(tf.zeros([2, 2, 1], tf.uint8)).numpy())
        True
    """
    return contents.startswith(_BEGINNINGS)


def check_takes_images(spec: tf.TensorSpec, name: str) -> None:
    """Refuses a model whose input is no image.

    Args:
        spec: What the model takes, rows first.
        name: Name of the file or folder, for the message.

    Raises:
        ScoringProblem: If it is not [rows, height, width, 1 or 3] of uint8 or floats.
    """
    is_image_shaped = spec.shape.rank == 4 and spec.shape[-1] in (1, 3)
    if not is_image_shaped or not (spec.dtype == tf.uint8 or spec.dtype.is_floating):
        raise ScoringProblem(
            f"{name} holds images, and the model takes {spec.dtype.name} of shape "
            f"{spec.shape.as_list()}. Only [rows, height, width, 1 or 3], uint8 or "
            "floats, can be fed with images."
        )


def decode(contents, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns an image in the channels of the model, grey or colour.

    Args:
        contents: PNG, JPEG, BMP or GIF (its first picture) as bytes.
        spec: What the model takes, rows first; one that `check_takes_images` passes.

    Returns:
        [height, width, channels], uint8 as stored for a model of uint8; for a model of
        floats float32 from 0 to 1, the range of `bhn_tf.data.load`.
    """
    dtype = tf.uint8 if spec.dtype == tf.uint8 else tf.float32
    return tf.io.decode_image(
        contents, channels=spec.shape[-1], dtype=dtype, expand_animations=False
    )
