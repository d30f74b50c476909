"""Bayesian hypernetworks for Keras: networks that know when they do not know."""

from bhn_tf.environment import check_environment

check_environment()

from bhn_tf import (  # noqa: E402
    active,
    attacks,
    baselines,
    callbacks,
    conformal,
    correlation,
    data,
    diagnosis,
    flows,
    hamiltonian,
    hypernets,
    layers,
    likelihoods,
    metrics,
    plots,
    priors,
    sklearn,
    uncertainty,
)
from bhn_tf.conversion import from_keras  # noqa: E402
from bhn_tf.diagnosis import diagnose  # noqa: E402
from bhn_tf.models import BayesianHypernet  # noqa: E402
from bhn_tf.version import __version__  # noqa: E402

__all__ = [
    "BayesianHypernet",
    "__version__",
    "active",
    "attacks",
    "baselines",
    "callbacks",
    "conformal",
    "correlation",
    "data",
    "diagnose",
    "diagnosis",
    "flows",
    "from_keras",
    "hamiltonian",
    "hypernets",
    "layers",
    "likelihoods",
    "metrics",
    "plots",
    "priors",
    "sklearn",
    "uncertainty",
]
