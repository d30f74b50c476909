"""Inputs that do not fit the networks, refused before any work."""

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.data_feeds import HOW_TO_GIVE_ROWS, leaves_of
from bhn_tf.networks.inputs import may_scale_inputs

#: Layers that take integers as they are.
_TAKES_INTEGERS = (
    keras.layers.Rescaling,
    keras.layers.Normalization,
    keras.layers.Embedding,
    keras.layers.CategoryEncoding,
    keras.layers.IntegerLookup,
    keras.layers.Hashing,
    keras.layers.Discretization,
)


def refuse_unfit_inputs(feed, networks) -> None:
    """Refuses single rows, unscaled images, and text or complex numbers for real ones.

    Args:
        feed: A `data_feeds.Feed`.
        networks: What takes its inputs, one network or several of one kind.

    Raises:
        ValueError: If the inputs do not fit, as far as the networks show it.
    """
    x, y, sample_weight = feed.spec()
    given = leaves_of(x)
    taken = keras.tree.flatten(getattr(networks[0], "inputs", None) or [])
    _refuse_single_rows(given, taken)
    _refuse_unscaled_images(given, networks)
    _refuse_text(given, taken)
    if taken and not any(_is_complex(leaf) for leaf in taken):
        _refuse_complex("x", given)
    _refuse_complex("y", leaves_of(y))
    _refuse_complex("sample_weight", leaves_of(sample_weight))


def _refuse_single_rows(given, taken) -> None:
    """Refuses inputs without an axis of rows, for a network with one input."""
    if len(given) != 1 or len(taken) != 1:
        return
    shape, expected = given[0].shape, tuple(taken[0].shape)
    # Keras adds a last axis of 1 itself.
    with_last = tf.TensorShape([*shape, 1])
    is_short = len(shape) == len(expected) - 1
    if is_short and not with_last.is_compatible_with(expected):
        raise ValueError(
            f"The network takes inputs of shape {expected}, rows first, and got "
            f"{shape}. {HOW_TO_GIVE_ROWS}"
        )


def _refuse_unscaled_images(given, networks) -> None:
    """Refuses images of uint8 if nothing in the networks may scale them."""
    if not any(leaf.dtype == "uint8" for leaf in given):
        return
    for network in networks:
        layers = keras_adapter.layers_of(network)
        if may_scale_inputs(network) or any(
            isinstance(layer, _TAKES_INTEGERS) for layer in layers
        ):
            return
    raise ValueError(
        "The inputs are of dtype uint8, and nothing in the network scales "
        "them. Give `x.astype('float32') / 255`, or begin the network with "
        "`keras.layers.Rescaling(1 / 255)`."
    )


def _refuse_text(given, taken) -> None:
    """Refuses text for inputs that do not take it."""
    if not taken or not any(leaf.dtype == "string" for leaf in given):
        return
    if not any(leaf.dtype == "string" for leaf in taken):
        raise ValueError(
            "The inputs are text, and the network takes numbers. Turn them into "
            "numbers first, or begin the network with "
            "`keras.Input((), dtype='string')` and a layer such as "
            "`keras.layers.TextVectorization`."
        )


def _refuse_complex(name, leaves) -> None:
    """Refuses complex numbers, of which casts keep the real part alone."""
    if any(map(_is_complex, leaves)):
        raise ValueError(
            f"`{name}` holds complex numbers, of which only the real part would count. "
            f"Give `{name}.real`, or real and imaginary parts as numbers of their own."
        )


def _is_complex(leaf) -> bool:
    return str(leaf.dtype).startswith("complex")
