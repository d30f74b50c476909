"""Copies of a network in which some layers are replaced.

Keras's `clone_model` forgets sparse and optional inputs, compiles the copy if the
original is compiled, and copies no weights; saving and loading forgets that nested
models share a layer. The copies made here keep all of that.
"""

import collections
import tempfile
from types import MappingProxyType

import keras

from bhn_tf import keras_adapter
from bhn_tf.networks.entered import EnteredLayer
from bhn_tf.user_warnings import warn_user

# The two kinds of models whose layers and connections Keras knows; a class that
# overrides `call` hides them.
_GRAPH_CALLS = ("Sequential.call", "Functional.call")


def is_graph(layer) -> bool:
    """Whether a layer is a Sequential or functional model, with known connections."""
    call = type(layer).call
    return call.__qualname__ in _GRAPH_CALLS and call.__module__.startswith("keras.")


def wrapped_layers(layer) -> list:
    """The replaceable layers in a wrapper, in its order.

    These are the two of `Bidirectional` and the one of `TimeDistributed`, which may be
    a model; any other layer has none.
    """
    if type(layer) is keras.layers.Bidirectional:
        return [layer.forward_layer, layer.backward_layer]
    return [layer.layer] if type(layer) is keras.layers.TimeDistributed else []


def layers_in(layer) -> list:
    """The layers directly in a model or wrapper; none for any other layer."""
    return layer.layers if is_graph(layer) else wrapped_layers(layer)


def paths_of_layers(network) -> dict:
    """Returns every layer inside a network with its paths, such as "outer/inner".

    Layers of nested Sequential and functional models, and those in `Bidirectional` and
    `TimeDistributed`, are listed in place of the model or wrapper; a layer used in
    several places has several paths.
    """
    paths: dict = {}

    def add(layers, prefix):
        for layer in layers:
            path = prefix + layer.name
            if layers_in(layer):
                add(layers_in(layer), path + "/")
            elif not isinstance(layer, keras.layers.InputLayer):
                known = paths.setdefault(layer, [])
                if path not in known:
                    known.append(path)

    add(layers_in(network), "")
    return paths


def copy_network(network, make, carry_over, same=MappingProxyType({})) -> dict:
    """Copies a Sequential or functional model, layer by layer.

    Nested models, `Bidirectional` and `TimeDistributed` are copied in the same way, a
    layer used in several places becomes one layer, and kinds of inputs, names and
    `trainable` are kept. The copy is not compiled.

    It warns of layers that a layer of one's own shares with another one, since only the
    class knows what it holds.

    Args:
        network: A Sequential or functional model, or a wrapper. In one that is not
            built, some layers may be, such as a `Normalization` that has been adapted.
        make: Maps a layer to its replacement, without weights yet.
        carry_over: Called with each built layer and its copy once both have weights.
        same: Maps layers to others whose copies stand for theirs as well.

    Returns:
        The network, and every layer, operation and nested model in it, with its copy.

    Example:
    ```python
    copy = copy_network(network, fresh_layer, carry_state)[network]
    ```
    """
    copies = {}

    def copy_of(operation):
        operation = same.get(operation, operation)
        if operation not in copies:
            if is_graph(operation):
                copies[operation] = copy_of_graph(operation)
            elif wrapped_layers(operation):
                copies[operation] = copy_of_wrapper(operation)
            elif isinstance(operation, keras.layers.Layer):
                copies[operation] = make(operation)
            else:
                copies[operation] = fresh_layer(operation)
        return copies[operation]

    def copy_of_graph(graph):
        if isinstance(graph, keras.Sequential):
            # There are none in one that learns its shapes from the first batch.
            inputs = map(_fresh_input, getattr(graph, "inputs", ())[:1])
            layers = [copy_of(layer) for layer in graph.layers]
            return keras.Sequential([*inputs, *layers], name=graph.name)
        inputs = keras.tree.map_structure(_fresh_input, graph.input)
        # As Keras itself and `clone_model` call the layers.
        outputs = keras_adapter.run_through_graph(graph, inputs, copy_of)
        return keras.Model(inputs, outputs, name=graph.name)

    def copy_of_wrapper(wrapper):
        config = wrapper.get_config()
        if type(wrapper) is keras.layers.TimeDistributed:
            return type(wrapper)(**{**config, "layer": copy_of(wrapper.layer)})
        # Keras creates new inner layers from the configurations given here.
        serialize = keras.saving.serialize_keras_object
        inner = wrapped_layers(wrapper)
        forward, backward = (serialize(make(layer)) for layer in inner)
        copied = type(wrapper).from_config(
            {**config, "layer": forward, "backward_layer": backward}
        )
        for layer, new in zip(inner, wrapped_layers(copied), strict=True):
            known = copies.setdefault(same.get(layer, layer), new)
            if known is not new:
                # Only a backward layer can be given, and so be shared.
                keras_adapter.exchange_layer(copied, new, known, None, "backward_layer")
        return copied

    copy_of(network)
    layers = {
        layer: copied
        for layer, copied in copies.items()
        if isinstance(layer, keras.layers.Layer)
    }
    _carry_weights(layers, carry_over)
    _set_trainable(layers)
    _warn_of_separated(network, layers)
    return copies


