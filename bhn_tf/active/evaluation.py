"""How good a model is on data that do not influence what is learned."""

import inspect

import numpy as np

from bhn_tf.data_feeds import unpacked_validation


def evaluate(model, validation_data, batch_size: int | None, seed: int) -> dict:
    """Returns the logs of `evaluate`, with `val_` before their names.

    Args:
        model: A compiled model.
        validation_data: A data set of batches, or a tuple or list `(x, y)` or `(x, y,
            sample_weight)`.
        batch_size: Rows of a batch, for arrays.
        seed: Seed of the draws, for models that take one.
    """
    # A network of one's own may have uncertainties and Keras's `evaluate`; one that is
    # derived from the library's may hand on what it is given as `**kwargs`.
    takes_seed = any(
        "seed" in inspect.signature(vars(kind)["evaluate"]).parameters
        for kind in type(model).__mro__
        if "evaluate" in vars(kind)
    )
    is_arrays = isinstance(validation_data, tuple | list)
    x, y, sample_weight = unpacked_validation(validation_data)
    logs = model.evaluate(
        x,
        y,
        batch_size=batch_size if is_arrays else None,
        sample_weight=sample_weight,
        verbose=0,
        return_dict=True,
        **({"seed": seed} if takes_seed else {}),
    )
    return {f"val_{name}": as_numbers(value) for name, value in logs.items()}


def as_numbers(value):
    """A metric as JSON can hold it: a number, or a list if it has several.

    Raises:
        TypeError, ValueError: If it is neither.
    """
    return list(map(as_numbers, value)) if np.ndim(value) else float(value)
