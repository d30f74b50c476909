"""Finding the activation a network ends with."""

import keras

# Layers that hand their input on in another shape.
_RESHAPING = (
    keras.layers.Reshape,
    keras.layers.Flatten,
    keras.layers.Permute,
    keras.layers.RepeatVector,
    keras.layers.Dropout,
)


def output_activation(model) -> tuple:
    """Returns the activation function of the last layer, seen through reshapes.

    Args:
        model: A Keras model with one output.

    Returns:
        `(activation, reason)`: the function and an empty string, or `None` and why
        it cannot be told.
    """
    if isinstance(model, keras.Sequential):
        return _of_chain(list(model.layers))
    if isinstance(model, keras.Model) and hasattr(model, "operations"):
        return _of_tensor(model.outputs[0])
    return _of_layer(model)


def _of_chain(layers):
    for layer in reversed(layers):
        if not isinstance(layer, _RESHAPING):
            return _of_layer(layer)
    return None, "it has no layer with an activation"


def _of_tensor(tensor):
    """Walks from an output tensor of a functional model back to its origin."""
    operation, node_index, _ = tensor._keras_history
    if isinstance(operation, _RESHAPING):
        return _of_tensor(operation._inbound_nodes[node_index].input_tensors[0])
    return _of_layer(operation)


def _of_layer(layer):
    if isinstance(layer, keras.layers.Softmax):
        return keras.activations.softmax, ""
    if isinstance(layer, keras.Model) and hasattr(layer, "layers"):
        if isinstance(layer, keras.Sequential) or hasattr(layer, "operations"):
            return output_activation(layer)
        return None, f"{type(layer).__name__} is a subclassed model"
    if hasattr(layer, "activation"):
        return layer.activation or keras.activations.linear, ""
    return None, f"its last layer, {type(layer).__name__}, has no activation"
