"""Regression in scikit-learn's way."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from bhn_tf import likelihoods
from bhn_tf.metrics import concordance_index
from bhn_tf.sklearn.estimator import BHNEstimator, copied, whole_or_not_at_all
from bhn_tf.sklearn.given import refuse_no_numbers
from bhn_tf.sklearn.waiting_times import columns_of_waits, paired


class BHNRegressor(RegressorMixin, BHNEstimator):
    """A Bayesian hypernetwork as a scikit-learn regressor.

    The network works in standardised targets; predictions are in the targets' units.

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
        likelihood: p(y|x, g), a name or an instance from `bhn_tf.likelihoods`; `None`
            for Gaussian noise whose level is learned. With "weibull" and
            "censored_log_normal", y holds waiting times, some of them censored.
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
            calibrated. It takes X as given.
        history_: Logs of the epochs, lists by name.
        n_features_in_, feature_names_in_: As in scikit-learn.

    Example:
    ```python
    from bhn_tf.sklearn import BHNRegressor

    x, y = np.random.default_rng(0).normal(size=(2, 40, 1))
    regressor = BHNRegressor(hypernet="mean_field", epochs=2, random_state=0)
    mean, std = regressor.fit(x, y[:, 0]).predict(x, return_std=True)
    lower, upper = regressor.predict_interval(x, level=0.9)
    ```
    """

    @whole_or_not_at_all
    def fit(self, X, y, sample_weight=None):
        """Trains on the bound.

        Args:
            X: Rows, [rows, features], an array or a data frame of numbers.
            y: Targets, [rows] or [rows, targets]. For waiting times that may be
                censored: columns [time, event], with event 1 if it was seen and 0 if
                it had not happened by then (further targets in further pairs); a frame
                with columns "time" and "event"; or a structured array of
                scikit-survival.
            sample_weight: Weight of each row; a row of weight 0 does not count at all.

        Returns:
            The estimator.

        Raises:
            ValueError: If an argument of the estimator makes no sense, the rows do not
                fit or are NaN, all weights are 0, or the likelihood is of classes.
            bhn_tf.callbacks.Diverged: If training diverges.
        """
        likelihood = self._new_likelihood()
        refuse_no_numbers("X", X)
        refuse_no_numbers("y", y)
        x, y = validate_data(
            self,
            X,
            columns_of_waits(y) if likelihood.is_censored else y,
            dtype="float64",
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        if likelihood.is_censored:
            y = paired(y.astype("float64"))
            self._has_one_target = y.shape[1] == 1
        else:
            self._has_one_target = y.ndim == 1
            y = np.reshape(y, [len(y), -1]).astype("float64")
        num_outputs = y.shape[1] * getattr(likelihood, "outputs_per_target", 1)
        if self.network is None and isinstance(likelihood, likelihoods.Distribution):
            _require_an_output_per_target(likelihood, y)
        if getattr(likelihood, "has_unit", False):
            likelihood = likelihoods.Standardized(likelihood)
        return self._fit_rows(x, y, likelihood, num_outputs, sample_weight)

    def _new_likelihood(self) -> likelihoods.Likelihood:
        likelihood = self.likelihood
        if likelihood is None:
            likelihood = likelihoods.Gaussian(0.5, trainable=True)
        likelihood = copied(likelihoods.get(likelihood))
        if likelihood.is_of_classes:
            raise ValueError(
                f"{type(likelihood).__name__} is a likelihood of classes: use "
                "`BHNClassifier`, which takes the one that the labels ask for."
            )
        return likelihood

    def predict(self, X, return_std: bool = False):
        """Returns the predictive mean and, if asked for, the standard deviation.

        For waiting times it is the mean of the time itself.

        Args:
            X: Rows, [rows, features].
            return_std: Whether to return `(mean, std)`, the noise included.

        Returns:
            Float64 arrays in the shape of the fitted targets.
        """
        if not return_std:
            return self._shaped(self._ask("predict", X))
        found = self.predict_uncertainty(X)
        return self._shaped(found["mean"]), self._shaped(found["std"])

    def predict_interval(self, X, level: float = 0.9):
        """Returns the central predictive interval of y.

        It is the model's own, without a guarantee. For one with a guarantee, use
        `bhn_tf.conformal.calibrate(regressor.model_, X, y)` on rows set aside.

        Args:
            X: Rows, [rows, features].
            level: Probability of the interval.

        Returns:
            Arrays `(lower, upper)` of the shape of the targets, float64.
        """
        lower, upper = self._ask("predict_interval", X, level=level)
        return self._shaped(lower), self._shaped(upper)

    def score(self, X, y, sample_weight=None):
        """Returns how good the predicted means are.

        Args:
            X: Rows, [rows, features].
            y: Targets, as in `fit`.
            sample_weight: Weight of each row; not for waiting times.

        Returns:
            R², as for every scikit-learn regressor. For waiting times that may be
            censored it is the concordance index, as in scikit-survival: the share of
            pairs of rows in the right order, averaged over the targets.

        Raises:
            ValueError: If weights are given for waiting times.
        """
        if not self._new_likelihood().is_censored:
            return super().score(X, y, sample_weight)
        if sample_weight is not None:
            raise ValueError(
                "The concordance index is of pairs of rows, which have no "
                "`sample_weight`: leave it out."
            )
        y = paired(check_array(columns_of_waits(y), ensure_2d=False))
        check_consistent_length(X, y)
        mean = self.predict(X).reshape(len(y), -1)
        found = [
            concordance_index(*y[:, column].T, mean[:, column])
            for column in range(mean.shape[1])
        ]
        return float(np.mean(found))

    def _shaped(self, values):
        return values[:, 0] if self._has_one_target else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _require_an_output_per_target(likelihood, y):
    try:
        likelihood.coded_labels(y, (None, y.shape[1]))
    except ValueError as error:
        raise ValueError(
            "The function of the likelihood `Distribution` does not take one raw "
            f"output for each of {y.shape[1]} targets ({error}). Give `network=`, a "
            "function `(num_features, num_outputs)` → a Keras network that ends with "
            "the raw outputs which it takes."
        ) from error
