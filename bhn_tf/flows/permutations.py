"""Fixed permutations between flow layers."""

import numpy as np


def permutations(
    event_size: int, num_layers: int, num_untransformed: int, seed: int
) -> list[np.ndarray]:
    """Returns the permutations between `num_layers` flow layers.

    A flow layer leaves its first `num_untransformed` entries as they are. None of the
    permutations is the identity. The first one moves transformed entries to the front,
    so that two layers already transform every entry; the others are uniform.

    They come from `numpy.random.RandomState`, whose stream NumPy keeps frozen: the
    permutations depend only on the four arguments, in every process and version, so
    that trained weights keep their meaning.

    Args:
        event_size: D, at least 2.
        num_layers: L.
        num_untransformed: Entries at the front that a layer passes through.
        seed: Seed of the frozen stream.

    Returns:
        `L - 1` integer arrays of shape [D]; `y = x[..., permutation]`.

    Example:
    ```python
    permutations(event_size=2, num_layers=2, num_untransformed=1, seed=0)
    # [array([1, 0])]
    ```
    """
    random = np.random.RandomState(seed)
    result = []
    for layer in range(num_layers - 1):
        permutation = random.permutation(event_size)
        while np.array_equal(permutation, np.arange(event_size)):
            permutation = random.permutation(event_size)
        if layer == 0:
            was_transformed = permutation >= num_untransformed
            front = permutation[was_transformed][:num_untransformed]
            rest = permutation[~np.isin(permutation, front)]
            permutation = np.concatenate([front, rest])
        result.append(permutation.astype(np.int32))
    return result
