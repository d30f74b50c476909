"""Checks of what `compile` and `fit` are given, before any work."""

from collections.abc import Mapping

import keras


def refuse_loss(loss, model_name: str) -> None:
    """Raises `ValueError` where a loss is given: the likelihood is the loss."""
    if loss is not None:
        raise ValueError(
            f"`compile` got the loss {loss!r}, and the loss of this model is its "
            "likelihood, a density: leave out `loss` and choose with "
            f"`{model_name}(..., likelihood=...)`; see `bhn_tf.likelihoods`. Metrics "
            "are given by keyword: `metrics=[...]`."
        )


def refuse_what_replicas_lack(optimizer, jit_compile) -> None:
    """Raises `ValueError` for what fails in TensorFlow or Keras on several replicas."""
    if jit_compile is True:
        raise ValueError(
            "`jit_compile=True` fails on several replicas in TensorFlow (XLA "
            "cannot compile their collective operations). Leave it at 'auto'."
        )
    if getattr(optimizer, "gradient_accumulation_steps", None):
        raise ValueError(
            "`gradient_accumulation_steps` fails on several replicas in Keras "
            "(it updates conditionally in replica context). Use larger batches."
        )
    if getattr(optimizer, "ema_overwrite_frequency", None):
        raise ValueError(
            "`ema_overwrite_frequency` fails on several replicas in Keras (it "
            "overwrites conditionally in replica context). Leave it out: with "
            "`use_ema=True` the weights become their average at the end of `fit`, or "
            "for each evaluation with `keras.callbacks.SwapEMAWeights`."
        )


def validation_split_of(validation_split, validation_data) -> float:
    """Returns the share of the rows that Keras sets aside: none beside other data.

    Raises:
        ValueError: Unless the split is a share of the rows, or none.
    """
    if not 0.0 <= (validation_split or 0.0) < 1.0:
        raise ValueError(
            "Expected `validation_split` to be a share of the rows, from 0 up to "
            f"but not 1, got {validation_split!r}."
        )
    return validation_split if validation_data is None and validation_split else 0.0


def check_class_weight(class_weight, raw_outputs) -> None:
    """Raises `ValueError` for weights that are no dictionary, or have no one class.

    Args:
        class_weight: As `fit` was given it.
        raw_outputs: The model's `RawOutputs`; `None` where they are not known yet.
    """
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "Expected `class_weight` to be a dictionary of weights by class "
            f"number, got a {type(class_weight).__name__}. Give "
            "`dict(enumerate(class_weight))`."
        )
    specs = [] if raw_outputs is None else raw_outputs.spec
    if any(len(spec.shape) > 2 for spec in keras.tree.flatten(specs)):
        raise ValueError(
            "`class_weight` gives each row the weight of its one class, and rows "
            "of this network have several (pixels, tokens). Give `sample_weight`."
        )
