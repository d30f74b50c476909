"""Users' own layers: which of the layers inside become random, and which cannot."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.conversion.carrying import carry_over
from bhn_tf.layers.random_layer import RandomLayer
from bhn_tf.layers.random_parts import RandomParts
from bhn_tf.networks.copying import copy_network, fresh_layer, layers_in
from bhn_tf.networks.described_calls import (
    CannotBeEntered,
    arguments_of_calls,
    build_by_call,
)
from bhn_tf.networks.entered import EnteredLayer, layers_by_path
from bhn_tf.networks.shared_layers import serialized


def is_of_ones_own(layer) -> bool:
    """Whether a layer holds others and is of a user's own class."""
    is_keras = type(layer).__module__.split(".")[0] in ("keras", "bhn_tf")
    is_model = isinstance(layer, keras.Model)
    return not (is_keras or is_model) and bool(keras_adapter.layers_inside(layer))


def holds_random(layer) -> bool:
    """Whether values are to be generated for a layer that this one holds."""
    held = keras_adapter.layers_of(layer)[1:]
    return any(isinstance(each, RandomLayer) and each.num_random for each in held)


def generated_in(layer, place=()):
    """Yields the place and variable of everything generated in a converted layer.

    Args:
        layer: A layer of a converted network.
        place: Names of what the layer is in, to be prepended.
    """
    owner = layer.layer if isinstance(layer, EnteredLayer) else layer
    seen = set()
    for path, inner in layers_by_path(owner) if is_of_ones_own(owner) else []:
        if id(inner) not in seen:
            seen.add(id(inner))
            yield from generated_in(inner, (*place, *map(str, path)))
    if seen:
        return
    for part in keras_adapter.layers_of(layer):
        if isinstance(part, RandomLayer):
            inside = place if part is layer else (*place, part.name)
            yield from ((inside, variable) for variable in part.generated_weights)


def entered(layer, maker_for) -> EnteredLayer:
    """Returns a copy of a layer in which the layers inside are replaced by twins.

    Args:
        layer: A layer that holds others, called in a graph.
        maker_for: Maps a network or a layer inside to a function that makes the
            replacement of that layer, or of each layer in the network; to `None` if
            all in it stays.

    Raises:
        CannotBeEntered: With the reason.
    """
    try:
        called, *called_later = arguments_of_calls(layer)
        built = fresh_layer(layer)
        for arguments in (called, *called_later):
            build_by_call(built, arguments)
        exchanged = _exchanged(built, maker_for)
        if not exchanged:
            raise CannotBeEntered("it holds no layer that has a twin")
        return EnteredLayer(
            fresh_layer(layer), exchanged, called, called_later=called_later
        )
    except CannotBeEntered:
        raise
    except Exception as error:
        # The layer's own code may raise anything; the layer then stays as it is, and
        # the report says why.
        first_line = "".join(str(error).strip().splitlines()[:1])
        reason = f"a copy of it could not be made: {type(error).__name__}, {first_line}"
        raise CannotBeEntered(reason) from error


def _exchanged(layer, maker_for) -> list:
    """Paths inside a layer, with the configurations of their replacements."""
    paths: dict = {}
    for path, inner in _walk(layer, []):
        paths.setdefault(inner, []).append(path)
    exchanged = []
    for inner, inner_paths in paths.items():
        new = _in_its_place(inner, maker_for(inner))
        if new is not None:
            exchanged.append([inner_paths, serialized(new)])
    return exchanged


def _walk(layer, path):
    """The layers inside, including those within users' own layers."""
    for inner_path, inner in layers_by_path(layer):
        if is_of_ones_own(inner):
            yield from _walk(inner, [*path, *inner_path])
        else:
            yield [*path, *inner_path], inner


def _in_its_place(layer, make):
    """The built replacement of a layer inside; `None` if it stays."""
    if make is None or not layer.built:
        # It is to stay, or the call of the layer around it has not used it.
        return None
    if layers_in(layer):
        copies = copy_network(layer, make, carry_over)
        is_changed = any(_differ(old, new) for old, new in copies.items())
        return copies[layer] if is_changed else None
    new = make(layer)
    if not _differ(layer, new):
        return None
    new.build_from_config(layer.get_build_config())
    return new


def _differ(layer, new) -> bool:
    """Whether a replacement is of another class, or something else is generated."""
    is_random = isinstance(layer, RandomLayer | RandomParts)
    return type(layer) is not type(new) or (is_random and layer.random != new.random)
