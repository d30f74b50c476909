"""Names and types of what a served model takes and returns.

They are a promise to clients, so that none may depend on how many layers the process
has made before: what Keras has named by itself is named by its place.
"""

import re

import keras
import tensorflow as tf


def input_specs(network, shapes, fed) -> tuple[dict, object]:
    """Returns what a network takes.

    Args:
        network: A built Keras model.
        shapes: Shapes of the inputs in their structure, rows first; for a network
            that declares no inputs.
        fed: Dtypes of the data it was trained on, by input name or in order; `None`
            where it is not known.

    Returns:
        A dictionary of `tf.TensorSpec` by argument name, with any number of rows, and
        the structure that the network takes them in.
    """
    declared = getattr(network, "inputs", None)
    if declared:
        is_functional = not isinstance(network, keras.Sequential)
        structure = network.input if is_functional else declared[0]
    elif shapes is not None:
        structure = keras.tree.map_shape_structure(keras.KerasTensor, shapes)
    else:
        raise ValueError(
            f"{type(network).__name__} {network.name!r} does not say what it takes. "
            "Call `build(input_shape)` of the Bayesian model, or `fit` it, and then "
            "export."
        )
    names = _input_names(structure)
    tensors = keras.tree.flatten(structure)
    dtypes = _in_order(fed, structure, names)
    specs = {
        name: tf.TensorSpec(
            [None, *tensor.shape[1:]], _served_dtype(tensor.dtype, dtype), name=name
        )
        for name, tensor, dtype in zip(names, tensors, dtypes, strict=True)
    }
    return specs, keras.tree.map_structure(lambda _: 0, structure)


def output_names(network, names) -> tuple[str, ...]:
    """Returns names for the outputs that do not change from process to process.

    Args:
        network: A Keras model.
        names: What the likelihood calls them; empty for a single one.
    """
    layers = {layer.name: layer for layer in getattr(network, "layers", [])}
    return tuple(
        f"output_{index}" if _is_automatic(name, layers.get(name)) else name
        for index, name in enumerate(names)
    )


def _input_names(structure) -> list[str]:
    if not keras.tree.is_nested(structure):
        return ["inputs"]
    tensors = keras.tree.flatten(structure)
    if isinstance(structure, dict) and len(structure) == len(tensors):
        return sorted(structure)
    names = []
    for index, tensor in enumerate(tensors):
        history = getattr(tensor, "_keras_history", None)
        layer = history.operation if history is not None else None
        is_named = layer is not None and not _is_automatic(layer.name, layer)
        names.append(layer.name if is_named else f"input_{index}")
    return names


def _is_automatic(name, layer) -> bool:
    """Whether Keras has made the name up, from the class and a counter."""
    if layer is None:
        return False
    words = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", type(layer).__name__)
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()
    return re.fullmatch(re.escape(words) + r"(_\d+)?", name) is not None


def _in_order(fed, structure, names) -> list:
    """Dtypes of the fed data in the order of the names."""
    if isinstance(fed, dict) and not any(map(keras.tree.is_nested, fed.values())):
        if set(fed) == set(names):
            return [fed[name] for name in names]
        fed = [fed[name] for name in sorted(fed)]
    flat = keras.tree.flatten(fed)
    return flat if len(flat) == len(names) else [None] * len(names)


def _served_dtype(declared, fed) -> tf.DType:
    """Integers and text are served as they were fed, numbers as declared."""
    declared = tf.as_dtype(declared)
    if fed is None:
        return declared
    fed = tf.as_dtype(fed)
    if not fed.is_floating:
        return fed
    return declared if declared.is_floating else tf.float32
