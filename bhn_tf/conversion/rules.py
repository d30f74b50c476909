"""What becomes random in a Keras network, and what cannot."""

from typing import NamedTuple

import keras

from bhn_tf import layers
from bhn_tf.conversion.scale_trails import ScaleTrails
from bhn_tf.conversion.selection import LayerSelection
from bhn_tf.layers.random_layer import RandomLayer

#: Keras layers and their weight-normalised twins.
TWINS = {
    getattr(keras.layers, name.removeprefix("WeightNorm")): getattr(layers, name)
    for name in layers.__all__
    if name.startswith("WeightNorm")
}

# Layers that need no twin where a batch normalisation takes their scales over.
_TWO_KERNELS = (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)


class Decision(NamedTuple):
    """What is to become of a layer.

    Attributes:
        reason: Why it is so, for the report.
        target: Class of the layer in its place; `None` for a plain copy.
        random: The argument `random` of that layer.
    """

    reason: str
    target: type | None = None
    random: str | None = None


class ConversionRules:
    """Decides for every layer of a network whether it becomes random.

    Args:
        network: A built Sequential or functional model.
        paths: Its layers, from `paths_of_layers`.
        random: What converted layers have generated.
        only: The layers to make random; `None` for all.
        skip: The layers not to make random.
    """

    def __init__(self, network, paths, random, only, skip):
        self._paths = paths
        self._random = random
        self._only = None if only is None else LayerSelection("only", only, paths)
        self._skip = LayerSelection("skip", skip, paths)
        self._ends = ScaleTrails(network, _scales_outputs).ends
        #: Batch normalisations, and the layers whose scales they stand in for.
        self._stands_in_for = {}

    def decisions(self) -> dict:
        """Returns a `Decision` for every layer."""
        # A batch normalisation may come before the layer it stands in for.
        is_norm = {
            layer: isinstance(layer, keras.layers.BatchNormalization)
            for layer in self._paths
        }
        decided = {
            layer: self._of(layer) for layer in self._paths if not is_norm[layer]
        }
        decided |= {
            layer: self._of_norm(layer) for layer in self._paths if is_norm[layer]
        }
        return {layer: decided[layer] for layer in self._paths}

    def _left_out(self, layer) -> str:
        """Why the arguments leave a layer deterministic; empty if they do not."""
        if self._skip.covers(layer):
            return "`skip` names it"
        if self._only is not None and not self._only.covers(layer):
            return "`only` does not name it"
        return ""

    def _of(self, layer):
        if isinstance(layer, RandomLayer):
            return self._of_random_layer(layer)
        if not _has_scales(layer):
            return Decision(_why_not(layer))
        left_out = self._left_out(layer)
        if left_out:
            return Decision(left_out)
        ends = self._ends.get(layer, [])
        norms = [end for end in ends if end is not None]
        is_cancelled = bool(norms) and len(norms) == len(ends)
        if is_cancelled and not self._random.startswith("kernel"):
            return self._of_cancelled(layer, norms)
        if type(layer) not in TWINS:
            return Decision(_why_not(layer))
        remark = self._remark(layer, norms, is_cancelled)
        return Decision(remark, TWINS[type(layer)], self._random)

    def _of_cancelled(self, layer, norms):
        able = [norm for norm in norms if norm.gamma is not None]
        taking = [norm for norm in able if not self._skip.covers(norm)]
        for norm in taking:
            self._stands_in_for.setdefault(norm, []).append(layer)
        if taking:
            reason = f"{self._names(taking)} cancels its scale and has γ generated"
        elif able:
            reason = f"{self._names(able)} cancels its scale, and `skip` names that too"
        else:
            reason = (
                f"{self._names(norms)} cancels its scale and, with scale=False, has "
                "no γ to generate; `random='kernel'` would make this layer random"
            )
        return Decision(reason)

    def _remark(self, layer, norms, is_cancelled):
        """What a batch normalisation behind it does to a random layer."""
        if not norms:
            return ""
        if not is_cancelled:
            return f"{self._names(norms)} normalises it in one branch only"
        has_bias = self._random == "kernel_and_bias" and layer.bias is not None
        bias = " and its bias" if has_bias else ""
        return f"{self._names(norms)} cancels the length of its kernels{bias}"

    def _of_norm(self, layer):
        if isinstance(layer, RandomLayer):
            return self._of_random_layer(layer)
        is_picked = self._only is not None and self._only.picks(layer)
        sources = self._stands_in_for.get(layer, [])
        if not (sources or is_picked) or self._skip.covers(layer):
            return Decision(
                self._left_out(layer) or "cancels no scale that would be generated"
            )
        if layer.gamma is None:
            return Decision("with scale=False it has no γ to generate")
        reason = f"instead of the scale of {self._names(sources)}" if sources else ""
        random = "scale"
        if self._random.endswith("_and_bias"):
            if layer.beta is not None:
                random = "scale_and_bias"
            else:
                reason = f"{reason}; with center=False it has no β".removeprefix("; ")
        return Decision(reason, layers.BatchNormalization, random)

    def _of_random_layer(self, layer):
        left_out = self._left_out(layer)
        random = "none" if left_out else layer.random
        reason = left_out or f"has `random={layer.random!r}` already"
        return Decision(reason, type(layer), random)

    def _names(self, of_layers):
        return ", ".join(self._paths[layer][0] for layer in of_layers)


def _has_scales(layer) -> bool:
    """Whether a layer's outputs have scales that a twin or γ could generate."""
    return type(layer) in (*TWINS, *_TWO_KERNELS) and not _special_kernel(layer)


def _scales_outputs(layer) -> bool:
    """Whether a layer's scales multiply its outputs before their activation.

    Those of recurrent layers are inside the recurrence, and nothing cancels them.
    """
    return _has_scales(layer) and not isinstance(layer, keras.layers.RNN)


def _special_kernel(layer) -> str:
    if getattr(layer, "quantization_mode", None) is not None:
        return "its kernel is quantised"
    if getattr(layer, "lora_enabled", False):
        return "its kernel has LoRA"
    return ""


def _why_not(layer) -> str:
    if not layer.weights:
        return "has no weights"
    for supported in TWINS:
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
