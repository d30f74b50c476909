"""What becomes random in a Keras network, and what cannot."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import keras

from bhn_tf import keras_adapter
from bhn_tf.conversion.entering import entered, holds_random, is_of_ones_own
from bhn_tf.conversion.scale_trails import ScaleTrails, normalizes_each_output
from bhn_tf.conversion.selection import LayerSelection
from bhn_tf.conversion.twins import (
    ATTENTION,
    NORMALIZATIONS,
    TAKE_OVER,
    TWINS,
    has_gamma,
    has_scales,
    holds_lora,
    is_foreign,
    is_quantized,
    modes_of,
    why_not,
)
from bhn_tf.layers.random_layer import RandomLayer, generates_kernel
from bhn_tf.layers.random_parts import RandomParts
from bhn_tf.networks.copying import (
    config_of,
    fresh_layer,
    is_graph,
    layers_in,
    paths_of_layers,
)
from bhn_tf.networks.described_calls import CannotBeEntered


class Decision(NamedTuple):
    """What is to become of a layer.

    Attributes:
        reason: Why, for the report.
        target: Class of its replacement; `None` for a plain copy.
        random: The argument `random` of the replacement.
        arguments: Other arguments that differ from the original's.
        made: The replacement, if it has already been made.
    """

    reason: str
    target: type | None = None
    random: str | None = None
    arguments: Mapping = MappingProxyType({})
    made: keras.layers.Layer | None = None

    @property
    def keeps(self) -> bool:
        """Whether the layer stays as it is."""
        return self.target is None and self.made is None

    def new_layer(self, layer):
        """Returns the replacement of a layer, without weights."""
        if self.made is not None:
            return self.made
        if self.target is None:
            return fresh_layer(layer)
        config = {**config_of(layer), "random": self.random, **self.arguments}
        return self.target.from_config(config)


class ConversionRules:
    """Decides for every layer of a network whether it becomes random.

    Args:
        network: A built Sequential or functional model; `None` for layers whose
            connections are unknown.
        paths: Its layers, from `paths_of_layers`.
        random: What is generated for converted layers.
        only: The layers to make random; `None` for all.
        skip: The layers not to make random.
    """

    def __init__(self, network, paths, random, only, skip):
        self._paths = paths
        self._random = random
        self._only = None if only is None else LayerSelection("only", only, paths)
        self._skip = LayerSelection("skip", skip, paths)
        self._ends = {}
        if network is not None:
            self._ends = ScaleTrails(network, _is_followed).ends
        #: Normalisations, and the layers whose scales their γ replaces.
        self._stands_in_for = {}

    def decisions(self) -> dict:
        """Returns a `Decision` for every layer."""
        # Normalisations are decided after the layers they may stand in for, which can
        # be listed later; batch normalisations last, as they may stand in for others.
        phases: tuple[list, list, list] = ([], [], [])
        for layer in self._paths:
            is_batch = isinstance(layer, keras.layers.BatchNormalization)
            is_norm = type(layer) in NORMALIZATIONS
            phases[2 if is_batch else 1 if is_norm else 0].append(layer)
        decided = {layer: self._of(layer) for layer in phases[0]}
        for layer in (*phases[1], *phases[2]):
            decided[layer] = self._of_norm(layer)
        return {layer: decided[layer] for layer in self._paths}

    def _left_out(self, layer) -> str:
        """Why the arguments leave a layer deterministic; empty if they do not."""
        if self._skip.covers(layer):
            return "`skip` names it"
        if self._only is not None and not self._only.covers(layer):
            return "`only` does not name it"
        return ""

    def _of(self, layer):
        if isinstance(layer, RandomLayer | RandomParts):
            return self._of_random_layer(layer)
        is_own, left_out = is_of_ones_own(layer), self._left_out(layer)
        if left_out and holds_random(layer):
            return self._of_holder_left_out(layer, left_out)
        if not (has_scales(layer) or is_own):
            is_already = holds_random(layer)
            reason = "holds layers that are random already"
            return Decision(reason if is_already else why_not(layer))
        if left_out:
            return Decision(left_out)
        if is_own:
            return self._of_own_layer(layer)
        norms, is_cancelled = self._cancelling(layer)
        if is_cancelled and not isinstance(layer, ATTENTION):
            return self._of_cancelled(layer, norms)
        random, remark = self._random, self._remark(layer, norms)
        target = TWINS[type(layer)]
        if random not in modes_of(target):
            # Such as "rank_one" of an embedding, whose inputs cannot be scaled.
            random = "scale"
        return Decision(remark, target, random)

    def _of_own_layer(self, layer):
        self._refuse_quantized(layer)
        norms, is_cancelled = self._cancelling(layer)
        try:
            made = entered(layer, self._maker_inside)
        except CannotBeEntered as error:
            reason = f"{type(layer).__name__} is not entered: {error}"
            if holds_random(layer):
                reason += "; what it generates already stays random"
            return Decision(reason)
        reason = "layers that it holds are exchanged, its call is kept"
        if is_cancelled:
            reason += f"; {self._names(norms)} may cancel the scale of its last one"
        if holds_lora(layer):
            reason += "; LoRA in them is merged into kernels, which are trained whole"
        return Decision(reason, made=made)

    def _refuse_quantized(self, layer):
        for inner in filter(is_quantized, keras_adapter.layers_of(layer)):
            raise ValueError(
                f"{self._names([layer])!r} holds {inner.name!r}, whose kernel is "
                f"quantised: {type(layer).__name__} makes another one in a copy. "
                "Convert the network as it was before, and quantise what `draw()` "
                "returns."
            )

    def _of_holder_left_out(self, layer, left_out):
        """Of a layer that is left out, while layers that it holds are random."""

        def maker(inner):
            return self._maker_inside(inner, skip=keras.layers.Layer)

        try:
            made = entered(layer, maker)
        except CannotBeEntered as error:
            raise ValueError(
                f"{left_out}, but {self._names([layer])!r} holds layers with generated "
                f"weights, which cannot be made deterministic from outside: {error}. "
                f"Give them `random='none'` in the class {type(layer).__name__}."
            ) from error
        return Decision(f"{left_out}; nothing is generated inside", made=made)

    def _maker_inside(self, inner, skip=()):
        """Returns a function that makes the replacements in a part of an own layer.

        `None` if all in it stays: such layers may have no configuration to copy.
        """
        network = inner if is_graph(inner) else None
        paths = paths_of_layers(inner) if layers_in(inner) else {inner: [inner.name]}
        may_cancel = network is None and not (skip or generates_kernel(self._random))
        for held in paths if may_cancel else ():
            if normalizes_each_output(held):
                raise CannotBeEntered(
                    f"it holds {held.name!r}, which cancels the scales of what comes "
                    "before, and only its `call` knows what that is"
                )
        rules = ConversionRules(network, paths, self._random, None, skip)
        decisions = rules.decisions()
        if all(decision.keeps for decision in decisions.values()):
            return None
        return lambda layer: decisions[layer].new_layer(layer)

    def _cancelling(self, layer):
        """The normalisations after a layer, and whether they cancel all its scales."""
        ends = self._ends.get(layer, [])
        norms = [end for end in ends if end is not None]
        is_everywhere = bool(norms) and len(norms) == len(ends)
        return norms, is_everywhere and not generates_kernel(self._random)

    def _of_cancelled(self, layer, norms):
        able = [
            norm
            for norm in norms
            if isinstance(norm, TAKE_OVER) and not is_foreign(norm)
        ]
        taking = [norm for norm in able if not self._skip.covers(norm)]
        for norm in taking:
            self._stands_in_for.setdefault(norm, []).append(layer)
        if taking:
            reason = f"{self._names(taking)} cancels its scale and has γ generated"
        elif able:
            reason = f"{self._names(able)} cancels its scale, and `skip` names that too"
        else:
            reason = (
                f"{self._names(norms)} cancels its scale and has no γ in its place; "
                "`random='kernel'` would make this layer random"
            )
        return Decision(reason)

    def _remark(self, layer, norms):
        """What the normalisations after a random layer do to it."""
        if not norms:
            return ""
        if isinstance(layer, ATTENTION):
            return f"{self._names(norms)} cancels the scale of its last projection"
        if not generates_kernel(self._random):
            return f"{self._names(norms)} normalises it in one branch only"
        has_bias = self._random == "kernel_and_bias" and layer.bias is not None
        bias = " and its bias" if has_bias else ""
        return f"{self._names(norms)} cancels the length of its kernels{bias}"

    def _of_norm(self, layer):
        if isinstance(layer, RandomLayer):
            return self._of_random_layer(layer)
        sources = self._stands_in_for.get(layer, [])
        is_picked = self._only is not None and self._only.picks(layer)
        if self._skip.covers(layer):
            return Decision(self._left_out(layer))
        if not (sources or is_picked):
            reason = self._left_out(layer) or self._why_no_own_gamma(layer)
            if reason:
                return Decision(reason)
            norms, is_cancelled = self._cancelling(layer)
            if is_cancelled:
                return self._of_cancelled(layer, norms)
        return self._of_gamma(layer, sources)

    def _why_no_own_gamma(self, layer):
        """Why a normalisation that replaces no scale stays as it is; or empty."""
        if isinstance(layer, keras.layers.BatchNormalization):
            return "cancels no scale that would be generated"
        if generates_kernel(self._random):
            return "has no kernel"
        if not has_gamma(layer):
            return "with scale=False it has no γ to generate"
        return ""

    def _of_gamma(self, layer, sources):
        if is_foreign(layer):
            return Decision(why_not(layer))
        reasons, arguments = [], {}
        if sources:
            reasons.append(f"instead of the scale of {self._names(sources)}")
        if not has_gamma(layer):
            # A γ of 1 changes no answers at the centre.
            reasons.append("with scale=False it had no γ: a new one, 1 at first")
            arguments = {"scale": True, "gamma_initializer": "ones"}
        target, random = NORMALIZATIONS[type(layer)], "scale"
        if self._random in modes_of(target) and self._random != "scale":
            if layer.beta is not None:
                random = "scale_and_bias"
            else:
                reasons.append("with center=False it has no β")
        return Decision("; ".join(reasons), target, random, arguments)

    def _of_random_layer(self, layer):
        left_out = self._left_out(layer)
        random = "none" if left_out else layer.random
        reason = left_out or f"has `random={layer.random!r}` already"
        return Decision(reason, type(layer), random)

    def _names(self, of_layers):
        return ", ".join(self._paths[layer][0] for layer in of_layers)


def _is_followed(layer) -> bool:
    """Whether a layer's scales multiply its outputs before their activation.

    Those of recurrent layers act inside the recurrence, where nothing cancels them.
    """
    is_recurrent = isinstance(layer, keras.layers.RNN)
    return (has_scales(layer) and not is_recurrent) or is_of_ones_own(layer)
