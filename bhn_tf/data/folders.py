"""Images in one folder for each class, the layout of notMNIST."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from bhn_tf.data.images import to_unit_range
from bhn_tf.data.prepared_folders import sub_folders
from bhn_tf.data.sources import Arrays, Source
from bhn_tf.image_folders import SUFFIXES, images_in, read_image
from bhn_tf.image_headers import MAX_PIXELS, size_of, upright
from bhn_tf.user_warnings import warn_user


def is_class_folders(folder: Path) -> bool:
    """Whether a folder has sub-folders with images in them.

    Args:
        folder: any path, whether it exists or not.

    Returns:
        True if at least one class folder holds at least one image file.

    Example:
        >>> is_class_folders(Path("no/such/folder"))
        False
    """
    return any(images_in(class_folder) for class_folder in sub_folders(folder))


def class_folders_source(folder: Path) -> Source:
    """Images in `folder/<class>/<file>`, as the split `"all"`.

    Classes are the sub-folders in alphabetical order, their position is the label, and
    images are ordered by class, then file name. Files that cannot be decoded, or would
    unpack to more than 33 million pixels, are left out with one warning that counts and
    names them (the published notMNIST_small has two). Names that start with a dot and
    files that are not images are ignored. Photographs are turned the way up that they
    are shown (Exif orientation).

    Args:
        folder: the folder that holds the class folders.

    Returns:
        A `Source` of images [n, h, w, c] in [0, 1] and labels [n]. Its `read` raises
        `ValueError` if a class has no image or if images differ in shape.

    Example:
        >>> source = class_folders_source(Path("notMNIST_small"))
        >>> source.splits
        ('all',)
    """

    def read(splits: Sequence[str]) -> dict[str, Arrays]:
        return {"all": _read(folder)}

    return Source(("all",), read)


def _read(folder: Path) -> Arrays:
    images: list[np.ndarray] = []
    labels: list[int] = []
    files: list[Path] = []
    unreadable: list[Path] = []
    for label, class_folder in enumerate(sub_folders(folder)):
        num_before = len(images)
        for file in images_in(class_folder):
            image = _decode(file)
            if image is None:
                unreadable.append(file)
                continue
            images.append(image)
            files.append(file)
            labels.append(label)
        if len(images) == num_before:
            # Leaving the class out would silently shift the labels of later classes.
            raise ValueError(
                f"The class folder {class_folder} holds no readable image "
                f"({', '.join(SUFFIXES)}). Each sub-folder of {folder} is one "
                "class: put images into it or move it away."
            )
    if unreadable:
        _warn_of(unreadable, folder)
    _check_one_shape(images, files, folder)
    return to_unit_range(np.stack(images)), np.array(labels, np.int32)


def _decode(file: Path) -> np.ndarray | None:
    """The image [h, w, c], uint8, or None if the file is not an image or is huge."""
    try:
        contents = read_image(file)
        # A small file can unpack to more than fits into memory.
        if size_of(contents).num_pixels > MAX_PIXELS:
            return None
        image = tf.io.decode_image(contents, expand_animations=False)
        return upright(image, contents).numpy()
    except (OSError, ValueError, tf.errors.OpError):
        return None


def _warn_of(unreadable: list[Path], folder: Path) -> None:
    shown = [str(file.relative_to(folder)) for file in unreadable[:10]]
    if len(unreadable) > len(shown):
        shown.append(f"and {len(unreadable) - len(shown)} more")
    warn_user(
        f"{len(unreadable)} files in {folder} cannot be read as images and were left "
        f"out: {', '.join(shown)}.",
    )


def _check_one_shape(images: list[np.ndarray], files: list[Path], folder: Path) -> None:
    counts = Counter(image.shape for image in images)
    if len(counts) == 1:
        return
    examples = {image.shape: file for image, file in zip(images, files, strict=True)}
    found = "; ".join(
        f"{count} of shape {list(shape)} such as {examples[shape].relative_to(folder)}"
        for shape, count in counts.most_common(3)
    )
    raise ValueError(
        f"All images in {folder} must have one shape [h, w, c], since they become one "
        f"array; found {len(counts)} shapes: {found}. Convert the files to one size "
        "and colour mode first."
    )
