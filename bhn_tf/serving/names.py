"""Names and types of the inputs and outputs of a served model.

They are a promise to clients, so none may depend on how many layers the process has
made before: what Keras named automatically is named by its position. Columns of files
may have names that function arguments cannot have: `served_names` has the rule.
"""

import keyword
import re
from collections.abc import Sequence

import keras
import tensorflow as tf
from absl import logging

from bhn_tf import keras_adapter
from bhn_tf.networks.outputs import declared_outputs

#: Separates the classes of a set in files.
SEPARATOR = "|"
#: Scalars of the signature `sample`, which share its arguments with the inputs.
SCALARS = ("num_samples", "seed")

# Python's keywords, and the first parameter of methods that TensorFlow calls by name.
_RESERVED = {*keyword.kwlist, "self"}


class InputSpecs(dict):
    """`tf.TensorSpec` of each input by served name.

    Attributes:
        originals: The network's name of each input, by served name.
    """

    def __init__(self, specs: dict[str, tf.TensorSpec], originals: Sequence[str]):
        super().__init__(specs)
        self.originals = dict(zip(specs, originals, strict=True))


def served_names(names: Sequence[str]) -> list[str]:
    """Returns names that the arguments of a served function can have.

    Every character but ASCII letters, digits and underscores becomes an underscore. If
    the result does not begin with a letter, or is a Python keyword, `input_` is put
    before it; if another input has the same name, in capitals or not, `_2`, `_3`, ...
    is put after it. A name that can be served as it is stays unchanged.

    Args:
        names: Names of the inputs, or columns.

    Returns:
        A name for each, in their order.

    Example:
        >>> served_names(["mean radius", "age", "2nd.try", "mean-radius"])
        ['mean_radius', 'age', 'input_2nd_try', 'mean_radius_2']
    """
    served = [_as_argument(name) for name in names]
    taken, found = set(), {}
    # Inputs that already have a valid name come first and keep it. TensorFlow treats
    # names that differ only in capitals as equal.
    order = sorted(range(len(names)), key=lambda index: served[index] != names[index])
    for index in order:
        name, count = served[index], 2
        # An input with exactly this name is refused later, only where it matters.
        reserved = () if names[index] in SCALARS else SCALARS
        while name.lower() in taken or name.lower() in reserved:
            name, count = f"{served[index]}_{count}", count + 1
        taken.add(name.lower())
        found[index] = name
        if name not in (names[index], served[index]):
            logging.warning(
                "The input %r is served as %r, for %r is another's name.",
                names[index],
                name,
                served[index],
            )
    return [found[index] for index in range(len(names))]


def _as_argument(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    is_argument = re.match("[A-Za-z]", name) and name not in _RESERVED
    return name if is_argument else f"input_{name}"


def input_specs(network, shapes, fed) -> tuple[InputSpecs, object]:
    """Returns the inputs that a network takes.

    Args:
        network: A built Keras model.
        shapes: Shapes of the inputs in their structure, rows first; for a network
            that declares no inputs.
        fed: Dtypes of the data it was trained on, by input name or in order; `None`
            if not known.

    Returns:
        `InputSpecs` with any number of rows, in the order of the network's input
        structure, and that structure.

    Raises:
        ValueError: If the network declares no inputs and no shapes are given.
    """
    declared = getattr(network, "inputs", None)
    if declared:
        is_functional = keras_adapter.is_functional(network)
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
    dtypes = _in_order(network, fed, names)
    specs = {
        name: tf.TensorSpec(
            [None, *tensor.shape[1:]], _served_dtype(tensor.dtype, dtype), name=name
        )
        for name, tensor, dtype in zip(
            served_names(names), tensors, dtypes, strict=True
        )
    }
    return InputSpecs(specs, names), keras.tree.map_structure(lambda _: 0, structure)


def output_names(network, names) -> tuple[str, ...]:
    """Returns names for the outputs that do not change from process to process.

    Keys of a dictionary are chosen by the user, even if they look automatic.

    Args:
        network: A Keras model.
        names: The likelihood's names of the outputs; empty for a single one.
    """
    outputs = declared_outputs(network)
    if not (names and isinstance(outputs, list | tuple)):
        return tuple(names)
    origins = [keras_adapter.origin_of(tensor)[0] for tensor in network.outputs]
    return tuple(
        f"output_{index}" if _is_automatic(origin.name, origin) else name
        for index, (name, origin) in enumerate(zip(names, origins, strict=True))
    )


def _input_names(structure) -> list[str]:
    if not keras.tree.is_nested(structure):
        return ["inputs"]
    tensors = keras.tree.flatten(structure)
    if isinstance(structure, dict) and len(structure) == len(tensors):
        return keras_adapter.names_as_flattened(structure)
    names = []
    for index, tensor in enumerate(tensors):
        layer, _ = keras_adapter.origin_of(tensor)
        is_named = layer is not None and not _is_automatic(layer.name, layer)
        names.append(layer.name if is_named else f"input_{index}")
    return names


def _is_automatic(name, layer) -> bool:
    """Whether Keras made up the name, from the class and a counter."""
    if layer is None:
        return False
    words = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", type(layer).__name__)
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()
    return re.fullmatch(re.escape(words) + r"(_\d+)?", name) is not None


def _in_order(network, fed, names) -> list:
    """Dtypes of the fed data in the order of the names."""
    is_flat = isinstance(fed, dict) and not any(map(keras.tree.is_nested, fed.values()))
    # Columns that the network does not take may be among them.
    if is_flat and set(names) <= set(fed):
        return [fed[name] for name in names]
    flat = keras_adapter.flat_inputs(network, fed)
    return flat if len(flat) == len(names) else [None] * len(names)


def _served_dtype(declared, fed) -> tf.DType:
    """Integers and text keep the dtype they were fed in, floats the declared one."""
    declared = tf.as_dtype(declared)
    if fed is None:
        return declared
    fed = tf.as_dtype(fed)
    if not fed.is_floating:
        return fed
    return declared if declared.is_floating else tf.float32
