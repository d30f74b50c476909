"""Where the scales of a network's layers are cancelled by a normalisation.

If an output of a convolution is multiplied by g, a batch normalisation after it divides
by |g| again: the loss has no gradient with respect to g, and the scale drifts to its
prior. This file follows every tensor of the network with the scales it still carries.

What counts is whether a normalisation has separate statistics for each output. Batch
normalisation has, and so does group normalisation with a group for each channel. Layer
and RMS normalisation over the features divide by a common factor, so that the scale of
one feature still matters; over other axes (positions, say) they cancel it.
"""

import dataclasses

import keras

from bhn_tf import keras_adapter
from bhn_tf.layers.einsum_dense import Equation
from bhn_tf.networks.copying import is_graph

# These layers pass on a positive factor of one channel unchanged.
_TRANSPARENT = tuple(
    getattr(keras.layers, name)
    for name in (
        "ActivityRegularization",
        "Dropout",
        "GaussianDropout",
        "Identity",
        *(
            f"{kind}{rank}D"
            for rank in (1, 2, 3)
            for kind in (
                "AdaptiveAveragePooling",
                "AdaptiveMaxPooling",
                "AveragePooling",
                "Cropping",
                "GlobalAveragePooling",
                "GlobalMaxPooling",
                "MaxPooling",
                "SpatialDropout",
                "UpSampling",
                "ZeroPadding",
            )
        ),
    )
    # Adaptive pooling is missing in early versions of Keras.
    if hasattr(keras.layers, name)
)

# Normalisations of each row over the axes that they name.
_OVER_AXES = (keras.layers.LayerNormalization, keras.layers.RMSNormalization)

_HOMOGENEOUS = (keras.activations.relu, keras.activations.leaky_relu)


@dataclasses.dataclass(frozen=True)
class _Trail:
    """The scales that a tensor carries: their layers, and the axis of their outputs."""

    axes: dict = dataclasses.field(default_factory=dict)

    def counted_from_the_end(self, rank):
        """The same trail, in a tensor of some rank, with negative axes."""
        return _Trail(
            {source: axis % rank - rank for source, axis in self.axes.items()}
        )


class ScaleTrails:
    """Follows scales to the first layers that do not pass them on.

    Args:
        network: A built Sequential or functional model.
        is_source: Whether a layer has scales that are to be followed.

    Attributes:
        ends: For each source the places where its scale ends: a normalisation that
            cancels it, or `None` for anything else, such as an activation, a sum or
            the output of the network.
    """

    def __init__(self, network, is_source):
        self.ends = {}
        self._is_source = is_source
        outputs = self._through(network, [_Trail()] * len(network.inputs))
        self._end(*keras.tree.flatten(outputs))

    def _through(self, graph, trails):
        """Sends trails through a model as its inputs."""
        if isinstance(graph, keras.Sequential):
            for layer in graph.layers:
                trails = [self._visit(layer)(*trails)]
            return trails[0]
        return keras_adapter.run_through_graph(graph, trails, self._visit)

    def _visit(self, operation):
        def call(*args, **kwargs):
            leaves = keras.tree.flatten((args, kwargs))
            trails = [leaf for leaf in leaves if isinstance(leaf, _Trail)]
            if is_graph(operation) and len(trails) == len(operation.inputs):
                return self._through(operation, trails)
            outputs = keras.tree.flatten(operation.output)
            if len(outputs) == 1:
                # A mask may be among the inputs.
                before = keras.tree.flatten(operation.input)[0].shape
                return self._behind(operation, before, outputs[0].shape, trails)
            self._end(*trails)
            return [_Trail()] * len(outputs)

        return call

    def _through_steps(self, wrapper, before, behind, trails):
        """Sends trails through the layer that `TimeDistributed` applies to each step.

        Counted from the end, axes are the same in a step as in the whole sequence.
        """
        inner = wrapper.layer
        before, behind = ((shape[0], *shape[2:]) for shape in (before, behind))
        trails = [trail.counted_from_the_end(len(before) + 1) for trail in trails]
        if is_graph(inner) and len(trails) == len(inner.inputs):
            trail = self._through(inner, trails)
        else:
            trail = self._behind(inner, before, behind, trails)
        return trail.counted_from_the_end(len(behind))

    def _behind(self, layer, before, behind, trails):
        """The trail of a layer's single output; it changes the shape as given."""
        if type(layer) is keras.layers.TimeDistributed:
            return self._through_steps(layer, before, behind, trails)
        passed = {}
        for trail in trails:
            for source, axis in trail.axes.items():
                axis_behind = _axis_behind(layer, before, behind, source, axis)
                if axis_behind is None:
                    is_end = _cancels(layer, behind, axis)
                    self._note_end(source, layer if is_end else None)
                else:
                    passed[source] = axis_behind
        if self._is_source(layer):
            axis = _axis_of_outputs(layer)
            activation = getattr(layer, "activation", None)
            if axis is None or not _is_passed_by(activation, layer):
                self._note_end(layer, None)
            else:
                passed[layer] = axis
        return _Trail(passed)

    def _end(self, *trails):
        for trail in trails:
            for source in trail.axes:
                self._note_end(source, None)

    def _note_end(self, source, end):
        ends = self.ends.setdefault(source, [])
        if end not in ends:
            ends.append(end)


