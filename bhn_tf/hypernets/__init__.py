"""Hypernets: the approximate posterior q(g) as an invertible network of noise."""

from tensorflow_probability import bijectors as tfb

from bhn_tf.hypernets.chunked import Chunked
from bhn_tf.hypernets.flow import IAF, RealNVP
from bhn_tf.hypernets.hypernet import Hypernet
from bhn_tf.hypernets.mean_field import MeanField
from bhn_tf.user_warnings import warn_unless_registered

__all__ = ["IAF", "Chunked", "Hypernet", "MeanField", "RealNVP", "get"]

_BY_NAME = {
    "mean_field": MeanField,
    "realnvp": RealNVP,
    "iaf": IAF,
    "chunked": Chunked,
}


def get(identifier) -> Hypernet:
    """Returns a hypernet for a name or an instance.

    The names are "mean_field", "realnvp", "iaf" and "chunked".

    Raises:
        ValueError: If the name is unknown or the object is no hypernet.
    """
    if isinstance(identifier, Hypernet):
        warn_unless_registered(identifier)
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    raise ValueError(
        f"Expected `hypernet` to be one of {sorted(_BY_NAME)} or an instance such as "
        f"`bhn_tf.hypernets.RealNVP(num_layers=4)`, got {identifier!r}."
        f"{_how_to_give(identifier)}"
    )


def _how_to_give(identifier) -> str:
    """How to turn a class or a bijector into a hypernet, for the error."""
    if isinstance(identifier, type) and issubclass(identifier, Hypernet):
        return f" Make an instance of the class: `{identifier.__name__}()`."
    if isinstance(identifier, tfb.Bijector):
        return (
            " A bijector becomes the `bijector` of a `bhn_tf.flows.FlowStep`, which "
            "keeps its weights, and a `Hypernet` whose `make_flow_steps` returns that "
            "step can be given: docs/extending.md has an example."
        )
    return ""
