"""Which Keras layers have twins with generated weights, and why others do not."""

import keras

from bhn_tf import keras_adapter, layers
from bhn_tf.layers.random_parts import RandomParts

#: Keras layers and their weight-normalised twins.
TWINS = {
    getattr(keras.layers, name.removeprefix("WeightNorm")): getattr(layers, name)
    for name in layers.__all__
    if name.startswith("WeightNorm")
}

#: Keras normalisations and their twins with generated γ.
NORMALIZATIONS = {
    getattr(keras.layers, name): getattr(layers, name)
    for name in layers.__all__
    if name.endswith("Normalization")
}

#: If these cancel the scales of channels, their γ per channel can replace the scales.
TAKE_OVER = (keras.layers.BatchNormalization, keras.layers.GroupNormalization)

#: A normalisation after these cancels the scales of only the last projection.
ATTENTION = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)


def has_scales(layer) -> bool:
    """Whether a layer's outputs have scales that a twin or γ could generate."""
    if type(layer) in TWINS:
        return not _special_kernel(layer)
    is_own = not isinstance(layer, keras.layers.BatchNormalization)
    return is_own and type(layer) in NORMALIZATIONS and has_gamma(layer)


def modes_of(target):
    """The values of `random` that a twin accepts."""
    is_made_of_parts = issubclass(target, RandomParts)
    return target.MODES if is_made_of_parts else target.GENERATED


def has_gamma(layer) -> bool:
    """Whether a normalisation has a scale."""
    if isinstance(layer, keras.layers.RMSNormalization):
        return True
    return layer.gamma is not None


def is_foreign(norm) -> bool:
    """Whether there is no twin of exactly this normalisation."""
    return type(norm) not in NORMALIZATIONS or getattr(norm, "rms_scaling", False)


def _special_kernel(layer) -> str:
    if any(map(is_quantized, keras_adapter.layers_of(layer))):
        return "its kernel is quantised"
    return "its kernel has LoRA" if holds_lora(layer) else ""


def is_quantized(layer) -> bool:
    """Whether a layer has an integer kernel."""
    return getattr(layer, "quantization_mode", None) is not None


def holds_lora(layer) -> bool:
    """Whether a layer, or one inside, has a low-rank product beside its kernel."""
    held = keras_adapter.layers_of(layer)
    return any(getattr(each, "lora_enabled", False) for each in held)


def why_not(layer) -> str:
    """Why a layer cannot become random, in words for the report."""
    if not layer.weights:
        return "has no weights"
    if isinstance(layer, keras.layers.PReLU):
        return "its slopes stay as they are"
    if getattr(layer, "rms_scaling", False):
        return "its `rms_scaling` is deprecated; RMSNormalization has a twin"
    for supported in (*TWINS, *NORMALIZATIONS):
        if type(layer) is supported:
            return _special_kernel(layer)
        if isinstance(layer, supported):
            return f"a class of its own, derived from {supported.__name__}"
    if type(layer) is keras.layers.RNN:
        return (
            f"runs the cell {type(layer.cell).__name__}; `keras.layers.LSTM`, `GRU` "
            "and `SimpleRNN` have twins"
        )
    if isinstance(layer, keras.Model):
        return "a model whose layers are not known to Keras"
    return f"{type(layer).__name__} has no weight-normalised twin"
