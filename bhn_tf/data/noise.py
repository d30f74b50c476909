"""Noise images: inputs that no classifier has a reason to be sure about."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bhn_tf.data.sources import Arrays, Source, unlabelled

_NUM_EXAMPLES = 10_000
_SHAPE = (28, 28, 1)


def uniform(num_examples: int, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Images whose pixels are independent and uniform on [0, 1).

    Args:
        num_examples: the number of images, n.
        shape: the shape of one image, [h, w, c].
        seed: the same seed gives the same images.

    Returns:
        Images [n, h, w, c], float32.

    Raises:
        ValueError: if `num_examples` or an entry of `shape` is not a positive integer.

    Example:
        >>> uniform(2, (28, 28, 1)).shape
        (2, 28, 28, 1)
    """
    size = _size(num_examples, shape)
    return np.random.default_rng(seed).random(size, dtype=np.float32)


def gaussian(num_examples: int, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Images whose pixels are independent and standard normal, N(0, 1).

    As in the experiments of the paper's authors, values are not clipped to [0, 1]:
    these images differ from real ones by their range as well as by their content.

    Args:
        num_examples: the number of images, n.
        shape: the shape of one image, [h, w, c].
        seed: the same seed gives the same images.

    Returns:
        Images [n, h, w, c], float32, also below 0 and above 1.

    Raises:
        ValueError: if `num_examples` or an entry of `shape` is not a positive integer.

    Example:
        >>> gaussian(2, (32, 32, 3)).shape
        (2, 32, 32, 3)
    """
    size = _size(num_examples, shape)
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32)


def noise_source(make: Callable[..., np.ndarray]) -> Source:
    """10,000 noise images [28, 28, 1] of fixed seed, as the split `"all"`.

    Args:
        make: `uniform` or `gaussian`.

    Returns:
        A `Source` whose labels are all 0.

    Example:
        >>> x, y = noise_source(uniform).read(["all"])["all"]
        >>> x.shape
        (10000, 28, 28, 1)
    """

    def read(splits: Sequence[str]) -> dict[str, Arrays]:
        return unlabelled(make(_NUM_EXAMPLES, _SHAPE))

    return Source(("all",), read)


def _size(num_examples: int, shape: Sequence[int]) -> tuple[int, ...]:
    size = (num_examples, *(shape if isinstance(shape, Iterable) else (shape,)))
    if not all(isinstance(n, (int, np.integer)) and n > 0 for n in size):
        raise ValueError(
            "Expected a positive whole number of examples and a shape of positive "
            "whole numbers, such as `uniform(1000, (28, 28, 1))`, got "
            f"num_examples={num_examples!r} and shape={shape!r}."
        )
    return tuple(int(n) for n in size)
