"""Likelihoods p(y|x, g): log-probability, mean and scores of raw outputs."""

import keras

from bhn_tf.likelihoods.censored import CensoredLogNormal, CensoredWeibull
from bhn_tf.likelihoods.classification import Bernoulli, Categorical
from bhn_tf.likelihoods.counts import (
    NegativeBinomial,
    Poisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from bhn_tf.likelihoods.distributional import Distributional
from bhn_tf.likelihoods.function import Distribution
from bhn_tf.likelihoods.joint import Joint
from bhn_tf.likelihoods.likelihood import Likelihood
from bhn_tf.likelihoods.mixture import Mixture
from bhn_tf.likelihoods.ordinal import Ordinal
from bhn_tf.likelihoods.positive import Beta, LogNormal
from bhn_tf.likelihoods.regression import Gaussian, Laplace, StudentT
from bhn_tf.likelihoods.standardized import Standardized
from bhn_tf.user_warnings import warn_unless_registered

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "CensoredLogNormal",
    "CensoredWeibull",
    "Distribution",
    "Distributional",
    "Gaussian",
    "Joint",
    "Laplace",
    "Likelihood",
    "LogNormal",
    "Mixture",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Standardized",
    "StudentT",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "get",
]

_BY_NAME = {
    "bernoulli": Bernoulli,
    "beta": Beta,
    "categorical": Categorical,
    "censored_log_normal": CensoredLogNormal,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "log_normal": LogNormal,
    "mixture": Mixture,
    "negative_binomial": NegativeBinomial,
    "ordinal": Ordinal,
    "poisson": Poisson,
    "student_t": StudentT,
    "weibull": CensoredWeibull,
    "zero_inflated_negative_binomial": ZeroInflatedNegativeBinomial,
    "zero_inflated_poisson": ZeroInflatedPoisson,
}

#: By the names of Keras's loss functions, and of its loss classes in snake case.
_INSTEAD_OF_LOSS = {
    "sparse_categorical_crossentropy": "categorical",
    "categorical_crossentropy": "categorical",
    "binary_crossentropy": "bernoulli",
    "mse": "gaussian",
    "mean_squared_error": "gaussian",
    "mae": "laplace",
    "mean_absolute_error": "laplace",
    "huber": "student_t",
    "huber_loss": "student_t",
    "log_cosh": "student_t",
    "logcosh": "student_t",
    "msle": "log_normal",
    "mean_squared_logarithmic_error": "log_normal",
    "poisson": "poisson",
}


def get(identifier) -> Likelihood:
    """Returns a likelihood for a name or an instance, or a `Joint` for several.

    Args:
        identifier: A name: "bernoulli", "beta", "categorical", "censored_log_normal",
            "gaussian", "laplace", "log_normal", "mixture", "negative_binomial",
            "ordinal", "poisson", "student_t", "weibull",
            "zero_inflated_negative_binomial" or "zero_inflated_poisson"; an instance;
            or for several outputs a list or a dictionary of such by output name.

    Raises:
        ValueError: If it is none of these; for a Keras loss, it says what to use.
    """
    if isinstance(identifier, Likelihood):
        warn_unless_registered(identifier)
        return identifier
    if isinstance(identifier, dict):
        return Joint([get(part) for part in identifier.values()], list(identifier))
    if isinstance(identifier, list | tuple):
        return Joint([get(part) for part in identifier])
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
        f"{_how_to_give(identifier)}"
    )


def _how_to_give(identifier) -> str:
    """How to turn a class or a function into a likelihood, for the error."""
    if isinstance(identifier, type) and issubclass(identifier, Likelihood):
        return f" Make an instance of the class: `{identifier.__name__}()`."
    if callable(identifier):
        return (
            " If it makes a distribution of TFP of raw outputs, wrap it: "
            "`bhn_tf.likelihoods.Distribution(function)`."
        )
    return ""


def in_standard_units(likelihood) -> Likelihood:
    """Returns the likelihood with every part that has a unit in standard units.

    Raises:
        ValueError: If no part has a unit.
    """
    parts = likelihood.parts_of_outputs()
    if not isinstance(likelihood, Joint) or not any(part.has_unit for part in parts):
        return Standardized(likelihood)
    return likelihood.with_parts(
        [Standardized(part) if part.has_unit else part for part in parts]
    )


def fit_to_outputs(likelihood, names, endings) -> Likelihood:
    """Returns the likelihood for a network's outputs.

    Args:
        likelihood: What the user has given.
        names: Names of several outputs, or `None` for a single one.
        endings: `(activation, reason)` of each output; see `Likelihood.resolved`.

    Raises:
        ValueError: If likelihoods and outputs do not match.
    """
    if isinstance(likelihood, Joint):
        # If the network does not show what it returns, the user's word counts.
        is_told = names is not None or endings[0][0] is not None
        names = names or likelihood.names
        if not is_told and names is not None:
            endings = endings * len(names)
        likelihood.arrange(names or ["the only one"], endings)
        return likelihood
    if names is not None:
        raise ValueError(
            f"The network has the outputs {names}: give a likelihood for each, such as "
            f"`likelihood={dict.fromkeys(names, 'gaussian')}`."
        )
    return likelihood.resolved(*endings[0])
