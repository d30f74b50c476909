"""Calls: what layers add to the loss, masks, and which call is running."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from bhn_tf.keras_adapter.layers import layers_of


def own_losses(network: keras.Layer) -> list[tf.Tensor]:
    """Returns what the layers have added with `add_loss` in the running call.

    This includes the regularisation of activities, but not of weights.
    """
    return [loss for layer in layers_of(network) for loss in layer._get_own_losses()]


def weight_losses(network: keras.Layer) -> list[tf.Tensor]:
    """Returns the regularisation of the network's weights."""
    return network._get_regularization_losses()


@contextlib.contextmanager
def one_call_of(network: keras.Layer) -> Iterator[None]:
    """Runs layers as if the network had called them.

    A layer that is called on its own first forgets what it has added with `add_loss`,
    so that a second use would hide the losses of the first.
    """
    network._get_call_context()
    try:
        yield
    finally:
        network._maybe_reset_call_context()


def outermost_layer() -> keras.Layer | None:
    """Returns the layer or model whose call is running, with others inside it."""
    context = global_state.get_global_attribute("current_call_ctx")
    return None if context is None else context.entry_layer


def is_rematerialized(layer: keras.Layer) -> bool:
    """Whether a layer's call may run again for its gradient (`RematScope`).

    The mode "activations" is safe, as these are functions of only their inputs.
    """
    scope = getattr(layer, "_remat_mode", None)
    if scope is None or scope.mode in (None, "activations"):
        return False
    return scope.mode != "list_of_layers" or layer.name in scope.layer_names


def mask_of(tensor):
    """Returns the mask that Keras's layers have given a tensor, or `None`."""
    return getattr(tensor, "_keras_mask", None)


def with_mask(tensor, mask):
    """Attaches a mask to a tensor, which Keras's metrics then respect."""
    if mask is not None:
        tensor._keras_mask = mask
    return tensor
