"""Figures of uncertainty, readable at the width of a paper's column.

Each function returns a matplotlib `Figure`, or draws on the `ax` that it is given.
Nothing goes through `pyplot` and no global setting is changed, so that figures can be
made in threads, on servers and in notebooks (where `%matplotlib inline` shows them).
`save` writes them to files.
"""

from bhn_tf.plots.acquisition import acquisition_curves
from bhn_tf.plots.attack import attack_panels
from bhn_tf.plots.correlation import p_value_histogram, scatter_matrix
from bhn_tf.plots.posterior_health import diagnosis
from bhn_tf.plots.regression import regression_bands
from bhn_tf.plots.regression_panels import regression_panels, std_curves
from bhn_tf.plots.reliability import reliability_diagram
from bhn_tf.plots.risk_coverage import risk_coverage_curve
from bhn_tf.plots.roc import roc_curves
from bhn_tf.plots.scores import score_histograms, score_panels
from bhn_tf.plots.style import save
from bhn_tf.plots.two_weights import two_weights

__all__ = [
    "acquisition_curves",
    "attack_panels",
    "diagnosis",
    "p_value_histogram",
    "regression_bands",
    "regression_panels",
    "reliability_diagram",
    "risk_coverage_curve",
    "roc_curves",
    "save",
    "scatter_matrix",
    "score_histograms",
    "score_panels",
    "std_curves",
    "two_weights",
]
