"""Names of a network's layers, by where they are in it."""

import keras

from bhn_tf.keras_adapter import layers_inside


def layer_paths(network: keras.Layer) -> dict[keras.Layer, str]:
    """Returns each layer inside with its path, such as "outer/inner".

    Unlike Keras's `layer.path`, which comes from the call that built the layer, it is
    the same in a network before and after saving. A layer in several places has the
    first one's path.

    Args:
        network: The network, whose own name is left out.

    Example:
        >>> inner = keras.Sequential([keras.layers.Dense(2, name="last")], name="inner")
        >>> list(layer_paths(keras.Sequential([inner])).values())
        ['inner', 'inner/last']
    """
    paths: dict[keras.Layer, str] = {}

    def visit(layer, prefix):
        for inner in layers_inside(layer):
            if inner not in paths:
                paths[inner] = prefix + inner.name
                visit(inner, f"{paths[inner]}/")

    visit(network, "")
    return paths
