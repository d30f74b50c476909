"""The base of the estimators: their arguments, training and predictions."""

import contextlib
import functools
import random
import threading
from collections.abc import Callable, Iterator
from numbers import Integral, Real

import keras
import numpy as np
import tensorflow as tf
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from bhn_tf import callbacks, keras_adapter, likelihoods
from bhn_tf.arguments import check_resolution
from bhn_tf.conversion.from_keras import from_keras
from bhn_tf.data_feeds.epochs import batches_of_epochs
from bhn_tf.layers import WeightNormDense
from bhn_tf.layers.random_layer import RandomLayer
from bhn_tf.models import BayesianHypernet
from bhn_tf.sklearn.given import refuse_no_numbers

# Held while a model is built: initial weights are seeded by Python's generator, which
# all threads share.
_BUILDING = threading.RLock()


def whole_or_not_at_all(fit: Callable) -> Callable:
    """Makes a `fit` that fails leave the estimator as it was.

    scikit-learn and `fit` set attributes one after the other, and those of a new fit
    would tell wrong classes and shapes of the earlier model.
    """

    @functools.wraps(fit)
    def fit_or_restore(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return fit_or_restore


class BHNEstimator(BaseEstimator):
    """Base of both estimators, which document its arguments."""

    def __init__(
        self,
        hidden_units=(50,),
        activation="relu",
        *,
        network=None,
        random="scale",
        hypernet="realnvp",
        likelihood=None,
        prior_stddev=1.0,
        normalize_inputs=True,
        epochs=100,
        batch_size=32,
        learning_rate=5e-3,
        kl_annealing=0.25,
        train_samples=1,
        num_samples=100,
        random_state=None,
        verbose=0,
    ):
        self.hidden_units = hidden_units
        self.activation = activation
        self.network = network
        self.random = random
        self.hypernet = hypernet
        self.likelihood = likelihood
        self.prior_stddev = prior_stddev
        self.normalize_inputs = normalize_inputs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.kl_annealing = kl_annealing
        self.train_samples = train_samples
        self.num_samples = num_samples
        self.random_state = random_state
        self.verbose = verbose

    # -- fit --------------------------------------------------------------------------

    def _fit_rows(self, x, y, likelihood, num_outputs, sample_weight):
        """Trains on checked rows: y [rows, C], or class numbers [rows]."""
        self._check_numbers()
        x = _as_float32("X", x)
        if sample_weight is not None:
            refuse_no_numbers("sample_weight", sample_weight)
            weight = _check_sample_weight(
                sample_weight, x, dtype="float32", ensure_non_negative=True
            )
            # Rows of weight 0 are dropped, so that they affect neither N nor means.
            x, y, weight = x[weight > 0], y[weight > 0], weight[weight > 0]
            if not len(x):
                raise ValueError(
                    "All entries of `sample_weight` are 0: there is no row to learn "
                    "from."
                )
        if isinstance(likelihood, likelihoods.Standardized):
            likelihood.adapt(y, None if sample_weight is None else weight)
        if y.dtype.kind == "f":
            y = _as_float32("y", y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        arrays = (x, y) if sample_weight is None else (x, y, weight)
        rows = tuple(map(tf.constant, arrays))
        with _BUILDING, _seeded(seed):
            model = self._model(x, likelihood, num_outputs, seed)
            num_batches = -(-len(x) // self.batch_size)
            schedule = keras.optimizers.schedules.CosineDecay(
                self.learning_rate, self.epochs * num_batches
            )
            model.compile(
                keras.optimizers.Adam(schedule),
                train_samples=self.train_samples,
            )
        span = round(self.kl_annealing * self.epochs)
        # The last epoch has the full KL, so that training ends on the bound.
        annealing = callbacks.KLAnnealing(0.0, epochs=min(span, self.epochs - 1))
        history = model.fit(
            batches_of_epochs(rows, self.batch_size, seed, 0, self.epochs),
            epochs=self.epochs,
            steps_per_epoch=num_batches,
            verbose=self.verbose,
            callbacks=[annealing, callbacks.DivergenceGuard()],
        )
        self.model_, self.history_, self._seed = model, history.history, seed
        return self

    def _model(self, x, likelihood, num_outputs, seed) -> BayesianHypernet:
        """The model, not compiled."""
        options = {
            "likelihood": likelihood,
            "prior_stddev": self.prior_stddev,
            "num_examples": len(x),
            "seed": seed,
        }
        hypernet = copied(self.hypernet)
        primary = (self.network or self._perceptron)(x.shape[1], num_outputs)
        if self.normalize_inputs:
            # Inside the model, so that a served one takes the same inputs as `fit`.
            primary = keras.Sequential(
                [keras.layers.Input(x.shape[1:]), *_standardizing(x), primary]
            )
        if any(isinstance(e, RandomLayer) for e in keras_adapter.layers_of(primary)):
            return BayesianHypernet(primary, hypernet, **options)
        return from_keras(primary, hypernet, random=self.random, **options)

    def _perceptron(self, num_features, num_outputs) -> keras.Sequential:
        network = keras.Sequential([keras.layers.Input((num_features,))])
        for units in np.ravel(self.hidden_units).tolist():
            network.add(
                WeightNormDense(units, activation=self.activation, random=self.random)
            )
        network.add(WeightNormDense(num_outputs, random=self.random))
        return network

    def _check_numbers(self):
        for name, least in (("epochs", 1), ("batch_size", 1), ("num_samples", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(
                    f"Expected `{name}` to be a number of at least {least}, got "
                    f"{value!r}."
                )
        rate = self.learning_rate
        if not (isinstance(rate, Real) and 0 < rate < float("inf")):
            raise ValueError(
                f"Expected `learning_rate` to be a number above 0, got {rate!r}."
            )
        share = self.kl_annealing
        if not (isinstance(share, Real) and 0 <= share <= 1):
            raise ValueError(
                "Expected `kl_annealing` to be a share of the epochs between 0 and 1, "
                f"got {share!r}."
            )

    # -- predictions ------------------------------------------------------------------

    def _ask(self, method: str, x, **options):
        """The model's answers, from the same draws in every call."""
        check_is_fitted(self)
        refuse_no_numbers("X", x)
        x = validate_data(self, x, reset=False, dtype="float32")
        options.update(num_samples=self.num_samples, seed=self._seed, verbose=0)
        found = getattr(self.model_, method)(x, **options)
        return keras.tree.map_structure(lambda a: np.asarray(a, "float64"), found)

    def predict_uncertainty(self, X) -> dict:
        """Returns the predictive mean and every score of the likelihood, by name.

        Args:
            X: Rows, [rows, features].

        Returns:
            Arrays by name; see `BayesianHypernet.predict_uncertainty`.
        """
        return self._ask("predict_uncertainty", X)


def copied(part):
    """Returns a fresh instance, so that an argument is never built itself.

    What is no instance, such as a name, is left to the model.
    """
    if isinstance(part, type) or not hasattr(part, "get_config"):
        return part
    return type(part).from_config(part.get_config())


def _standardizing(x: np.ndarray) -> list[keras.layers.Layer]:
    """Layers that standardise their inputs, as they vary in [rows, features]."""
    units = _units(x)
    layer = keras.layers.Normalization(dtype="float32")
    layer.adapt(x / units)
    # Keras divides what does not vary by 1e-7, so that any new value would be millions.
    varies = np.ptp(x, axis=0) > 0
    layer.adapt_variance.assign(np.where(varies, layer.adapt_variance, 1.0))
    layer.finalize_state()
    if (units == 1).all():
        return [layer]
    return [keras.layers.Rescaling((1 / units).tolist(), dtype="float32"), layer]


def _units(x: np.ndarray) -> np.ndarray:
    """Powers of 2 by which features are to be divided before they are standardised.

    Keras divides by 1e-7 at least, and squares of float32 end at 1e38: without units it
    would make a feature in farads, or in joules of a star, all but 0.
    """
    wide = x.astype("float64")
    size = np.abs(wide).max(axis=0)
    is_small = (np.ptp(wide, axis=0) > 0) & (wide.std(axis=0) < 1e-6)
    is_extreme = is_small | (size > 1e15)
    exponent = np.floor(np.log2(np.where(is_extreme, size, 1.0)))
    # So that float32 holds the reciprocal, too.
    return np.exp2(np.clip(exponent, -126, 126)).astype("float32")


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds Keras's initial weights, and restores the generator afterwards."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def _as_float32(name: str, values: np.ndarray) -> np.ndarray:
    """Returns values as networks take them.

    Raises:
        ValueError: If they are too large for that, or would hardly differ any more.
    """
    check_resolution(name, values.reshape(len(values), -1))
    with np.errstate(over="ignore"):
        narrow = values.astype("float32")
    if not np.isfinite(narrow).all():
        raise ValueError(
            f"`{name}` has values too large for float32, in which networks work. Scale "
            "them first."
        )
    return narrow
