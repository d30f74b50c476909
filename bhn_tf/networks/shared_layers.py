"""Files of networks in which several models or wrappers share a layer.

Keras writes each model and wrapper with the layers that it holds, and makes them anew
for each when it loads a file. So files here also say which of them are one.
"""

import collections
import weakref

import keras

from bhn_tf import keras_adapter
from bhn_tf.networks.copying import (
    carry_state,
    copy_network,
    fresh_layer,
    paths_of_layers,
)

#: What stands for each network. Keras tells the objects of a file apart by `id`, which
#: the next one could get from one that is gone.
_STAND_INS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def serialized(network) -> dict:
    """Returns the configuration of a network, from which Keras makes it again."""
    shared = [
        paths
        for layer, paths in paths_of_layers(network).items()
        if len(paths) > 1 and (layer.variables or not layer.built)
    ]
    if not shared:
        return keras.saving.serialize_keras_object(network)
    whole = _STAND_INS.setdefault(network, NetworkWithSharedLayers(network))
    whole.shared = shared
    return keras.saving.serialize_keras_object(whole)


def held_by_several(network) -> list:
    """Returns the layers with weights that layers of one's own hold in several places.

    Only the class of such a layer knows what it holds, and makes it anew from a file.

    Args:
        network: A Sequential or functional model; of others nothing is known, nor of
            those whose class has a `get_config` of its own.
    """
    if not type(network).get_config.__module__.startswith("keras."):
        return []
    counts: collections.Counter = collections.Counter()
    for layer in paths_of_layers(network):
        counts.update(keras_adapter.layers_of(layer))
    return [layer for layer, count in counts.items() if count > 1 and layer.weights]


@keras.saving.register_keras_serializable("bhn_tf")
class NetworkWithSharedLayers:
    """Stands in a file for a network, and becomes the network when it is loaded.

    Args:
        network: A Sequential or functional model, which is not kept alive.

    Attributes:
        shared: The paths of each layer that is in several places, from
            `paths_of_layers`.

    Example:
        >>> dense = keras.layers.Dense(4)
        >>> each = [keras.layers.TimeDistributed(dense) for _ in range(2)]
        >>> network = keras.Sequential([keras.Input((3, 4)), *each])
        >>> again = keras.saving.deserialize_keras_object(serialized(network))
        >>> again.layers[0].layer is again.layers[1].layer
        True
    """

    def __init__(self, network):
        self._network = weakref.ref(network)
        self.shared = []

    def get_config(self):
        network = keras.saving.serialize_keras_object(self._network())
        return {"network": network, "shared": self.shared}

    @classmethod
    def from_config(cls, config):
        network = keras.saving.deserialize_keras_object(config["network"])
        layers = {
            path: layer
            for layer, paths in paths_of_layers(network).items()
            for path in paths
        }
        same = {}
        for paths in config["shared"]:
            # A class that makes its layers itself may have given them other names.
            places = [layers[path] for path in paths if path in layers]
            same |= {other: places[0] for other in places if other is not places[0]}
        if not same:
            # Such a class may have made them one, too.
            return network
        return copy_network(network, fresh_layer, carry_state, same)[network]
