"""Classification in scikit-learn's way."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from bhn_tf import likelihoods
from bhn_tf.sklearn.estimator import BHNEstimator, copied, whole_or_not_at_all
from bhn_tf.sklearn.given import labels_of_numpy, refuse_no_numbers


class BHNClassifier(ClassifierMixin, BHNEstimator):
    """A Bayesian hypernetwork as a scikit-learn classifier.

    Args:
        hidden_units: Sizes of the hidden layers; one number for one layer.
        activation: Activation of the hidden layers.
        network: Replaces these two: a function `(num_features, num_outputs)` → a Keras
            network that ends with raw outputs. Without layers of `bhn_tf.layers` it is
            converted, as `bhn_tf.from_keras` does.
        random: What the hypernet generates for each layer: "scale", "rank_one",
            "scale_and_bias", "kernel" or "kernel_and_bias".
        hypernet: "realnvp", "iaf", "chunked", "mean_field", or an instance from
            `bhn_tf.hypernets`, of which each fit makes a copy.
        likelihood: p(y|x, g) of classes: `bhn_tf.likelihoods.Categorical` (`None` for
            its defaults) or `Ordinal`, whose classes are the sorted ones of y.
        prior_stddev: Standard deviation of the prior.
        normalize_inputs: Whether the model begins with a layer that standardises its
            inputs, feature by feature; one that does not vary is only centred.
        epochs: Passes over the rows.
        batch_size: Rows of a step.
        learning_rate: Adam's initial learning rate, which decays to 0.
        kl_annealing: Share of the epochs, 0 to 1, over which the weight of the KL rises
            to 1; the last epoch always has weight 1.
        train_samples: Draws of g for each step.
        num_samples: S, draws of each prediction; 0 for the centre.
        random_state: An integer for the same result at every fit, a NumPy
            `RandomState`, or `None`. Predictions of one fit repeat in any case.
        verbose: As in Keras.

    Attributes:
        model_: The trained `BayesianHypernet`, which can be saved, exported and
            calibrated. It takes X as given, and its labels are indices into
            `classes_`.
        history_: Logs of the epochs, lists by name.
        n_features_in_, feature_names_in_: As in scikit-learn.
        classes_: The classes in the order of `predict_proba`'s columns.

    Example:
    ```python
    from bhn_tf.sklearn import BHNClassifier

    classifier = BHNClassifier(hypernet="mean_field", epochs=2, random_state=0)
    probabilities = classifier.fit(x, y).predict_proba(x)
    doubt = classifier.predict_uncertainty(x)["mutual_information"]
    ```
    """

    @whole_or_not_at_all
    def fit(self, X, y, sample_weight=None):
        """Trains on the bound.

        Args:
            X: Rows, [rows, features], an array or a data frame of numbers.
            y: Classes, [rows], numbers or texts.
            sample_weight: Weight of each row; a row of weight 0 does not count at all,
                except that its class is among `classes_`.

        Returns:
            The estimator.

        Raises:
            ValueError: If an argument of the estimator makes no sense, the rows do not
                fit or are NaN, all weights are 0, all labels are of one class, or the
                likelihood is not of these classes.
            bhn_tf.callbacks.Diverged: If training diverges.
        """
        refuse_no_numbers("X", X)
        y = labels_of_numpy(y)
        x, y = validate_data(self, X, y, dtype="float64", ensure_min_samples=2)
        check_classification_targets(y)
        encoder = LabelEncoder()
        codes = encoder.fit_transform(y)
        self.classes_ = encoder.classes_
        if len(self.classes_) < 2:
            raise ValueError(
                f"All labels are {self.classes_[0]!r}: a classifier cannot learn from "
                "one class. Give rows of at least two."
            )
        likelihood = copied(likelihoods.get(self.likelihood or "categorical"))
        num_outputs = _num_outputs(likelihood, len(self.classes_))
        return self._fit_rows(x, codes, likelihood, num_outputs, sample_weight)

    def predict_proba(self, X):
        """Returns the probability of each class, averaged over the draws.

        Args:
            X: Rows, [rows, features].

        Returns:
            [rows, C], in the order of `classes_`, float64.
        """
        probabilities = self._ask("predict", X)
        # In float32 sums are 1 to seven digits, and scikit-learn wants more of float64.
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X):
        """Returns the logarithm of `predict_proba`, -inf where it is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X):
        """Returns the likeliest class of each row.

        Args:
            X: Rows, [rows, features].

        Returns:
            [rows], with labels from the fitted y.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]


def _num_outputs(likelihood, num_classes: int) -> int:
    """Number of raw outputs that a likelihood needs for so many classes."""
    if isinstance(likelihood, likelihoods.Categorical):
        return num_classes
    if not isinstance(likelihood, likelihoods.Ordinal):
        raise ValueError(
            "Expected `likelihood` to be `Categorical`, also of two classes, or "
            f"`Ordinal`, got {type(likelihood).__name__}."
        )
    if likelihood.num_classes != num_classes:
        raise ValueError(
            f"`likelihood` is `Ordinal` of {likelihood.num_classes} classes, and y has "
            f"{num_classes}. Give rows of each class, or `Ordinal({num_classes})`."
        )
    return 1
