"""Transfers a layer's weights to its twin, as they are or as directions and scales."""

from bhn_tf.layers import WeightNormSeparableConv1D, WeightNormSeparableConv2D
from bhn_tf.layers.random_affine import RandomAffine
from bhn_tf.layers.random_parts import RandomParts
from bhn_tf.layers.recurrent_cells import WeightNormCell
from bhn_tf.layers.recurrent_weight_norm import RecurrentWeightNorm
from bhn_tf.layers.weight_norm import WeightNorm
from bhn_tf.networks.copying import carry_own_state, pairs

_SEPARABLE = (WeightNormSeparableConv1D, WeightNormSeparableConv2D)


def carry_over(layer, copied) -> None:
    """Gives a copy, and the layers inside it, the weights of the original.

    Args:
        layer: A layer with its weights.
        copied: A copy, a twin, or a layer in which some are twins.
    """
    for old, new in pairs(layer, copied):
        if isinstance(new, _SEPARABLE) and not isinstance(old, RandomParts):
            _set_kernel(new.depthwise, old.depthwise_kernel)
            _set_kernel(new.pointwise, old.pointwise_kernel, old.bias)
        elif isinstance(new, RecurrentWeightNorm):
            new.take_weights_of(old)
        elif isinstance(new, WeightNormCell):
            # Its layer, which comes before it, has already taken the weights.
            continue
        elif isinstance(new, WeightNorm):
            _carry_kernel(old, new)
        elif isinstance(new, RandomAffine):
            _carry_named(old, new)
        else:
            carry_own_state(old, new)


def _carry_kernel(layer, twin):
    bias = None if twin.bias is None else layer.bias
    if not isinstance(layer, WeightNorm):
        _set_kernel(twin, twin.kernel_of(layer), bias)
        return
    if layer.input_scale is not None and twin.input_scale is None:
        # A twin without generated input scales needs them folded into its kernel.
        _set_kernel(twin, layer.folded_kernel(), bias)
        return
    _set_kernel(twin, layer.direction, bias)
    for name in ("scale", "input_scale"):
        variable, own = getattr(layer, name), getattr(twin, name)
        if variable is not None and own is not None:
            own.assign(variable)


def _set_kernel(twin, kernel, bias=None):
    twin.direction.assign(kernel)
    if twin.scale is not None:
        twin.scale.assign(twin.kernel_norm())
    if bias is not None:
        twin.bias.assign(bias)


def _carry_named(layer, twin):
    """Copies variables by name, as the twin may have a γ that the layer lacks."""
    values = {variable.name: variable for variable in layer.variables}
    for variable in twin.variables:
        if variable.name in values:
            variable.assign(values[variable.name])
