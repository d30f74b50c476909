"""What a network says about its outputs: their names and last activations."""

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.keras_adapter import is_functional
from bhn_tf.networks.entered import EnteredLayer
from bhn_tf.networks.unused_names import unused_name

# Layers that pass on their input in another shape.
_RESHAPING = (
    keras.layers.Reshape,
    keras.layers.Flatten,
    keras.layers.Permute,
    keras.layers.RepeatVector,
    keras.layers.Dropout,
)
# Wrappers whose outputs are those of the layer inside.
_PASSING_ON = (
    keras.layers.TimeDistributed,
    keras.layers.SpectralNormalization,
    EnteredLayer,
)


def declared_outputs(network):
    """The symbolic outputs of a built network in their structure.

    `None` if a network does not say what it returns.
    """
    if isinstance(network, keras.Sequential):
        return network.outputs[0] if network.inputs else None
    return network.output if is_functional(network) else None


def output_names(network, outputs) -> list[str] | None:
    """Returns the names of several outputs in the order of `keras.tree.flatten`.

    Args:
        network: A Keras model.
        outputs: Its symbolic outputs in their structure, or `None`.

    Returns:
        The names: keys of a dictionary, names of output layers (`heads`, `heads_1`, ...
        if a layer or a model inside has several), or numbers; `None` for a single
        output.
    """
    if outputs is None or not keras.tree.is_nested(outputs):
        return None
    if isinstance(outputs, dict):
        return keras_adapter.names_as_flattened(outputs)
    if is_functional(network):
        return _unique(network.output_names)
    return [f"output_{index}" for index in range(len(keras.tree.flatten(outputs)))]


def output_activations(network, outputs) -> list[tuple]:
    """Returns the activation function of each output.

    It looks through layers that reshape, and into wrappers.

    Args:
        network: A Keras model.
        outputs: Its symbolic outputs in their structure, or `None`.

    Returns:
        A pair `(activation, reason)` for each output: the function and an empty
        string, or `None` and why it is not known.
    """
    if is_functional(network):
        return [_of_tensor(tensor) for tensor in network.outputs]
    num_outputs = 1 if outputs is None else len(keras.tree.flatten(outputs))
    return [_of_layer(network)] * num_outputs


def require_one_kind(networks, outputs) -> None:
    """Raises `ValueError` if networks are known to return different outputs.

    Args:
        networks: Keras models.
        outputs: The symbolic outputs of each in their structure, or `None`.
    """
    pairs = zip(networks, outputs, strict=True)
    known = [(network, returned) for network, returned in pairs if returned is not None]
    for network, returned in known[1:]:
        first, expected = known[0]
        names = f"{first.name!r} and {network.name!r}"
        if not _fit(expected, returned):
            raise ValueError(
                f"The networks {names} have different outputs, {expected} and "
                f"{returned}. Give networks with outputs of one kind."
            )
        endings = zip(
            output_activations(first, expected),
            output_activations(network, returned),
            strict=True,
        )
        for (one, _), (other, _) in endings:
            if None not in (one, other) and _is_squashing(one) != _is_squashing(other):
                raise ValueError(
                    f"Of the networks {names} one returns probabilities and the other "
                    f"does not: they end with {one.__name__} and {other.__name__}. "
                    "Give networks with one last activation."
                )


def _unique(names) -> list[str]:
    found: list[str] = []
    for name in names:
        # A name that is made must not be another's own either.
        own = unused_name(name, {*found, *names}) if name in found else name
        found.append(own)
    return found


def _fit(outputs, others) -> bool:
    """Whether outputs have the same structure and compatible shapes."""
    structures = [
        keras.tree.map_structure(lambda leaf: None, each) for each in (outputs, others)
    ]
    return structures[0] == structures[1] and all(
        tf.TensorShape(leaf.shape[1:]).is_compatible_with(other.shape[1:])
        for leaf, other in zip(
            keras.tree.flatten(outputs), keras.tree.flatten(others), strict=True
        )
    )


def _is_squashing(activation) -> bool:
    return activation in (keras.activations.softmax, keras.activations.sigmoid)


def _of_chain(layers):
    for layer in reversed(layers):
        if not isinstance(layer, _RESHAPING):
            return _of_layer(layer)
    return None, "it has no layer with an activation"


def _of_tensor(tensor):
    """Walks from an output tensor of a functional model back to its origin."""
    operation, inputs = keras_adapter.origin_of(tensor)
    if isinstance(operation, _RESHAPING):
        return _of_tensor(inputs[0])
    if is_functional(operation):
        return _of_tensor(operation.outputs[keras_adapter.index_in_origin(tensor)])
    return _of_layer(operation)


def _of_layer(layer):
    if isinstance(layer, _PASSING_ON):
        return _of_layer(layer.layer)
    if isinstance(layer, keras.layers.Softmax):
        return keras.activations.softmax, ""
    if isinstance(layer, keras.Sequential):
        return _of_chain(list(layer.layers))
    if is_functional(layer):
        return _of_tensor(layer.outputs[0])
    if isinstance(layer, keras.Model):
        return None, f"{type(layer).__name__} is a subclassed model"
    if hasattr(layer, "activation"):
        return layer.activation or keras.activations.linear, ""
    return None, f"its last layer, {type(layer).__name__}, has no activation"
