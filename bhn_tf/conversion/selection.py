"""Layers selected by an argument: by name, path, class, function or instance."""

import inspect

import keras
import numpy as np

from bhn_tf.networks.copying import layers_in, paths_of_layers


class LayerSelection:
    """The layers that `only`, `skip` or `freeze` name.

    Args:
        argument: Name of the argument, for messages.
        entries: Names or paths (of a model for all layers in it), layers or models
            themselves, classes, functions of a layer; or one of these.
        paths: The network's layers, from `paths_of_layers`.

    Raises:
        ValueError: If no layer has a name, or a layer is not in the network.
        TypeError: If an entry is none of the above.
    """

    def __init__(self, argument: str, entries, paths: dict):
        if entries is None:
            entries = []
        if isinstance(entries, str) or not np.iterable(entries):
            entries = [entries]
        self._paths = paths
        self._names, self._objects, classes, self._functions = [], [], [], []
        for entry in entries:
            if isinstance(entry, str):
                self._names.append(entry)
            elif isinstance(entry, keras.layers.Layer):
                self._objects.append(entry)
            elif inspect.isclass(entry):
                classes.append(entry)
            elif callable(entry):
                self._functions.append(entry)
            else:
                raise TypeError(
                    f"Expected `{argument}` to hold names of layers, layers, classes "
                    f"or functions of a layer, got {entry!r}."
                )
        self._classes = tuple(classes)
        self._covered = {layer for entry in self._objects for layer in _inside(entry)}
        self._refuse_what_is_not_there(argument)

    def _refuse_what_is_not_there(self, argument):
        everywhere = [path for found in self._paths.values() for path in found]
        for name in self._names:
            if not any(_covers(name, path) for path in everywhere):
                raise ValueError(
                    f"`{argument}` names {name!r}, and the network has no such layer. "
                    f"Its layers are: {', '.join(everywhere)}."
                )
        for entry in self._objects:
            if not self._paths.keys() >= set(_inside(entry)):
                raise ValueError(
                    f"`{argument}` holds a layer {entry.name!r} that is not in the "
                    "network. Take it from the model that is converted: "
                    "`model.get_layer(name)`."
                )

    def picks(self, layer) -> bool:
        """Whether the layer itself is named."""
        return layer in self._objects or self._is_named(layer, _picks)

    def covers(self, layer) -> bool:
        """Whether the layer, or a model around it, is named."""
        return layer in self._covered or self._is_named(layer, _covers)

    def _is_named(self, layer, matches):
        return (
            isinstance(layer, self._classes)
            or any(function(layer) for function in self._functions)
            or any(
                matches(name, path)
                for name in self._names
                for path in self._paths[layer]
            )
        )


def _inside(entry):
    """The layers of a model or wrapper, or a layer itself."""
    return list(paths_of_layers(entry)) if layers_in(entry) else [entry]


def _picks(name, path):
    return f"/{path}".endswith(f"/{name}")


def _covers(name, path):
    return f"/{name}/" in f"/{path}/"
