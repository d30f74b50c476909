"""Which likelihoods have a state, so that each serves one output of one model."""

import keras

from bhn_tf import keras_adapter


def parts_with_state(likelihood) -> list[keras.layers.Layer]:
    """Returns a likelihood and those inside that training or its data change.

    Noise that is fixed is no state: any number of outputs and models may share it.
    """
    if not isinstance(likelihood, keras.layers.Layer):
        return []
    return [
        layer
        for layer in keras_adapter.layers_of(likelihood)
        if layer.trainable_weights or getattr(layer, "is_set_by_data", False)
    ]
