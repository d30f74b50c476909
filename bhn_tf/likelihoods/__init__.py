"""Likelihoods p(y|x, g): log-probability, mean and scores of raw outputs."""

import keras

from bhn_tf.likelihoods.classification import Bernoulli, Categorical
from bhn_tf.likelihoods.likelihood import Likelihood
from bhn_tf.likelihoods.regression import Gaussian

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Likelihood", "get"]

_BY_NAME = {"categorical": Categorical, "bernoulli": Bernoulli, "gaussian": Gaussian}

_INSTEAD_OF_LOSS = {
    "sparse_categorical_crossentropy": "categorical",
    "categorical_crossentropy": "categorical",
    "binary_crossentropy": "bernoulli",
    "mse": "gaussian",
    "mean_squared_error": "gaussian",
}


def get(identifier) -> Likelihood:
    """Returns a likelihood for its name or an instance.

    Raises:
        ValueError: If it is neither; for a Keras loss, with what to use instead.
    """
    if isinstance(identifier, Likelihood):
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    loss_name = getattr(identifier, "name", None) or getattr(
        identifier, "__name__", identifier
    )
    instead = _INSTEAD_OF_LOSS.get(loss_name) if isinstance(loss_name, str) else None
    if instead or isinstance(identifier, keras.losses.Loss):
        advice = f"`likelihood={instead!r}`" if instead else "one of them"
        raise ValueError(
            f"{loss_name!r} is a loss, and the bound needs a density p(y|x): one of "
            f"{sorted(_BY_NAME)}. Use {advice} instead."
        )
    raise ValueError(
        f"Expected `likelihood` to be one of {sorted(_BY_NAME)} or an instance such as "
        f"`bhn_tf.likelihoods.Gaussian(stddev=0.1)`, got {identifier!r}."
    )
