"""The evidence lower bound: N, the KL and its weight."""

import contextlib
import warnings
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf import priors
from bhn_tf.arguments import check_count
from bhn_tf.data_feeds.num_examples import count_examples, num_rows
from bhn_tf.models.predictive_model import PredictiveModel
from bhn_tf.models.trackers import Derived, mean_tracker

tfd = tfp.distributions


class Elbo(NamedTuple):
    """An estimate of the evidence lower bound, in nats."""

    mean: float
    standard_error: float


class BoundedModel(PredictiveModel):
    """A predictive model with a posterior over D values, trained on the bound.

    For each example, `nll + kl_weight · KL / N` is minimised (paper, equation of the
    ELBO, divided by -N).

    Args:
        likelihood: p(y|x, g), a name or an instance.
        prior_stddev: Standard deviation of the Gaussian prior p(g).
        prior_loc: Mean of the prior, a number or D numbers; `None` is zero.
        prior: Another prior, a TFP distribution over one number or over D.
        num_examples: N. `None`: each `fit` learns it from its data.
    """

    def __init__(
        self, likelihood, prior_stddev, prior_loc, prior, num_examples, **kwargs
    ):
        super().__init__(likelihood, **kwargs)
        if not (prior_stddev > 0 and np.isfinite(prior_stddev)):
            raise ValueError(
                "Expected `prior_stddev` to be a positive number, "
                f"got {prior_stddev!r}."
            )
        if prior_loc is not None and not np.isfinite(np.asarray(prior_loc)).all():
            raise ValueError(
                "Expected `prior_loc` to be a number or D numbers, all finite, "
                f"got {prior_loc!r}."
            )
        self.prior_stddev = float(prior_stddev)
        self.prior_loc = None if prior_loc is None else np.asarray(prior_loc).tolist()
        self._given_prior = priors.deserialize(prior)
        self._num_examples = self._state("num_examples", "int64", 0)
        self._kl_weight = self._state("kl_weight", "float32", 1.0)
        self._num_examples_is_given = False
        if num_examples is not None:
            self.num_examples = num_examples
        self._kl = mean_tracker("kl")
        self._logged_kl_weight = Derived("kl_weight", lambda: self._kl_weight.value)

    def _state(self, name, dtype, value):
        """A number that is saved with the model and changes without a new trace."""
        return self.add_weight(
            name=name,
            shape=(),
            dtype=dtype,
            initializer=keras.initializers.Constant(value),
            trainable=False,
            autocast=False,
        )

    # -- numbers of the bound -------------------------------------------------------

    @property
    def num_examples(self) -> int | None:
        """N, the number of training examples, or `None` while it is not known."""
        return int(keras.ops.convert_to_numpy(self._num_examples)) or None

    @num_examples.setter
    def num_examples(self, value: int):
        check_count("num_examples", value, minimum=1)
        self._num_examples.assign(value)
        self._num_examples_is_given = True

    @property
    def kl_weight(self) -> float:
        """The annealing weight of the KL; 1 is the evidence lower bound."""
        return float(keras.ops.convert_to_numpy(self._kl_weight))

    @kl_weight.setter
    def kl_weight(self, value: float):
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(
                f"Expected `kl_weight` to be a number of at least 0, got {value!r}."
            )
        self._kl_weight.assign(value)

    @property
    def prior(self) -> tfd.Distribution:
        """p(g) as a TFP distribution with event shape [D]."""
        if self._given_prior is not None:
            return priors.over_values(self._given_prior, self.num_random)
        return priors.gaussian(self.num_random, self.prior_loc, self.prior_stddev)

    def elbo(
        self, x, y, num_samples: int = 100, batch_size=None, seed: int | None = None
    ) -> Elbo:
        """Estimates the evidence lower bound of data, to compare hypernets by.

        `E_q[Σ_n log p(y_n|x_n, g) - log q(g) + log p(g)]`: a lower bound of the log
        evidence where (x, y) are the training data. The KL has its full weight.

        Args:
            x, y: Arrays of inputs and labels, all N of them.
            num_samples: S, draws of g.
            batch_size: Rows scored at a time.
            seed: A non-negative integer for the same draws every time.

        Returns:
            `Elbo(mean, standard_error)` in nats.

        Example:
        ```python
        bound = model.elbo(x, y, num_samples=1000)
        print(f"{bound.mean:.1f} ± {bound.standard_error:.1f} nats")
        ```
        """
        check_count("num_samples", num_samples, minimum=2)
        self._build_from_data(x)
        self._checked(x, y, None)
        # A list would be taken for one tensor.
        arrays = keras.tree.lists_to_tuples((x, y))
        batches = tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size or 32)
        with self._answering("log_probs", batches, num_samples, seed):
            log_probs = keras.Model.predict(self, batches, verbose=0)
        log_ratios = self._log_ratios_of_draws.numpy()
        bounds = log_probs.sum(axis=0, dtype="float64") - log_ratios
        # Without generated values there is one network, and nothing to estimate.
        spread = bounds.std(ddof=1) if len(bounds) > 1 else 0.0
        return Elbo(float(bounds.mean()), float(spread / np.sqrt(len(bounds))))

    def _log_ratios(self, values, log_prob):
        """log q(g) - log p(g) of draws g [S, D], whose mean estimates KL(q ‖ p)."""
        return log_prob - self.prior.log_prob(values)

    # -- training -------------------------------------------------------------------

    def compile(
        self,
        optimizer="rmsprop",
        metrics=None,
        weighted_metrics=None,
        loss_weights=None,
        *,
        kl_weight: float = 1.0,
        train_samples: int = 1,
        per_example_noise: bool = False,
        eval_samples: int = 8,
        **kwargs,
    ):
        """Configures training, as in Keras, with what the bound adds.

        Args:
            optimizer, metrics, weighted_metrics, loss_weights: As in Keras; metrics
                get labels and predicted means.
            kl_weight: Weight of the KL; see `bhn_tf.callbacks.KLAnnealing`.
            train_samples: Draws of g for each training step.
            per_example_noise: Whether every row of a batch has a draw of its own.
            eval_samples: S of `evaluate` and of validation; 0 for the centre.
            **kwargs: `run_eagerly`, `steps_per_execution`, `jit_compile`,
                `auto_scale_loss`, as in Keras.

        Raises:
            ValueError: If a value makes no sense or `loss` is given.
        """
        check_count("train_samples", train_samples, minimum=1)
        super().compile(
            optimizer,
            metrics,
            weighted_metrics,
            loss_weights,
            eval_samples=eval_samples,
            **kwargs,
        )
        self.kl_weight = kl_weight
        self.train_samples = train_samples
        self.per_example_noise = bool(per_example_noise)

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config.update(
                kl_weight=self.kl_weight,
                train_samples=self.train_samples,
                per_example_noise=self.per_example_noise,
            )
        return config

    def _complexity(self, kl):
        # Without random values (D = 0) the KL is zero, and N may be unknown.
        return tf.math.divide_no_nan(
            self._kl_weight.value * kl, tf.cast(self._num_examples, tf.float32)
        )

    def _track_draws(self, kl, rows):
        self._kl.update_state(tf.fill([rows], kl))

    def _logged_complexity(self):
        return self._complexity(self._kl.result())

    def _learn_num_examples(self, x, validation_split, verbose):
        if not self._num_examples_is_given:
            announce = print if verbose else lambda message: None
            self._num_examples.assign(count_examples(x, validation_split, announce))
        elif num_rows(x) is not None:
            counted = count_examples(x, validation_split)
            if counted != self.num_examples:
                warnings.warn(
                    f"`num_examples` is {self.num_examples}, but `fit` trains on "
                    f"{counted} examples: the KL is weighted by the given number.",
                    stacklevel=4,
                )

    def _require_num_examples(self):
        if self.num_random and self.num_examples is None:
            raise ValueError(
                "N, the number of training examples, is not known, and the loss "
                "counts KL / N for each example: call `fit` first, or set "
                "`model.num_examples`."
            )

    def train_on_batch(self, x, *args, **kwargs):
        self._build_from_data(x)
        self._require_num_examples()
        return super().train_on_batch(x, *args, **kwargs)

    @contextlib.contextmanager
    def _evaluation(self, num_samples, seed):
        self._require_num_examples()
        with super()._evaluation(num_samples, seed):
            yield
