"""Export of a model to a SavedModel that answers with its uncertainty."""

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.arguments import check_count
from bhn_tf.files import local_folder
from bhn_tf.serving import assets
from bhn_tf.serving.names import input_specs
from bhn_tf.serving.signatures import Signatures, check_signatures
from bhn_tf.serving.versions import new_version


def export_version(
    model, directory, num_samples, signatures, ensemble, seed, metrics
) -> str:
    """Writes the next version of a model; see `PredictiveModel.export`.

    Args:
        model: A built `PredictiveModel`.
        directory, num_samples, signatures, ensemble, seed, metrics: As in `export`.

    Returns:
        The path of the new version.

    Raises:
        ValueError: If a number makes no sense, a signature is unknown, a seed is given
            without `ensemble`, an input has a name that a signature needs, or the model
            cannot say what it takes.
        TypeError: If the model card cannot hold `metrics`.
        OSError: If it cannot be written; no part of it is then left.
    """
    check_destination(directory, metrics)
    check_count("num_samples", num_samples, minimum=1)
    asked = check_signatures(signatures)
    if seed is not None and not ensemble:
        raise ValueError(
            "`seed` is that of frozen draws: give it with `ensemble=True`. "
            "Without, every request draws anew, and `sample` takes a seed."
        )
    frozen = None
    if ensemble:
        posterior = model.posterior
        frozen = (
            posterior.draw(num_samples, seed).values,
            posterior.draw(0, None).values,
        )
    specs, structure = input_specs(*model.served_inputs)
    made = Signatures(model, specs, structure, num_samples, frozen).make(asked)
    facts = {
        "num_samples": model.posterior.num_draws(num_samples),
        "ensemble": ensemble,
        "metrics": metrics,
        "input_names": specs.originals,
    }
    return write_version(model, directory, made, frozen, facts)


def check_destination(directory, metrics) -> None:
    """Refuses what could not be written, before the work that comes first.

    Args:
        directory, metrics: As in `export`.

    Raises:
        ValueError: If `directory` is an address, such as "gs://bucket/models".
        TypeError: If the model card cannot hold `metrics`.
    """
    local_folder(directory)
    assets.as_json(metrics, "metrics")


def write_version(model, directory, made, frozen, facts) -> str:
    """Writes functions of a model as its next version, with their assets.

    Args:
        model: A built `PredictiveModel`.
        directory: Folder of versions.
        made: Concrete functions by signature.
        frozen: Draws that the functions read, or `None`.
        facts: What the model does not know about itself, for the model card.

    Returns:
        The path of the new version.

    Raises:
        ValueError: If a `TimeDistributed` layer would answer wrongly.
        OSError: If it cannot be written; no part of it is then left.
    """
    _refuse_unknown_steps(model.posterior.networks)
    module = tf.Module()
    module.served = _variables_of(made.values())
    module.frozen = frozen
    module.tables = [
        held
        for network in model.posterior.networks
        for layer in keras_adapter.layers_of(network)
        for held in keras.tree.flatten(list(vars(layer).values()))
        if isinstance(held, tf.saved_model.experimental.TrackableResource)
    ]
    with new_version(directory) as version:
        try:
            tf.saved_model.save(module, str(version.path), made)
        except tf.errors.OpError as error:
            # Something that the user can mend, such as a full disk.
            raise OSError(f"{directory} cannot be written: {error.message}") from error
        assets.write_model_card(version.path, model, made, facts)
        assets.write_warm_up(version.path, made)
    return str(version.path)


def _refuse_unknown_steps(networks) -> None:
    """Refuses layers that repeat another for every row, instead of every step.

    Keras 3.15 does so where a graph does not know the number of steps, and cuts off
    what is left: numbers that are wrong, without an error.
    """
    for network in networks:
        for layer in keras_adapter.layers_of(network):
            if not isinstance(layer, keras.layers.TimeDistributed):
                continue
            shapes = [each.shape for each in keras_adapter.inputs_in_graphs(layer)]
            if any(shape[1] is None for shape in shapes) and not repeats_all_steps():
                raise ValueError(
                    f"The inputs of `TimeDistributed` {layer.name!r} have a number of "
                    "steps that is not known, and then this version of Keras runs as "
                    "many steps as there are rows: the served model would answer "
                    "wrongly. Give `keras.Input` the number of steps; layers such as "
                    "`Dense` need no `TimeDistributed`."
                )


def repeats_all_steps() -> bool:
    """Whether `TimeDistributed` repeats its layer for all of an unknown number."""
    layer = keras.layers.TimeDistributed(keras.layers.Identity())
    steps_unknown = tf.TensorSpec([None, None, 1])
    repeated = tf.function(layer, input_signature=[steps_unknown])(tf.zeros([1, 2, 1]))
    return repeated.shape[1] == 2


def _variables_of(functions) -> list:
    """The variables that functions read, each listed once."""
    found = {
        variable.ref(): variable
        for function in functions
        for variable in function.variables
    }
    return list(found.values())
