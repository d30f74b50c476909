"""Toy regressions: one input, one output, and data that cover only a part."""

from collections.abc import Sequence

import numpy as np

from bhn_tf.data.sources import Arrays, Source

_NOISE_STDDEV = 0.02
_NUM_EXAMPLES = 1_000
_SEEDS = {"train": 0, "test": 1}


def blundell(num_examples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The regression of Blundell et al. (2015), as the paper's authors ran it.

    Inputs cover [0, 0.5] only, so that a good posterior is narrow there and widens
    outside: x ~ U(0, 0.5), e ~ N(0, 0.02²) and
    y = x + 0.3 sin(2π(x + e)) + 0.3 sin(4π(x + e)) + e.

    Args:
        num_examples: the number of examples, n.
        seed: the same seed gives the same examples.

    Returns:
        x [n, 1] and y [n, 1], float32.

    Raises:
        ValueError: if `num_examples` is not a positive integer.

    Example:
        >>> x, y = blundell(50)
        >>> x.shape, y.shape
        ((50, 1), (50, 1))
    """
    if not isinstance(num_examples, (int, np.integer)) or num_examples < 1:
        raise ValueError(
            "Expected `num_examples` to be a positive whole number, such as "
            f"`blundell(50)`, got {num_examples!r}."
        )
    generator = np.random.default_rng(seed)
    x = generator.uniform(0.0, 0.5, size=(num_examples, 1))
    noise = generator.normal(0.0, _NOISE_STDDEV, size=(num_examples, 1))
    y = x + noise + _waves(x + noise)
    return x.astype(np.float32), y.astype(np.float32)


def blundell_noise_free(x: np.ndarray) -> np.ndarray:
    """The curve of `blundell` without noise: x + 0.3 sin(2πx) + 0.3 sin(4πx).

    The noise is also inside the sines, which makes the mean of y given x slightly
    flatter than this curve: the amplitudes 0.3 become 0.298 and 0.291.

    Args:
        x: inputs of any shape, inside [0, 0.5] or outside.

    Returns:
        The values of the curve, of the shape and type of `x`.

    Example:
        >>> float(blundell_noise_free(np.array(0.25)))
        0.55
    """
    x = np.asarray(x)
    return x + _waves(x)


def blundell_source() -> Source:
    """`blundell` as splits `"train"` and `"test"`, 1,000 examples each.

    Returns:
        A `Source` of inputs x [1000, 1] and real outputs y [1000, 1], float32.

    Example:
        >>> x, y = blundell_source().read(["train"])["train"]
        >>> y.shape
        (1000, 1)
    """

    def read(splits: Sequence[str]) -> dict[str, Arrays]:
        return {split: blundell(_NUM_EXAMPLES, _SEEDS[split]) for split in splits}

    return Source(tuple(_SEEDS), read)


def _waves(x: np.ndarray) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * x) + 0.3 * np.sin(4 * np.pi * x)
