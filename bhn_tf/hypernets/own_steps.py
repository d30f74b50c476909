"""Checks of the steps that a hypernet of one's own is made of."""

import numbers

import numpy as np
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.flows import FlowStep


def checked_steps(steps, owner: str) -> list[FlowStep]:
    """Returns what `make_flow_steps` returned as a list.

    Args:
        steps: The steps, in their order.
        owner: The class of the hypernet, for the error.

    Raises:
        TypeError: If they are anything but steps.
    """
    if isinstance(steps, list | tuple):
        wrong = [step for step in steps if not isinstance(step, FlowStep)]
    else:
        wrong = [steps]
    if wrong:
        raise TypeError(
            f"`{owner}.make_flow_steps` has to return a list of `bhn_tf.flows.FlowStep`"
            f", got {wrong[0]!r}. A bijector becomes the `bijector` of a step: "
            "docs/extending.md has an example."
        )
    return list(steps)


def check_built_steps(steps: list[FlowStep], event_size: int, hypernet) -> None:
    """Tries built steps, whose variables and results have to be those of a flow.

    Args:
        steps: The steps, with their weights, save those that their first call makes.
        event_size: D.
        hypernet: The hypernet that they are of.

    Raises:
        TypeError: If a step returns anything but values and a log-determinant.
        ValueError: If these have other shapes than a flow's, or a step reads other
            variables, which would be neither trained nor saved.
    """
    rows = 2
    for step in steps:
        with tf.GradientTape() as tape:
            results = step(tf.zeros([rows, event_size]))
        is_pair = isinstance(results, list | tuple) and len(results) == 2
        if not (is_pair and all(map(_is_numbers, results))):
            raise TypeError(
                f"Called with x [..., D], the step {step.name!r} has to return y "
                "[..., D] and log|det dy/dx| [...], got "
                f"{type(results).__name__}. Leave `call` to `FlowStep`, which "
                "takes both from `bijector`."
            )
        shapes = [list(np.shape(result)) for result in results]
        # That of a linear bijector of TFP is one number, which is the same for all x.
        if shapes[0] != [rows, event_size] or shapes[1] not in ([rows], []):
            raise ValueError(
                f"For x of shape {[rows, event_size]}, the step {step.name!r} has "
                "to return y of the same shape and log|det dy/dx| of shape "
                f"{[rows]}, got {shapes}. A flow keeps the number of values."
            )
        known = {id(each) for each in keras_adapter.tensorflow_variables(hypernet)}
        read = tape.watched_variables()
        foreign = [each.name for each in read if id(each) not in known]
        if foreign:
            raise ValueError(
                f"The step {step.name!r} reads the variables {foreign}, which are "
                "no weights of a Keras layer: they would be neither trained nor "
                "saved. Make weights by `add_weight`, and networks of Keras layers "
                "that are attributes of the step; TFP's own networks and templates "
                "are no such layers."
            )


def _is_numbers(result) -> bool:
    return tf.is_tensor(result) or isinstance(result, numbers.Number | np.ndarray)
