"""Bayesian hypernetworks as scikit-learn estimators, for tabular data.

Keras's own wrappers, `keras.wrappers.SKLearnClassifier` and `SKLearnRegressor`, take
any compiled model of this library. But they have no plain arguments for a search to
set, no `sample_weight` that scikit-learn can find, and lose their `fit_kwargs` when
cloned; so the estimators here derive from scikit-learn's own base classes.
"""

from bhn_tf.sklearn.classifier import BHNClassifier
from bhn_tf.sklearn.regressor import BHNRegressor

__all__ = ["BHNClassifier", "BHNRegressor"]
