"""Networks that a model cannot draw or train, refused when they are given."""

from bhn_tf import keras_adapter
from bhn_tf.models.training import Training


def refuse_models_inside(networks) -> None:
    """Refuses networks that are, or hold, a model of this library.

    What such a model draws is its own: the one around it would neither change nor
    repeat its draws, and its objective is no part of the other's.

    Raises:
        ValueError: If there is one.
    """
    for network in networks:
        for layer in keras_adapter.layers_of(network):
            if isinstance(layer, Training):
                kind = type(layer).__name__
                raise ValueError(
                    f"The given network holds the {kind} {layer.name!r}, whose draws "
                    "the model around it would not see and whose objective it would "
                    "not train. Give the network inside of it (`.primary`, "
                    "`.network`, `.members`), or one that it draws (`.draw()`)."
                )
