"""Files of networks in which several models or wrappers share a layer.

Keras writes each model and wrapper with the layers that it holds, and makes them anew
for each when it loads a file. So files here also say which of them are one.
"""

import keras

from bhn_tf.networks.copying import (
    carry_state,
    copy_network,
    fresh_layer,
    paths_of_layers,
)


def serialized(network) -> dict:
    """Returns the configuration of a network, from which Keras makes it again."""
    shared = [
        paths
        for layer, paths in paths_of_layers(network).items()
        if len(paths) > 1 and layer.variables
    ]
    whole = NetworkWithSharedLayers(network, shared) if shared else network
    return keras.saving.serialize_keras_object(whole)


@keras.saving.register_keras_serializable("bhn_tf")
class NetworkWithSharedLayers:
    """Stands in a file for a network, and becomes the network when it is loaded.

    Args:
        network: A Sequential or functional model.
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

    def __init__(self, network, shared):
        self.network = network
        self.shared = shared

    def get_config(self):
        network = keras.saving.serialize_keras_object(self.network)
        return {"network": network, "shared": self.shared}

    @classmethod
    def from_config(cls, config):
        network = keras.saving.deserialize_keras_object(config["network"])
        layers = {
            path: layer
            for layer, paths in paths_of_layers(network).items()
            for path in paths
        }
        same = {
            layers[other]: layers[first]
            for first, *others in config["shared"]
            for other in others
        }
        return copy_network(network, fresh_layer, carry_state, same)[network]
