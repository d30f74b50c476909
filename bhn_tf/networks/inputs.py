"""What a network does first with its inputs."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.networks.copying import is_graph
from bhn_tf.networks.entered import EnteredLayer

# Layers that bring inputs of any size to a usual one.
_NORMALIZING = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
    keras.layers.UnitNormalization,
)


def may_scale_inputs(network) -> bool:
    """Whether a model may scale its inputs before they meet its weights.

    A normalisation does. So may what only the user knows: an operation
    (`keras.ops.cast(inputs, "float32") / 255`), a `Lambda`, a layer of a class of one's
    own, or a model with a `call` of its own.

    Args:
        network: A model, built if it is a graph; or any layer or operation.
    """
    if not is_graph(network):
        return isinstance(network, _NORMALIZING) or not _is_known(network)
    graph = keras_adapter.graph_of(network)
    unscaled = {id(tensor) for tensor in graph.inputs}
    for node in keras_adapter.nodes_in_order(graph):
        if any(id(tensor) in unscaled for tensor in node.input_tensors):
            if may_scale_inputs(node.operation):
                return True
            if not node.operation.weights:
                # Such as flipped images, which are still of 0 ... 255.
                unscaled.update(id(tensor) for tensor in node.outputs)
    return False


def _is_known(operation) -> bool:
    """Whether an operation is a layer of Keras or of this library."""
    if isinstance(operation, keras.layers.Lambda | EnteredLayer):
        return False
    is_layer = isinstance(operation, keras.layers.Layer)
    return is_layer and type(operation).__module__.split(".")[0] in ("keras", "bhn_tf")
