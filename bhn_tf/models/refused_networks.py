"""Networks that a model cannot draw or train, refused when they are given."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.layers.limits import has_limit_without_effect
from bhn_tf.layers.random_layer import RandomLayer
from bhn_tf.models.training import Training
from bhn_tf.networks.shared_layers import held_by_several
from bhn_tf.user_warnings import warn_user

_STEPS = ("train_step", "test_step", "predict_step", "compute_loss")


def require_network(name: str, network, kind: type = keras.layers.Layer) -> None:
    """Raises `TypeError` unless an argument is a Keras model, or a layer."""
    if not isinstance(network, kind):
        given = type(network)
        # The models of `tf_keras` have the same names.
        package = given.__module__.partition(".")[0]
        raise TypeError(
            f"Expected `{name}` to be a Keras model, got {package}.{given.__name__}."
        )


def refuse_models_inside(networks) -> None:
    """Refuses networks that are, or hold, a model of this library.

    Such a model makes draws of its own, which the outer one could neither change nor
    repeat, and its objective would not be part of the outer one's.

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


def refuse_rematerialization(layers) -> None:
    """Refuses generated values in calls that run again for their gradient.

    TensorFlow differentiates such a call with respect to its arguments and variables;
    values from the scope of generated values would silently get no gradient.

    Args:
        layers: All layers of a network, with their weights.

    Raises:
        ValueError: If a layer is rematerialised that has, or holds, generated values.
    """
    for layer in filter(keras_adapter.is_rematerialized, layers):
        for inner in keras_adapter.layers_of(layer):
            if isinstance(inner, RandomLayer) and inner.num_random:
                raise ValueError(
                    f"Layer {layer.name!r} was made in a `keras.RematScope`, and the "
                    f"generated values of {inner.name!r} would get no gradient of the "
                    "data. Make layers with generated values, and those around them, "
                    "outside of the scope; others may be inside."
                )


def refuse_synchronization_over_draws(layers) -> None:
    """Refuses statistics of all replicas where a step has several draws.

    Draws are taken in a loop, in which TensorFlow cannot wait for other replicas.

    Args:
        layers: All layers of a network to be trained over draws on several replicas.

    Raises:
        ValueError: If a layer that trains takes such statistics.
    """
    for layer in layers:
        if keras_adapter.is_synchronized(layer) and layer.trainable:
            raise ValueError(
                f"Layer {layer.name!r} has `synchronized=True`, and with "
                "`train_samples` above 1 TensorFlow cannot wait for other replicas "
                "within the loop over draws. Compile with `train_samples=1`, or make "
                "the layer without `synchronized=True`."
            )


def refuse_outputs_out_of_order(networks) -> None:
    """Refuses to save a graph that Keras would load with its last layers mixed up.

    Args:
        networks: The networks of a model.

    Raises:
        ValueError: If the outputs of one, or of a model inside, are an `OrderedDict` in
            another than the sorted order.
    """
    for network in networks:
        for layer in keras_adapter.layers_of(network):
            names = keras_adapter.outputs_out_of_order(layer)
            if names:
                raise ValueError(
                    f"The outputs of {layer.name!r} are an `OrderedDict` of {names}. "
                    "Keras saves it as a dictionary, in sorted order, and would load "
                    "the weights of these outputs into each other's layers. Make the "
                    "network with a plain dictionary of outputs."
                )


def warn_of_shared_layers(networks) -> None:
    """Warns of layers that Keras saves so that the file does not load.

    Args:
        networks: The networks of a model, with their weights.
    """
    for network in networks:
        shared = [layer.name for layer in held_by_several(network)]
        if shared:
            warn_user(
                f"Several layers in {network.name!r} hold {shared}. Each makes its own "
                "when a model is loaded, so that a saved file does not load. Keep the "
                "weights alone: `save_weights`, and `load_weights` into a model that "
                "the same code has made."
            )


def warn_of_limits_without_effect(networks) -> None:
    """Warns of limits on the norms of kernels that weight normalisation divides out.

    Args:
        networks: The networks of a model, with their weights.
    """
    limited = [
        layer.name
        for network in networks
        for layer in keras_adapter.layers_of(network)
        if has_limit_without_effect(layer)
    ]
    if limited:
        warn_user(
            f"What limits the norms of kernels in {limited} has no effect: a "
            "weight-normalised layer divides its kernel by its norm, and takes its "
            "size from its scale. Leave the limits out, or make these layers Keras's "
            "own (`skip=` in `from_keras`), for which they hold."
        )


def warn_of_steps_without_effect(networks) -> None:
    """Warns of steps of networks that the model around them does not call.

    Args:
        networks: The networks of a model.
    """
    own = sorted(
        {
            f"{type(network).__name__}.{name}"
            for network in networks
            for name in _STEPS
            if isinstance(network, keras.Model)
            and getattr(type(network), name) is not getattr(keras.Model, name)
        }
    )
    if own:
        warn_user(
            f"{own} are not called: the model around the network has steps of its own, "
            "for the bound and the posterior's predictions. What they do to the data "
            "belongs into the data set or into layers; what they change in a step, "
            "into a class derived from that model (docs/extending.md)."
        )


def refuse_reversed_order(primary) -> None:
    """Refuses a network from a file of version 0.1 in which g had another order.

    Args:
        primary: The network, with its layers.

    Raises:
        ValueError: If the order of its layers with generated values has changed.
    """
    random_layers = [
        [layer for layer in layers if getattr(layer, "num_random", 0)]
        for layers in (
            keras_adapter.layers_of(primary),
            keras_adapter.layers_as_keras_flattens(primary),
        )
    ]
    now, then = random_layers
    if any(new is not old for new, old in zip(now, then, strict=True)):
        raise ValueError(
            "This file was written by version 0.1, which took the layers of nested "
            f"models in reverse: {[layer.name for layer in then]} instead of "
            f"{[layer.name for layer in now]}. What its hypernet generates would go to "
            "the wrong layers. Load it with bhn_tf 0.1, or train the model anew."
        )
