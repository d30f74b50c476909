"""Tests whether the values of a posterior depend on each other."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from bhn_tf.arguments import check_count


class PearsonTest(NamedTuple):
    """Pearson's test of every pair of some values.

    Attributes:
        pairs: Indices of the two values, [pairs, 2].
        correlation: Their correlation coefficient, [pairs].
        p_value: Probability that independent values correlate at least as much,
            [pairs]; 1 if a value never varies.
    """

    pairs: np.ndarray
    correlation: np.ndarray
    p_value: np.ndarray


def pearson_test(
    draws: ArrayLike, max_values: int = 1000, seed: int = 0
) -> PearsonTest:
    """Tests pairs of values for correlation, as the paper does with a hypernet's.

    Under independent Gaussians the p-values are uniform: a share of 0.05 lies below
    0.05. Of many values, only the pairs within a random subset are tested, since the
    number of pairs grows with the square.

    Args:
        draws: g [S, D], independent draws, such as `model.sample_scales(1000)`.
        max_values: Largest size of the subset, at least 2.
        seed: Seed of the subset.

    Returns:
        The pairs, their correlations and p-values (two-sided).

    Raises:
        ValueError: If there are fewer than three draws or two values, draws are not
            finite, or a number makes no sense.

    Example:
    ```python
    found = bhn_tf.correlation.pearson_test(model.sample_scales(1000))
    print((found.p_value < 0.05).mean())
    ```

    Reference: paper, appendix "Learning correlated weights".
    """
    draws = np.asarray(draws, "float64")
    if draws.ndim != 2 or draws.shape[0] < 3 or draws.shape[1] < 2:
        raise ValueError(
            "Expected draws of shape [S, D] with at least three draws of two values, "
            f"got {list(draws.shape)}."
        )
    if not np.isfinite(draws).all():
        raise ValueError(
            "The draws have values that are NaN or infinite, whose correlation is not "
            "defined: look at whether training has diverged."
        )
    check_count("max_values", max_values, minimum=2)
    check_count("seed", seed, minimum=0)
    chosen = np.arange(draws.shape[1])
    if len(chosen) > max_values:
        chosen = np.random.default_rng(seed).permutation(chosen)[:max_values]
    centered = draws[:, chosen] - draws[:, chosen].mean(axis=0)
    norm = np.linalg.norm(centered, axis=0)
    # Rounding of the mean makes a value that never varies look as if it did.
    varies = (np.ptp(draws[:, chosen], axis=0) > 0) & (norm > 0)
    unit = np.divide(centered, norm, out=np.zeros_like(centered), where=varies)
    rows, columns = np.triu_indices(len(chosen), k=1)
    correlation = np.clip((unit.T @ unit)[rows, columns], -1.0, 1.0)
    freedom = len(draws) - 2
    with np.errstate(divide="ignore"):
        t = np.abs(correlation) * np.sqrt(freedom / (1.0 - correlation**2))
    return PearsonTest(
        np.stack([chosen[rows], chosen[columns]], axis=1),
        correlation,
        2.0 * special.stdtr(freedom, -t),
    )
