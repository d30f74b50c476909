"""Layers: which a network has, how they are held, and what they were given."""

import keras


def layers_of(network: keras.Layer) -> list[keras.Layer]:
    """Returns a network and every layer inside, each once.

    They come depth first, in the order of the network's own layers, whereas
    `Layer._flatten_layers` reverses nested ones.
    """
    found: dict[int, keras.Layer] = {}

    def visit(layer):
        if id(layer) not in found:
            found[id(layer)] = layer
            for inner in layers_inside(layer):
                visit(inner)

    visit(network)
    return list(found.values())


def layers_inside(layer: keras.Layer) -> list[keras.Layer]:
    """Returns the layers that a layer holds directly, in order of its attributes."""
    return list(layer._layers)


def tensorflow_variables(layer: keras.Layer) -> list:
    """Returns the TensorFlow variables behind a layer's weights.

    On several replicas they are those of each replica beside the one for all.
    """
    variables = [weight._value for weight in layer.weights]
    # Also outside the scope of their strategy, where it does not tell them.
    parts = [part for each in variables for part in getattr(each, "values", ())]
    return variables + parts


def own_attributes(layer: keras.Layer) -> dict:
    """Returns the attributes that a class has added to those of every layer.

    TensorFlow lists some of them again, for checkpoints, under other names.
    """
    others = set(vars(keras.layers.Layer()))
    return {
        name: value
        for name, value in vars(layer).items()
        if name not in others and not name.startswith("_self_unconditional_")
    }


def exchange_layer(owner: keras.Layer, old, new, container, key) -> None:
    """Replaces a layer that another layer holds.

    Keras accepts no new layers in a built layer, and keeps tracking replaced ones. In
    the tracker's list the new layer takes the old one's position.

    Args:
        owner: The layer that holds them.
        old: The layer to be replaced.
        new: Its replacement.
        container: The list or dictionary in which it is, or `None` for an attribute.
        key: Its index, key or the attribute's name.
    """
    if owner._tracker.is_in_store("layers", old):
        owner._tracker.replace_tracked_value("layers", old, new)
    if container is None:
        setattr(owner, key, new)
    else:
        # Bypasses Keras's own lists and dictionaries, which would try to track it.
        kind = dict if isinstance(container, dict) else list
        kind.__setitem__(container, key, new)


def freeze_parts_of_frozen(layer: keras.Layer) -> None:
    """Freezes parts of a frozen layer that did not exist when it was frozen."""
    if not layer.trainable:
        # Part by part, as Keras ignores setting `trainable` to the value it has.
        for part in layers_inside(layer):
            part.trainable = False


def kernel_of(layer: keras.Layer) -> keras.Variable:
    """Returns the variable behind `layer.kernel`, which is a property of some layers.

    The property adds the product of LoRA, or unpacks quantised values.
    """
    return layer._kernel if hasattr(layer, "_kernel") else layer.kernel


def causal_padding_of(layer: keras.layers.Conv1D) -> list[list[int]]:
    """Returns the padding of each axis of the inputs with `padding="causal"`."""
    return layer._compute_causal_padding()


def noise_shape_of(layer, inputs):
    """Returns the shape of the mask of a `SpatialDropout` layer."""
    return layer._get_noise_shape(inputs)


def takes_training(operation) -> bool:
    """Whether the `call` of a layer has the argument `training`."""
    return getattr(operation, "_call_has_training_arg", False)


def has_seed_generator(layer: keras.Layer) -> bool:
    """Whether a layer draws random numbers itself."""
    return bool(layer._seed_generators)
