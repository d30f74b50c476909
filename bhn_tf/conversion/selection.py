"""Layers named by an argument: by name, path, class or a function."""

import inspect

import keras

from bhn_tf.networks.copying import is_graph


def paths_of_layers(network) -> dict:
    """Returns every layer inside a network with its paths, such as "outer/inner".

    Layers of nested Sequential and functional models are listed in place of the
    model; a layer used in several places has several paths.
    """
    paths = {}

    def add(model, prefix):
        for layer in model.layers:
            path = prefix + layer.name
            if is_graph(layer):
                add(layer, path + "/")
            elif not isinstance(layer, keras.layers.InputLayer):
                known = paths.setdefault(layer, [])
                if path not in known:
                    known.append(path)

    add(network, "")
    return paths


class LayerSelection:
    """The layers that `only`, `skip` or `freeze` name.

    Args:
        argument: Name of the argument, for messages.
        entries: Names or paths (of a model for all layers in it), layers, classes,
            functions of a layer; or one of these.
        paths: The network's layers, from `paths_of_layers`.

    Raises:
        ValueError: If a name is that of no layer.
        TypeError: If an entry is none of the above.
    """

    def __init__(self, argument: str, entries, paths: dict):
        if isinstance(entries, str) or callable(entries):
            entries = [entries]
        entries = [
            entry.name if isinstance(entry, keras.layers.Layer) else entry
            for entry in entries
        ]
        self._paths = paths
        self._names = [entry for entry in entries if isinstance(entry, str)]
        others = [entry for entry in entries if not isinstance(entry, str)]
        self._classes = tuple(entry for entry in others if inspect.isclass(entry))
        self._functions = [entry for entry in others if not inspect.isclass(entry)]
        for entry in self._functions:
            if not callable(entry):
                raise TypeError(
                    f"Expected `{argument}` to hold names of layers, classes or "
                    f"functions of a layer, got {entry!r}."
                )
        everywhere = [path for found in paths.values() for path in found]
        for name in self._names:
            if not any(_covers(name, path) for path in everywhere):
                raise ValueError(
                    f"`{argument}` names {name!r}, and the network has no such layer. "
                    f"Its layers are: {', '.join(everywhere)}."
                )

    def picks(self, layer) -> bool:
        """Whether the layer itself is named."""
        return self._is_named(layer, _picks)

    def covers(self, layer) -> bool:
        """Whether the layer, or a model that it is in, is named."""
        return self._is_named(layer, _covers)

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


def _picks(name, path):
    return f"/{path}".endswith(f"/{name}")


def _covers(name, path):
    return f"/{name}/" in f"/{path}/"
