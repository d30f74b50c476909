"""The graph of a functional network, and its inputs."""

from collections import OrderedDict
from collections.abc import Iterator

import keras


def is_functional(network) -> bool:
    """Whether a model is functional, and not Sequential."""
    return not isinstance(network, keras.Sequential) and hasattr(network, "operations")


def graph_of(network: keras.Model):
    """Returns the functional graph behind a functional or Sequential model."""
    is_sequential = isinstance(network, keras.Sequential)
    return network._functional if is_sequential else network


def nodes_in_order(graph) -> Iterator:
    """Yields the calls of a graph's layers, each after those it depends on."""
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            if node.operation is not None and not node.is_input:
                yield node


def num_uses(layer: keras.Layer) -> int:
    """How many times a layer has been called to build graphs."""
    return len(layer._inbound_nodes)


def calls_of(layer: keras.Layer) -> list[tuple[tuple, dict]]:
    """Returns the arguments of each call of a layer in a graph."""
    return [
        (node.arguments.args, node.arguments.kwargs) for node in layer._inbound_nodes
    ]


def inputs_of_graph(graph, inputs) -> list:
    """Returns the tensors of inputs in the form that a graph takes.

    They are matched by name and converted, and a missing axis is added.
    """
    return graph._standardize_inputs(inputs)


def outputs_of_graph(graph, tensors: list):
    """Packs flat outputs into the structure that the graph returns."""
    return keras.tree.pack_sequence_as(graph._outputs_struct, tensors)


def run_through_graph(graph, inputs, operation_fn):
    """Runs a graph with `operation_fn(layer)` in place of every layer."""
    return graph._run_through_graph(inputs, operation_fn=operation_fn)


def inputs_in_graphs(layer: keras.Layer) -> list:
    """Returns the symbolic tensors that a layer takes in the graphs it is part of."""
    return [tensor for node in layer._inbound_nodes for tensor in node.input_tensors]


def origin_of(tensor):
    """Returns the operation that a symbolic tensor comes from, and its inputs.

    Without an origin, these are `None` and empty.
    """
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return None, []
    node = history.operation._inbound_nodes[history.node_index]
    return history.operation, node.input_tensors


def index_in_origin(tensor) -> int:
    """Returns which of its operation's outputs a symbolic tensor is."""
    return tensor._keras_history.tensor_index


def names_as_flattened(structure: dict) -> list[str]:
    """Returns the keys of a dictionary in the order in which Keras flattens it.

    That is the sorted order, but of an `OrderedDict` its own.
    """
    is_ordered = isinstance(structure, OrderedDict)
    return list(structure) if is_ordered else sorted(structure)


def outputs_out_of_order(network: keras.Layer) -> list[str]:
    """Returns the names of outputs in an `OrderedDict` that is not sorted, if any.

    Keras saves it as a plain dictionary, whose outputs it flattens in sorted order: the
    loaded graph has its last layers, and their weights, in another order.
    """
    outputs = getattr(network, "_outputs_struct", None)
    names = list(outputs) if isinstance(outputs, OrderedDict) else []
    return names if names != sorted(names) else []


def inputs_by_name(network: keras.Layer, inputs):
    """Returns a dictionary of inputs in the order in which a network declares them.

    Keras flattens an `OrderedDict` in its own order, and could confuse columns.
    """
    declared = getattr(network, "_inputs_struct", None)
    if not isinstance(inputs, dict):
        return inputs
    if not isinstance(declared, dict) or set(declared) - set(inputs):
        # Keras flattens plain dictionaries in the sorted order of their names.
        return dict(inputs)
    kind = OrderedDict if isinstance(declared, OrderedDict) else dict
    return kind((name, inputs[name]) for name in declared)


def flat_inputs(network: keras.Layer, inputs) -> list:
    """Returns the inputs that a network takes, in the order in which it declares them.

    A dictionary may be in another order, and may have columns that it does not take.
    """
    declared = getattr(graph_of(network), "_inputs_struct", None)
    if isinstance(inputs, dict) and not isinstance(declared, dict | type(None)):
        names = [origin_of(tensor)[0].name for tensor in keras.tree.flatten(declared)]
        if set(names) <= set(inputs):
            return [inputs[name] for name in names]
    return keras.tree.flatten(inputs_by_name(network, inputs))


def layers_as_keras_flattens(network: keras.Layer) -> list[keras.Layer]:
    """Returns the layers in the order in which version 0.1 took their values."""
    return network._flatten_layers()
