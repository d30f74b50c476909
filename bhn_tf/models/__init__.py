"""Keras models that predict with draws of a network."""

from bhn_tf.models.bayesian_hypernet import BayesianHypernet
from bhn_tf.models.predictive_model import PredictiveModel

__all__ = ["BayesianHypernet", "PredictiveModel"]
