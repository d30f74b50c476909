"""Limits on the norms of kernels, which weight normalisation may divide out again."""

import keras

from bhn_tf.layers.random_layer import generates_kernel
from bhn_tf.layers.weight_norm import WeightNorm

_LIMITS_OF_NORMS = (
    keras.constraints.MaxNorm,
    keras.constraints.MinMaxNorm,
    keras.constraints.UnitNorm,
)


def has_limit_without_effect(layer: keras.Layer) -> bool:
    """Whether a layer limits norms of a kernel that is only a direction.

    A limit whose axes leave out some of those of an output changes the direction.
    """
    if isinstance(layer, keras.layers.SpectralNormalization):
        return isinstance(layer.layer, WeightNorm)
    if not isinstance(layer, WeightNorm) or generates_kernel(layer.random):
        return False
    limit = layer.direction.constraint
    if not isinstance(limit, _LIMITS_OF_NORMS):
        return False
    rank = len(layer.direction.shape)
    axes = {axis % rank for axis in keras.tree.flatten(limit.axis)}
    return axes.issuperset(layer.norm_axes())
