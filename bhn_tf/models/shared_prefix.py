"""What all draws of a network have in common, computed once.

S draws of a network differ only in what a hypernet generates. Everything before the
first generated value is the same for all of them. So are the norms of all directions,
and, in the first weight-normalised layers, the product of inputs and direction, which
g only scales: of two equal hidden layers, S draws pay for one.
"""

import functools
import math
from collections.abc import Callable

import keras

from bhn_tf import keras_adapter
from bhn_tf.layers.generated import generated_values
from bhn_tf.layers.weight_norm import WeightNorm
from bhn_tf.networks.copying import is_graph

# With fewer inputs, the product costs less than scaling a shared one.
_FEWEST_INPUTS_OF_SHARED_PRODUCT = 128


def network_of_draws(
    network, inputs, is_drawn: Callable[[keras.Layer], bool], values_of: Callable
) -> Callable:
    """Prepares many evaluations of a network outside of training.

    Args:
        network: A built Keras model. If it is neither Sequential nor functional, the
            draws share only the norms.
        inputs: Inputs of the network, rows first.
        is_drawn: Whether a layer differs from draw to draw.
        values_of: Maps a draw to generated values; see `layers.generated`.

    Returns:
        A function of a draw that returns the raw outputs, [B, ...], and what layers add
        to the loss (regularisation of activities).

    Example:
    ```python
    evaluate = network_of_draws(network, x, is_drawn, values_of)
    raw, losses = evaluate(draw)
    ```
    """
    inputs = keras_adapter.inputs_by_name(network, inputs)
    if is_graph(network):
        prefix = _Prefix(network, is_drawn)
        tensors, shared, losses = prefix.start(inputs)
        evaluate = functools.partial(prefix.finish, tensors)
    else:
        shared, losses = {}, []
        evaluate = functools.partial(network, inputs, training=False)
    for layer in keras_adapter.layers_of(network):
        if isinstance(layer, WeightNorm) and id(layer) not in shared:
            shared[id(layer)] = layer.shared_by_draws()

    def raw_outputs_and_losses(draw):
        with generated_values({**shared, **values_of(draw)}):
            raw = evaluate()
        return raw, losses + keras_adapter.own_losses(network)

    return raw_outputs_and_losses


class _Prefix:
    """A functional or Sequential network, cut where draws begin to differ."""

    def __init__(self, network, is_drawn):
        self._network = network
        self._graph = keras_adapter.graph_of(network)
        self._shared_nodes, self._drawn_nodes, self._first_nodes = [], [], []
        varying = set()
        for node in keras_adapter.nodes_in_order(self._graph):
            inputs_vary = any(id(tensor) in varying for tensor in node.input_tensors)
            if not (inputs_vary or _contains(node.operation, is_drawn)):
                self._shared_nodes.append(node)
                continue
            self._drawn_nodes.append(node)
            varying.update(id(tensor) for tensor in node.outputs)
            if not inputs_vary and _has_shared_product(node):
                self._first_nodes.append(node)

    def start(self, inputs):
        """Computes once what all draws share.

        Returns:
            The tensors, what the first layers share, and what the shared layers add to
            the loss.
        """
        standardized = keras_adapter.inputs_of_graph(self._graph, inputs)
        symbolic = [id(tensor) for tensor in self._graph.inputs]
        tensors = dict(zip(symbolic, keras.tree.flatten(standardized), strict=True))
        with keras_adapter.one_call_of(self._network):
            _run(self._shared_nodes, tensors)
            losses = keras_adapter.own_losses(self._network)
        products = {}
        for node in self._first_nodes:
            tensor = tensors[id(node.input_tensors[0])]
            layer = node.operation
            if layer.autocast:  # An embedding's word numbers are not cast.
                tensor = keras.ops.cast(tensor, layer.compute_dtype)
            products[id(layer)] = layer.shared_by_draws(tensor)
        return tensors, products, losses

    def finish(self, tensors):
        """Returns the raw outputs under the generated values that are in scope."""
        tensors = dict(tensors)
        with keras_adapter.one_call_of(self._network):
            _run(self._drawn_nodes, tensors)
        outputs = [tensors[id(symbolic)] for symbolic in self._graph.outputs]
        return keras_adapter.outputs_of_graph(self._graph, outputs)


def _contains(operation, is_drawn) -> bool:
    if not isinstance(operation, keras.layers.Layer):
        return False
    return any(is_drawn(layer) for layer in keras_adapter.layers_of(operation))


def _has_shared_product(node) -> bool:
    layer = node.operation
    # A `call` of a user's own class may change the inputs before the product.
    has_own_call = getattr(type(layer), "call", None) is not WeightNorm.call
    if has_own_call or layer.scale is None:
        return False
    num_inputs = math.prod(layer.direction.shape) // math.prod(layer.scale.shape)
    # One product cannot stand for all calls of a layer that is used several times.
    is_used_once = keras_adapter.num_uses(layer) == 1
    return is_used_once and num_inputs >= _FEWEST_INPUTS_OF_SHARED_PRODUCT


def _run(nodes, tensors) -> None:
    """Evaluates calls in order, as the network would outside of training."""
    for node in nodes:
        args, kwargs = node.arguments.fill_in(tensors)
        if keras_adapter.takes_training(node.operation):
            kwargs["training"] = False
        outputs = keras.tree.flatten(node.operation(*args, **kwargs))
        for symbolic, tensor in zip(node.outputs, outputs, strict=True):
            tensors[id(symbolic)] = tensor