def _warn_of_separated(network, copies: dict) -> None:
    """Warns of layers that were one and are several in the copy."""
    found = collections.defaultdict(set)
    for layer, copied in copies.items():
        for old, new in [] if layers_in(layer) else pairs(layer, copied):
            found[old].add(new)
    separated = [old.name for old, new in found.items() if len(new) > 1 and old.weights]
    if separated:
        warn_user(
            f"Several layers in {network.name!r} hold {separated}. In the copy, as in "
            "a file, each has its own: these begin equal, and learn apart."
        )


def _carry_weights(copies: dict, carry_over) -> None:
    """Builds the copies of layers with weights, and carries these over."""
    for layer, copied in copies.items():
        if layer.built and not is_graph(layer):
            if not copied.built:
                copied.build_from_config(layer.get_build_config())
            if not wrapped_layers(layer):
                carry_over(layer, copied)


def _set_trainable(copies: dict) -> None:
    # Setting `trainable` of a model sets that of all layers in it, which precede it in
    # `copies`. So models come first, and their layers are set after them.
    for layer, copied in reversed(copies.items()):
        copied.trainable = layer.trainable
        if not (is_graph(layer) or wrapped_layers(layer)):
            for old, new in pairs(layer, copied):
                new.trainable = old.trainable


def fresh_layer(layer):
    """Returns a layer, or an operation, with the same configuration and name."""
    try:
        copied = _made_again(layer)
    except Exception as error:
        kind, reason = type(layer).__name__, str(error).strip().splitlines()[-1]
        raise ValueError(
            f"The layer {layer.name!r} of class {kind} cannot be copied, since it is "
            f"not made again from its own `get_config()`: {reason}. A file "
            "with it among the layers of a graph could not be loaded either. Give the "
            "class a `get_config` of what its constructor takes."
        ) from error
    if "name" not in layer.get_config():
        # As in the configuration that Keras makes for a class without `get_config`.
        copied.name = layer.name
    left_out = keras_adapter.arguments_left_out(layer, copied)
    if left_out:
        warn_user(
            f"`get_config` of {type(layer).__name__} leaves out {left_out}, which have "
            f"their defaults in the copy of {layer.name!r}, as they would in one from "
            "a file: it may answer otherwise. Return these arguments, too."
        )
    return copied


def _made_again(layer):
    if keras_adapter.functions_of(layer):
        # `from_config` may expect functions as they are in files, the constructor
        # the other objects as they are.
        return type(layer)(**keras_adapter.with_objects(config_of(layer)))
    if isinstance(layer, keras.layers.Lambda):
        # Safe, since the function comes from the caller and not from a file.
        return type(layer).from_config(layer.get_config(), safe_mode=False)
    return type(layer).from_config(config_of(layer))


def config_of(layer) -> dict:
    """The configuration of a layer, including arguments that Keras leaves out.

    Functions are in it as they are: Keras would look for them by name.
    """
    config = {
        **layer.get_config(),
        **keras_adapter.unsaved_arguments_of(layer),
        **keras_adapter.functions_of(layer),
    }
    if type(layer) in (keras.layers.LSTM, keras.layers.GRU):
        config["implementation"] = layer.cell.implementation
    return config


def carry_state(layer, copied) -> None:
    """Gives a copied layer the weights, statistics and vocabularies of the original."""
    for old, new in pairs(layer, copied):
        carry_own_state(old, new)


def carry_own_state(layer, copied) -> None:
    """As `carry_state`, for the layer without those inside it."""
    # Saving and loading also transfers state other than weights.
    store: dict = {}
    layer.save_own_variables(store)
    try:
        copied.load_own_variables(store)
    except ValueError as error:
        raise ValueError(
            f"The weights of the layer {layer.name!r} have no place in its copy, as "
            "`get_config` and `build` of the layer, or of the one that holds it, make "
            f"it: {str(error).strip().splitlines()[0]} A file with it could not be "
            "loaded either. Quantise only after converting, what `draw()` returns."
        ) from error
    if hasattr(layer, "save_assets"):
        with tempfile.TemporaryDirectory() as directory:
            layer.save_assets(directory)
            copied.load_assets(directory)


def pairs(layer, copied) -> list[tuple]:
    """A layer and the layers inside it, each with its copy.

    A layer without inner layers may be paired with one made of several, and one that
    several others hold with a copy for each of them. An `EnteredLayer` is paired by the
    layer that it wraps.
    """
    found: dict[tuple, None] = {}

    def visit(old, new):
        if isinstance(new, EnteredLayer) and not isinstance(old, EnteredLayer):
            new = new.layer
        if isinstance(old, EnteredLayer) and not isinstance(new, EnteredLayer):
            old = old.layer
        if (old, new) in found:
            return
        found[old, new] = None
        insides = [keras_adapter.layers_inside(each) for each in (old, new)]
        if all(insides):
            for pair in zip(*insides, strict=True):
                visit(*pair)

    visit(layer, copied)
    return list(found)


def _fresh_input(tensor):
    return fresh_layer(keras_adapter.origin_of(tensor)[0]).output
