"""What a network does first with its inputs."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.networks.copying import is_graph


def begins_with_operation(layer) -> bool:
    """Whether an operation that is not a layer takes an input of a model.

    It may scale the input: `keras.ops.cast(inputs, "float32") / 255`.

    Args:
        layer: A layer, or a built model.
    """
    if not is_graph(layer):
        return False
    graph = keras_adapter.graph_of(layer)
    inputs = {id(tensor) for tensor in graph.inputs}
    return any(
        not isinstance(node.operation, keras.layers.Layer)
        and any(id(tensor) in inputs for tensor in node.input_tensors)
        for node in keras_adapter.nodes_in_order(graph)
    )
