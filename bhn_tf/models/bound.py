"""The evidence lower bound: what training a hypernet minimises for each example.

    loss = nll + kl_weight · KL / N + regularization

with `KL = log q(g) - log p(g)` at the joint draw under which the batch is scored: the
bound (paper, section "Bayesian Hypernets") divided by -N. With `kl_weight` 1, the
minimum is the hypernet's best approximation of the posterior.
"""

import contextlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.arguments import check_amount
from bhn_tf.models.num_examples import NumExamples
from bhn_tf.models.objective import MaximumLikelihood
from bhn_tf.models.prior_settings import PriorSettings
from bhn_tf.models.trackers import Trackers


class Elbo(NamedTuple):
    """An estimate of the evidence lower bound, in nats."""

    mean: float
    standard_error: float


class Bound(MaximumLikelihood):
    """The evidence lower bound: N, the prior, the KL and its weight.

    Args:
        prior_stddev, prior_loc, prior: See `PriorSettings`.
        num_examples: N. `None`: each `fit` takes it from its data.

    Attributes:
        examples: `NumExamples`, which knows N.
    """

    def __init__(self, prior_stddev, prior_loc, prior, num_examples):
        super().__init__()
        self.prior_settings = PriorSettings(prior_stddev, prior_loc, prior)
        self._event_size = None
        self.examples = NumExamples(num_examples)
        self._kl_weight = tf.Variable(1.0, trainable=False, dtype=tf.float32)
        self._kept_kl_weight = None

    # -- the equation ---------------------------------------------------------------

    def complexity(self, kl):
        # Without random values (D = 0) the KL is zero, and N may be unknown.
        return tf.math.divide_no_nan(self._kl_weight * kl, self.examples.tensor)

    def kl_of(self, draws):
        ratios = self.log_ratios(draws)
        # A replica without rows has no draws of its own.
        return tf.math.divide_no_nan(
            tf.reduce_sum(ratios), tf.cast(tf.size(ratios), tf.float32)
        )

    def log_ratios(self, draws) -> tf.Tensor:
        """log q(g) - log p(g) of draws, [S], whose mean estimates KL(q ‖ p)."""
        if not self._event_size:
            return tf.zeros_like(draws.log_prob)
        return draws.log_prob - self.prior.log_prob(draws.values)

    @property
    def prior(self) -> tfp.distributions.Distribution:
        """p(g) as a TFP distribution with event shape [D]."""
        return self.prior_settings.distribution

    def set_values(
        self,
        values: list[np.ndarray],
        layer_sizes: list[int],
        are_input_scales: list[bool],
    ) -> None:
        """Fixes the prior, now that the generated values are known.

        Args:
            values: What the variables hold when they become random, in the order of g.
            layer_sizes: How many values each layer takes.
            are_input_scales: Whether each variable multiplies the inputs of its layer.

        Raises:
            ValueError: If the prior is not over D values.
        """
        self._event_size = sum(each.size for each in values)
        self.prior_settings.settle(values, layer_sizes, are_input_scales)

    def estimate(self, log_probs: np.ndarray, draws) -> Elbo:
        """Returns the bound from log p of each row under each draw.

        Args:
            log_probs: [rows, S].
            draws: The S draws.
        """
        log_ratios = self.log_ratios(draws).numpy()
        bounds = log_probs.sum(axis=0, dtype="float64") - log_ratios
        # Without generated values there is one network, and nothing to estimate.
        spread = bounds.std(ddof=1) if len(bounds) > 1 else 0.0
        return Elbo(float(bounds.mean()), float(spread / np.sqrt(len(bounds))))

    def trackers(self, output_names):
        return Trackers(output_names, self.complexity, lambda: self._kl_weight)

    def require_num_examples(self):
        if self._event_size and self.examples.value is None:
            raise ValueError(
                "N, the number of training examples, is not known, and the loss "
                "counts KL / N for each example: call `fit` first, or set "
                "`model.num_examples`."
            )

    # -- saving ---------------------------------------------------------------------

    def get_config(self) -> dict:
        """Returns the constructor's arguments, and if a learned prior is frozen."""
        num_examples = self.examples.value if self.examples.is_given else None
        return {**self.prior_settings.get_config(), "num_examples": num_examples}

    def save_to(self, store) -> None:
        """Saves in a file of variables what was found out about the data and g."""
        self.examples.save_to(store)
        self.prior_settings.save_to(store)

    def load_from(self, store) -> None:
        """Loads what `save_to` has saved."""
        # A running `fit` keeps the N of its own data.
        if not self.is_in_fit:
            self.examples.load_from(store)
        self.prior_settings.load_from(store)

    # -- the weight of the KL -------------------------------------------------------

    @property
    def kl_weight(self) -> float:
        """The annealing weight of the KL; 1 is the evidence lower bound."""
        return float(self._kl_weight.numpy())

    @kl_weight.setter
    def kl_weight(self, value: float):
        self._kl_weight.assign(check_amount("kl_weight", value, may_be_zero=True))

    @property
    def settled_kl_weight(self) -> float:
        """The weight set outside of `fit`, whatever a running `fit` uses now."""
        kept = self._kept_kl_weight
        return self.kl_weight if kept is None else kept

    @property
    def is_in_fit(self) -> bool:
        """Whether a `fit` is running."""
        return self._kept_kl_weight is not None

    @contextlib.contextmanager
    def settings_of_fit(self):
        # A callback may call `fit` itself.
        now, kept = self.kl_weight, self._kept_kl_weight
        self._kept_kl_weight = self.settled_kl_weight
        try:
            yield
        finally:
            self.kl_weight, self._kept_kl_weight = now, kept