def normalizes_each_output(layer) -> bool:
    """Whether a built layer cancels the scales of units or channels, if any."""
    if isinstance(layer, keras.layers.GroupNormalization):
        return layer.groups == layer.input_spec.axes[layer.axis]
    if isinstance(layer, _OVER_AXES):
        rank = len(layer.get_build_config()["input_shape"])
        return rank - 1 not in [axis % rank for axis in layer.axis]
    return isinstance(layer, keras.layers.BatchNormalization)


def _cancels(layer, behind, axis):
    """Whether a layer divides each entry of an axis by that entry's own size."""
    rank = len(behind)
    if isinstance(layer, keras.layers.BatchNormalization):
        return layer.axis % rank == axis % rank
    if isinstance(layer, keras.layers.GroupNormalization):
        is_same = layer.axis % rank == axis % rank
        return is_same and layer.groups == behind[layer.axis]
    if isinstance(layer, _OVER_AXES):
        return axis % rank not in [normalized % rank for normalized in layer.axis]
    return False


def _axis_behind(layer, before, behind, source, axis):
    """The axis of a source's outputs after a layer; `None` if the scale ends there."""
    if isinstance(layer, _TRANSPARENT):
        if not hasattr(layer, "data_format"):
            return axis
        # Counted in a way that also holds where pooling leaves no other axis.
        rank = len(before)
        channel = _channel_axis(layer)
        return channel if channel % rank == axis % rank else None
    if isinstance(layer, keras.layers.Concatenate):
        rank = len(behind)
        return axis if layer.axis % rank == axis % rank else None
    if isinstance(layer, keras.layers.Flatten):
        # Every entry is now a separate channel.
        return -1
    if _is_activation(layer) and _is_passed_by(_activation_of(layer), source):
        return axis
    return None


def _is_activation(layer):
    return isinstance(
        layer,
        keras.layers.Activation
        | keras.layers.ReLU
        | keras.layers.LeakyReLU
        | keras.layers.PReLU,
    )


def _activation_of(layer):
    if isinstance(layer, keras.layers.LeakyReLU | keras.layers.PReLU):
        return keras.activations.leaky_relu
    if isinstance(layer, keras.layers.ReLU):
        is_plain = layer.max_value is None and layer.threshold == 0
        return keras.activations.relu if is_plain else layer
    return layer.activation


def _is_passed_by(activation, source):
    """Whether `f(g x) = g f(x)` for positive g.

    With a bias, which g does not multiply, only the identity passes it.
    """
    if activation in (None, keras.activations.linear):
        return True
    return activation in _HOMOGENEOUS and not _has_shift(source)


def _has_shift(layer):
    names = ("bias", "beta")
    is_held = any(getattr(layer, name, None) is not None for name in names)
    return is_held or getattr(layer, "use_bias", False)


def _channel_axis(layer):
    return 1 if layer.data_format == "channels_first" else -1


def _axis_of_outputs(layer):
    """The axis along which a layer has its scales; `None` if there are several."""
    if isinstance(layer, _OVER_AXES):
        return layer.axis[0] if len(layer.axis) == 1 else None
    if isinstance(layer, keras.layers.GroupNormalization):
        return layer.axis
    if not isinstance(layer, keras.layers.EinsumDense):
        return _channel_axis(layer) if hasattr(layer, "data_format") else -1
    equation = Equation.of(layer.equation)
    if len(equation.scaled) != 1:
        return None
    return equation.axis_of_outputs(equation.scaled[0])
