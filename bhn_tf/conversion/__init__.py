"""From a Keras model to a Bayesian hypernetwork: what becomes random, and why."""

from bhn_tf.conversion.from_keras import from_keras
from bhn_tf.conversion.report import ConversionReport

__all__ = ["ConversionReport", "from_keras"]
