"""Scales given by the user: for one call, or put into a network for good."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.layers.generated import generated_values
from bhn_tf.networks.copying import copy_network, fresh_layer, is_graph
from bhn_tf.networks.folding import fold, stock_layer


def checked_scales(scales, x, posterior) -> tf.Tensor:
    """Returns scales for all rows, [D], or for each, [B, D], as a tensor.

    Raises:
        ValueError: If they do not fit the network or the rows.
    """
    scales = tf.cast(scales, tf.float32)
    rows = keras.tree.flatten(x)[0].shape[0]
    if not posterior.num_random:
        raise ValueError(
            "`scales` were given to a network that takes none: nothing in it is random "
            "(D = 0). Leave them out."
        )
    if scales.shape.rank not in (1, 2) or scales.shape[-1] != posterior.num_random:
        raise ValueError(
            f"Expected `scales` of shape [{posterior.num_random}] for all rows or "
            f"[{rows}, {posterior.num_random}] with a draw for each, got "
            f"{scales.shape}."
        )
    if scales.shape.rank == 1:
        return scales
    posterior.require_scales_per_row("`scales` of shape [B, D]")
    if None not in (rows, scales.shape[0]) and rows != scales.shape[0]:
        raise ValueError(
            f"`scales` has {scales.shape[0]} draws, and `x` has {rows} rows: "
            f"give one for each row, or one for all of shape [{posterior.num_random}]."
        )
    return scales


def network_with_scales(posterior, scales, is_folded=False) -> keras.Model:
    """Returns a deterministic copy of the network with g [D] in its weights.

    Args:
        posterior: A `HypernetPosterior`.
        scales: g.
        is_folded: Whether the copy consists of Keras's own layers, with the scales
            folded into their kernels.

    Raises:
        ValueError: If there are not D scales.
    """
    scales = np.asarray(scales, "float32")
    if scales.shape != (posterior.num_random,):
        raise ValueError(
            f"Expected `scales` of shape [{posterior.num_random}], got {scales.shape}."
        )
    network = posterior.network
    with generated_values(posterior.values_of(tf.constant(scales))):
        if is_graph(network):
            make = stock_layer if is_folded else fresh_layer
            return copy_network(network, make, fold)[network]
        copied = fresh_layer(network)
        if not copied.built:
            copied.build_from_config(network.get_build_config())
        fold(network, copied)
        return copied
