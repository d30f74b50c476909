"""Likelihoods inside of others, and which have a state: these serve one output each."""

import keras

from bhn_tf import keras_adapter


def parts_with_state(likelihood) -> list[keras.layers.Layer]:
    """Returns a likelihood and those inside that training or its data change.

    Noise that is fixed is no state: any number of outputs and models may share it.
    """
    return [
        layer
        for layer in layers_in(likelihood)
        if layer.trainable_weights or getattr(layer, "is_set_by_data", False)
    ]


def layers_in(likelihood) -> list[keras.layers.Layer]:
    """Returns a likelihood and those inside, as far as they are Keras layers."""
    is_layer = isinstance(likelihood, keras.layers.Layer)
    return keras_adapter.layers_of(likelihood) if is_layer else []
