"""What a file says of how a Bayesian hypernetwork was made."""

import keras

from bhn_tf.models.refused_networks import refuse_reversed_order
from bhn_tf.networks.shared_layers import serialized

#: Marks files in which g follows the order of the network's layers.
_ORDER_OF_LAYERS = "network"


def config_of(model) -> dict:
    """Returns what a file holds of a `BayesianHypernet`, beside its likelihood."""
    serialize = keras.saving.serialize_keras_object
    return {
        "primary": serialized(model.primary),
        "hypernet": serialize(model.hypernet),
        **model.objective.get_config(),
        "seed": model.noise.seed,
        "conversion_report": serialize(model.conversion_report),
        "order_of_values": _ORDER_OF_LAYERS,
    }


def model_of(kind: type, config: dict, custom_objects=None):
    """Makes the model that a file describes, also one of an earlier version.

    Args:
        kind: The class, `BayesianHypernet` or one derived from it.
        config: What `get_config` has returned.
        custom_objects: As in Keras.

    Raises:
        ValueError: If the file has g in another order than the network's layers.
    """
    config = dict(config)
    for name in ("primary", "hypernet", "likelihood", "conversion_report"):
        config[name] = keras.saving.deserialize_keras_object(
            config.get(name), custom_objects=custom_objects
        )
    if config.get("prior") is not None:
        # Version 0.1 took them beside a prior, ignored them and saved them.
        config.pop("prior_stddev", None)
        config.pop("prior_loc", None)
    report = config.pop("conversion_report")
    if config.pop("order_of_values", None) != _ORDER_OF_LAYERS:
        refuse_reversed_order(config["primary"])
    is_prior_frozen = config.pop("is_prior_frozen", False)
    model = kind(**config)
    if is_prior_frozen:
        model.learned_prior_stddev.trainable = False
    model.freeze_what_was_built()
    model.conversion_report = report
    return model
