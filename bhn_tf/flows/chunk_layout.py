"""How a long vector is cut into chunks, and the order of entries in each layer."""

import numpy as np

from bhn_tf.flows.permutations import permutations


def chunk_sizes(part_sizes: list[int], chunk_size: int) -> list[int]:
    """Fills chunks with whole parts; a part larger than a chunk is cut evenly.

    Args:
        part_sizes: Sizes of the parts to be kept together, in order.
        chunk_size: The largest size of a chunk.

    Returns:
        Sizes of the chunks, each at least 1.

    Example:
    ```python
    chunk_sizes([3, 3, 9, 2], chunk_size=6)  # [6, 5, 6]
    ```
    """
    chunks = [0]
    for size in part_sizes:
        num_pieces = -(-size // chunk_size)
        for index in range(num_pieces):
            piece = size // num_pieces + (index < size % num_pieces)
            if chunks[-1] + piece > chunk_size:
                chunks.append(0)
            chunks[-1] += piece
    return chunks


def orders_within(
    width: int, num_layers: int, num_untransformed: int, seed: int
) -> list[np.ndarray]:
    """Returns the order of a chunk's entries in each of `num_layers` layers.

    The first layer takes every other entry first, so that even in a chunk that is not
    full, half of the entries are transformed. The others follow from `permutations`.

    Args:
        width: Entries of a full chunk.
        num_layers: L.
        num_untransformed: Entries at the front that a layer passes through.
        seed: Seed of the frozen stream.

    Returns:
        L integer arrays of shape [width].
    """
    order = np.concatenate([np.arange(0, width, 2), np.arange(1, width, 2)])
    if width == 1:
        return [order] * num_layers
    orders = [order]
    for permutation in permutations(width, num_layers, num_untransformed, seed):
        orders.append(orders[-1][permutation])
    return orders[:num_layers]
