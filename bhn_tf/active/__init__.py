"""Active learning: the model says which rows of a pool are worth a label."""

from bhn_tf.active.learner import ActiveLearner

__all__ = ["ActiveLearner"]
