"""Bayesian hypernetworks as estimators of scikit-learn, for tables of data.

Keras's own wrappers, `keras.wrappers.SKLearnClassifier` and `SKLearnRegressor`, take
any compiled model of this library. They have no plain arguments for a search to set,
no `sample_weight` that scikit-learn would find, and lose their `fit_kwargs` when they
are cloned; so the estimators here stand on scikit-learn's own base classes.
"""

from bhn_tf.sklearn.classifier import BHNClassifier
from bhn_tf.sklearn.regressor import BHNRegressor

__all__ = ["BHNClassifier", "BHNRegressor"]
