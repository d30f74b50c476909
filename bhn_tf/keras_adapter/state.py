"""State that moves: statistics, recurrent states, metrics of layers, seeds."""

import keras

from bhn_tf.keras_adapter.layers import layers_of

# Layers that keep measured statistics in weights and update them only in training.
_MOVES_IN_TRAINING_ONLY = (
    keras.layers.BatchNormalization,
    keras.layers.Normalization,
    keras.layers.SpectralNormalization,
)

# What preprocessing layers learn and do not keep in variables.
_LEARNED = {
    keras.layers.Discretization: ("bin_boundaries",),
    keras.layers.IntegerLookup: ("lookup_table",),
    keras.layers.Normalization: ("mean", "variance"),
    keras.layers.StringLookup: ("lookup_table",),
}


def learned_beside_variables(network: keras.Layer) -> list:
    """Returns what preprocessing layers have learned and do not keep in variables.

    `adapt`, and a file that is loaded, put other objects in their place.
    """
    return [
        getattr(layer, name, None)
        for layer in layers_of(network)
        for kind, names in _LEARNED.items()
        if isinstance(layer, kind)
        for name in names
    ]


def moving_variables(network: keras.Layer, training: bool) -> list[keras.Variable]:
    """Returns the variables that a call of the network may change.

    They are states of recurrent layers and of users' own layers, and in training also
    moving averages; not metrics, on which no output depends.
    """
    layers = layers_of(network)
    variables = [
        variable
        for layer in layers
        if training or not isinstance(layer, _MOVES_IN_TRAINING_ONLY)
        for variable in layer._non_trainable_variables
    ]
    if training:
        # In training this layer divides its kernel, a trainable weight, by its norm.
        variables += [
            layer.kernel
            for layer in layers
            if isinstance(layer, keras.layers.SpectralNormalization)
        ]
    # States of a recurrent layer are not among its variables.
    states = [
        state
        for layer in layers
        if isinstance(layer, keras.layers.RNN) and layer.stateful
        for state in keras.tree.flatten(layer.states)
        if state is not None
    ]
    return list({id(variable): variable for variable in variables + states}.values())


def statistics_of_rows(network: keras.Layer, training: bool) -> list[keras.Variable]:
    """Returns the variables that a call may set to numbers taken from its rows.

    They are metrics of layers, and what `moving_variables` returns except for counters
    and what is the same on all replicas: statistics of all their rows, and of weights.
    """
    shared = {
        id(variable)
        for layer in layers_of(network)
        if is_synchronized(layer)
        or isinstance(layer, keras.layers.SpectralNormalization)
        for variable in layer.variables
    }
    return metric_variables(network) + [
        variable
        for variable in moving_variables(network, training)
        if id(variable) not in shared and "float" in variable.dtype
    ]


def is_synchronized(layer: keras.Layer) -> bool:
    """Whether a layer normalises with statistics of the rows of all replicas."""
    is_normalization = isinstance(layer, keras.layers.BatchNormalization)
    return is_normalization and layer.synchronized


def metrics_inside(network: keras.Layer) -> list[keras.Metric]:
    """Returns the metrics that layers, and models, hold and update themselves.

    Those of `compile`, and the loss of a model inside, are not among them.
    """
    return [metric for layer in layers_of(network) for metric in layer._metrics]


def metric_variables(network: keras.Layer) -> list[keras.Variable]:
    """Returns the variables of the metrics that layers hold and update themselves."""
    return [v for metric in metrics_inside(network) for v in metric.variables]


def seed_variables(network: keras.Layer) -> list[keras.Variable]:
    """Returns the states of the network's seed generators (dropout, noise)."""
    return [
        generator.state
        for layer in layers_of(network)
        for generator in layer._seed_generators
    ]
