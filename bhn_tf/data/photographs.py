"""Patches of real photographs, from the two pictures that come with scikit-learn."""

from collections.abc import Sequence

import numpy as np
from sklearn.datasets import load_sample_images

from bhn_tf.data.images import as_images
from bhn_tf.data.sources import Arrays, Source
from bhn_tf.environment import require

_PATCH = 28


def photographs_source() -> Source:
    """660 grey patches [28, 28, 1] of two photographs, as the split `"all"`.

    scikit-learn's `china.jpg` and `flower.jpg` (427 x 640 pixels each) are converted to
    grey and cut on a regular grid without overlap, row by row: 15 x 22 patches of each.
    The remaining 7 rows and 24 columns at the lower and right edges are dropped. The
    label says which photograph a patch is from: 0 china, 1 flower.

    Returns:
        A `Source` of images [660, 28, 28, 1] in [0, 1] and labels [660].

    Example:
        >>> x, y = photographs_source().read(["all"])["all"]
        >>> x.shape
        (660, 28, 28, 1)
    """
    return Source(("all",), _read)


def _read(splits: Sequence[str]) -> dict[str, Arrays]:
    # scikit-learn needs pillow for its pictures, but does not install it.
    require("PIL", "'bhn-tf[trainers]'")
    patches = [_cut(photograph) for photograph in load_sample_images().images]
    labels = [np.full(len(p), index, np.int32) for index, p in enumerate(patches)]
    return {"all": (np.concatenate(patches), np.concatenate(labels))}


def _cut(photograph: np.ndarray) -> np.ndarray:
    height, width, _ = photograph.shape
    grey = as_images(photograph[np.newaxis], height, width, channels=1)[0]
    rows, columns = height // _PATCH, width // _PATCH
    grey = grey[: rows * _PATCH, : columns * _PATCH]
    grid = grey.reshape(rows, _PATCH, columns, _PATCH).transpose(0, 2, 1, 3)
    return grid.reshape(-1, _PATCH, _PATCH, 1)
