"""Networks of Keras's own layers that compute the same as weight-normalised ones."""

import keras

from bhn_tf.layers.generated import current_value
from bhn_tf.layers.random_layer import RandomLayer
from bhn_tf.layers.random_parts import RandomParts
from bhn_tf.networks.copying import carry_own_state, config_of, fresh_layer, pairs
from bhn_tf.networks.described_calls import build_by_call
from bhn_tf.networks.entered import EnteredLayer


def stock_layer(layer):
    """Returns the Keras layer that a twin stands for, or a user's own original layer.

    Args:
        layer: Any layer; one that stands for no other is copied.
    """
    if isinstance(layer, EnteredLayer):
        return _without_exchanges(layer)
    if not _is_twin(layer):
        return fresh_layer(layer)
    kind = next(kind for kind in type(layer).__mro__ if _is_of_keras(kind))
    config = config_of(layer)
    for argument in ("random", "scale_initializer"):
        config.pop(argument, None)
    return kind.from_config(config)


def fold(layer, copied) -> None:
    """Gives a layer from `stock_layer` its weights, with values of the current scope.

    Args:
        layer: A layer with its weights.
        copied: Its built replacement.
    """
    both = pairs(layer, copied)
    for old, new in both:
        if type(old) is type(new):
            carry_own_state(old, new)
    # After the loop above, since a recurrent layer's cell holds its generated weights.
    for old, new in both:
        if type(old) is type(new):
            _carry_generated(old, new)
        elif isinstance(old, RandomLayer | RandomParts):
            # A recurrent layer also folds its cell.
            old.fold_into(new)


def _carry_generated(layer, copied):
    """Copies the generated values of a layer that stands for no other."""
    if isinstance(layer, RandomLayer):
        for variable, target in zip(
            layer.generated_weights, copied.generated_weights, strict=True
        ):
            target.assign(current_value(variable))


def _is_twin(layer) -> bool:
    """Whether a layer's class is this library's own, not one derived from it."""
    is_random = isinstance(layer, RandomLayer | RandomParts)
    return is_random and type(layer).__module__.startswith("bhn_tf.layers.")


def _is_of_keras(kind) -> bool:
    return kind.__module__.split(".")[0] == "keras"


def _without_exchanges(entered):
    """A user's original layer, unless it has no place for the weights of a twin."""
    configs = [entered.get_config() for _ in range(2)]
    layer, trial = (
        keras.saving.deserialize_keras_object(config["layer"]) for config in configs
    )
    build_by_call(trial, configs[1]["called"])
    has_place = all(_has_place_for(old, new) for old, new in pairs(entered, trial))
    if not has_place:
        return fresh_layer(entered)
    # Its configuration may lack the name, as in `fresh_layer`.
    layer.name = entered.name
    return layer


def _has_place_for(twin, layer) -> bool:
    """Whether a layer has the γ of its twin, or the random weights of its copy."""
    if not _is_twin(twin):
        return True
    if isinstance(layer, RandomLayer | RandomParts):
        return layer.random == twin.random
    gammas = [getattr(each, "gamma", None) for each in (twin, layer)]
    return gammas[0] is None or gammas[1] is not None
