"""Images as input of a model, and image files as rows."""

import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path

import numpy as np
import tensorflow as tf

from bhn_tf.image_folders import SUFFIXES, images_in, read_image
from bhn_tf.image_headers import MAX_PIXELS, size_of, upright
from bhn_tf.scoring.batches import (
    Batch,
    as_rows,
    checked_bytes,
    only_input,
    text_of,
)
from bhn_tf.serving.problems import ScoringProblem

_MAX_BATCH_BYTES = 1 << 31

# How many files are tried before the whole folder is refused.
_TRIES = 10


def check_takes_images(spec: tf.TensorSpec, name: str) -> None:
    """Refuses a model whose input is not an image.

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
            f"{spec.shape}. Only [rows, height, width, 1 or 3], uint8 or floats, can "
            "be fed with images."
        )


def decode(contents, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns an image, the way up it is shown, in the channels of the model.

    The header is read first, so that an image that is too large is never unpacked.

    Args:
        contents: PNG, JPEG, BMP or GIF (its first picture): bytes, or a scalar of a
            graph.
        spec: What the model takes, rows first; passed by `check_takes_images`.

    Returns:
        [height, width, channels]: uint8 as stored if the model takes uint8; otherwise
        float32 from 0 to 1, the range of `bhn_tf.data.load`.

    Raises:
        ValueError: If the image is broken or of a size that the model does not take;
            in a graph, an `InvalidArgumentError` with the same message.
    """
    contents = checked_bytes(contents, functools.partial(_check_size, spec=spec))
    dtype = tf.uint8 if spec.dtype == tf.uint8 else tf.float32

    def decoded(channels):
        image = tf.io.decode_image(
            contents, channels=channels, dtype=dtype, expand_animations=False
        )
        return upright(image, contents)

    try:
        if spec.shape[-1] == 3:
            return decoded(3)
        # TensorFlow makes no grey of a BMP or GIF.
        start = tf.strings.substr(contents, 0, 2)
        return tf.cond(
            (start == b"BM") | (start == b"GI"),
            lambda: tf.image.rgb_to_grayscale(decoded(3)),
            lambda: decoded(1),
        )
    except tf.errors.OpError as error:
        raise ValueError(error.message.partition("\n")[0][:300]) from error


def _check_size(contents, spec) -> None:
    height, width, num_pixels = size_of(contents)
    if not spec.shape[1:3].is_compatible_with([height, width]):
        raise ValueError(
            f"An image of {height} x {width} pixels, and the model takes the shape "
            f"{tuple(spec.shape[1:])}."
        )
    if num_pixels > max(MAX_PIXELS, spec.shape[1:3].num_elements() or 0):
        raise ValueError(
            f"An image of {num_pixels} pixels, and at most {MAX_PIXELS} are decoded."
        )


class ImageFiles:
    """Image files, one row each; a row is named by its path.

    A file that is missing, broken, too large or of another size keeps its row, whose
    scores are NaN.

    Args:
        name: A name for all of them together.
        files: The files.
    """

    def __init__(self, name: str, files: Sequence[Path]):
        self.name = name
        self.files = list(files)
        self.num_rows = len(self.files)
        # Of a readable image; known after `check`.
        self._shape: tuple[int, ...] = ()

    @classmethod
    def of_folder(cls, folder: Path) -> "ImageFiles":
        """Takes all images of a folder and its subfolders, by name.

        Hidden files and folders are left out.

        Raises:
            ScoringProblem: If there is none.
        """
        found = images_in(folder, inner=True)
        if not found:
            raise ScoringProblem(
                f"The folder {text_of(folder)} holds no images "
                f"({', '.join(SUFFIXES)}). Files of another kind are given by a "
                f"pattern, such as '{text_of(folder)}/*.npy'."
            )
        return cls(text_of(folder), found)

    def check(self, specs: dict) -> None:
        """Refuses images that the model does not take, judging by the first one."""
        _, spec = only_input(specs, self.name, "an image file")
        check_takes_images(spec, self.name)
        reasons = []
        for path in self.files[:_TRIES]:
            try:
                self._shape = tuple(_decoded(path, spec).shape)
            except (OSError, ValueError) as error:
                reasons.append(f"{text_of(path)}: {error}")
            else:
                return
        raise ScoringProblem(
            f"{self.name}: none of the first {len(reasons)} files can be scored. "
            f"{reasons[0]}"
        )

    def batches(self, specs: dict, start: int, size: int) -> Iterator[Batch]:
        """Yields the images from `start` on, `size` at a time."""
        key, spec = only_input(specs, self.name, "an image file")
        for first in range(start, self.num_rows, size):
            paths = self.files[first : first + size]
            images = self._read(paths, spec)
            broken = tuple(i for i, image in enumerate(images) if image is None)
            ids = [text_of(path) for path in paths]
            yield Batch(ids, {key: self._stacked(images, spec)}, broken)

    def _read(self, paths, spec) -> list:
        """The images of a batch, `None` for those that cannot be scored."""
        images: list = []
        num_threads = os.cpu_count() or 1
        with futures.ThreadPoolExecutor(num_threads) as threads:
            for first in range(0, len(paths), num_threads):
                group = paths[first : first + num_threads]
                images += threads.map(_image_or_none, group, itertools.repeat(spec))
                if not spec.shape[1:].is_fully_defined():
                    # Checked early, before more is decoded than can be batched.
                    _check_together(images, len(paths), self.name)
        return images

    def _stacked(self, images, spec) -> np.ndarray:
        """The images, with zeros in place of the broken ones."""
        found = [image for image in images if image is not None]
        # A network of images of any size may take none of a single pixel.
        shape = found[0].shape if found else self._shape
        dtype = np.uint8 if spec.dtype == tf.uint8 else np.float32
        stacked = np.zeros((len(images), *shape), dtype)
        for row, image in enumerate(images):
            if image is not None:
                stacked[row] = image
        return as_rows(stacked, spec, self.name)


def _image_or_none(path, spec):
    try:
        return _decoded(path, spec).numpy()
    except (OSError, ValueError):
        return None


def _decoded(path: Path, spec) -> tf.Tensor:
    return decode(read_image(path), spec)


def _check_together(images, num_rows, name) -> None:
    found = [image for image in images if image is not None]
    shapes = {image.shape for image in found}
    if len(shapes) > 1:
        raise ScoringProblem(
            f"{name}: the model takes images of any size, but those of one batch have "
            f"to be equal, and are {sorted(shapes)}. Resize them, or take "
            "a batch size of 1."
        )
    if found and num_rows > 1 and found[0].nbytes * num_rows > _MAX_BATCH_BYTES:
        raise ScoringProblem(
            f"{name}: a batch of {num_rows} images of the shape {found[0].shape} takes "
            f"{found[0].nbytes * num_rows >> 20} MiB. Take a smaller batch size."
        )
