r"""The objective: what training minimises for each example.

    loss = nll + kl_weight · KL / N + regularization

`nll = -Σ_b w_b log p(y_b|x_b, g) / B` over the rows of a batch, and
`KL = log q(g) - log p(g)` at the same joint draw: the evidence lower bound (paper,
section "Bayesian Hypernets"), divided by -N. With `kl_weight` 1 its minimum is the
posterior's best approximation among the hypernet's distributions.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf.arguments import check_count
from bhn_tf.models import replicas
from bhn_tf.models.prior_settings import PriorSettings
from bhn_tf.models.trackers import Terms, Trackers


class Elbo(NamedTuple):
    """An estimate of the evidence lower bound, in nats."""

    mean: float
    standard_error: float


class MaximumLikelihood:
    """`loss = nll + regularization`: an objective without a prior."""

    def __init__(self):
        self.loss_weights = [1.0]

    # -- the equation ---------------------------------------------------------------

    def complexity(self, kl) -> tf.Tensor:
        """The share of each example in the KL."""
        return tf.zeros([])

    def kl_of(self, draws) -> tf.Tensor | None:
        """The KL of q from the prior, estimated at draws."""
        return None

    def terms(self, scores, batch, draws, training: bool) -> Terms:
        """Returns the terms of the loss.

        Args:
            scores: `BatchScores` of the batch.
            batch: The `Batch`.
            draws: The `Draws` under which it was scored.
            training: Whether the predictive likelihood may be left out.
        """
        named = {name: batch.weighted(scores.nll(name)) for name in scores.log_probs}
        weighted = [
            nll if weight == 1.0 else weight * nll
            for weight, nll in zip(self.loss_weights, named.values(), strict=True)
        ]
        return Terms(
            nll=tf.add_n(weighted),
            named_nll={name: nll for name, nll in named.items() if name},
            predictive_nll=None
            if training
            else batch.weighted(-scores.predictive_log_prob),
            kl=self.kl_of(draws),
            regularization=tf.reduce_mean(scores.regularization),
        )

    def gradients(self, score: Callable, variables, scale: Callable):
        """Scores a batch and differentiates its loss.

        Gradients are summed over replicas: rows count once each, among all rows of all
        replicas, and terms of the whole model are divided among the replicas that have
        rows.

        Args:
            score: Returns the batch, its draws and its scores.
            variables: What is trained.
            scale: Scales the loss, for the optimizer's half precision.

        Returns:
            The batch, its scores, the terms of its loss, and the gradients.
        """
        with tf.GradientTape() as tape:
            batch, draws, scores = score()
            terms = self.terms(scores, batch, draws, training=True)
            num_rows = batch.num_rows
            all_rows = replicas.sum_over_replicas(num_rows)
            num_active = replicas.sum_over_replicas(tf.cast(num_rows > 0, tf.int32))
            dtype = terms.nll.dtype
            shared = terms.regularization
            if terms.kl is not None:
                shared += tf.cast(self.complexity(terms.kl), dtype)
            loss = tf.reduce_sum(terms.nll) / tf.cast(all_rows, dtype)
            loss += shared / tf.cast(num_active, dtype)
            scaled = scale(loss)
        gradients = tape.gradient(scaled, variables)
        return batch, scores, terms, replicas.zero_without_rows(gradients, num_rows)

    def trackers(self, output_names) -> Trackers:
        """Returns the trackers of the terms' means over examples."""
        return Trackers(output_names, self.complexity)

    # -- settings -------------------------------------------------------------------

    def require_num_examples(self) -> None:
        """Raises `ValueError` where N matters and is not known."""

    @contextlib.contextmanager
    def settings_of_fit(self) -> Iterator[None]:
        """Ends with the settings as they were before, whatever callbacks have set."""
        yield


class Bound(MaximumLikelihood):
    """The evidence lower bound: N, the prior, the KL and its weight.

    Args:
        prior_stddev, prior_loc, prior: See `PriorSettings`.
        num_examples: N. `None`: each `fit` learns it from its data.
    """

    def __init__(self, prior_stddev, prior_loc, prior, num_examples):
        super().__init__()
        self.prior_settings = PriorSettings(prior_stddev, prior_loc, prior)
        self._event_size = None
        self._num_examples = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._kl_weight = tf.Variable(1.0, trainable=False, dtype=tf.float32)
        self._kept_kl_weight = None
        self.num_examples_is_given = num_examples is not None
        #: How many examples the last `fit` has counted; `None` where it could not.
        self.counted_examples: int | None = None
        if num_examples is not None:
            self.num_examples = num_examples

    # -- the equation ---------------------------------------------------------------

    def complexity(self, kl):
        # Without random values (D = 0) the KL is zero, and N may be unknown.
        return tf.math.divide_no_nan(
            self._kl_weight * kl, tf.cast(self._num_examples, tf.float32)
        )

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
        """Tells what is generated, and settles the prior of it.

        Args:
            values: What the variables hold when they become random, in the order of g.
            layer_sizes: How many of them each layer takes.
            are_input_scales: Whether a variable multiplies the inputs of its layer.

        Raises:
            ValueError: If the prior is not over D values.
        """
        self._event_size = sum(each.size for each in values)
        self.prior_settings.settle(values, layer_sizes, are_input_scales)

    def estimate(self, log_probs: np.ndarray, draws) -> Elbo:
        """Returns the bound of data, from log p of each row under each draw.

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

    # -- N --------------------------------------------------------------------------

    @property
    def num_examples(self) -> int | None:
        """N, or `None` while it is not known."""
        return int(self._num_examples.numpy()) or None

    @num_examples.setter
    def num_examples(self, value: int):
        check_count("num_examples", value, minimum=1)
        self._num_examples.assign(value)

    def require_num_examples(self):
        if self._event_size and self.num_examples is None:
            raise ValueError(
                "N, the number of training examples, is not known, and the loss "
                "counts KL / N for each example: call `fit` first, or set "
                "`model.num_examples`."
            )

    # -- the weight of the KL -------------------------------------------------------

    @property
    def kl_weight(self) -> float:
        """The annealing weight of the KL; 1 is the evidence lower bound."""
        return float(self._kl_weight.numpy())

    @kl_weight.setter
    def kl_weight(self, value: float):
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(
                f"Expected `kl_weight` to be a number of at least 0, got {value!r}."
            )
        self._kl_weight.assign(value)

    @property
    def settled_kl_weight(self) -> float:
        """The weight that was set outside of `fit`, not that of a moment in it."""
        kept = self._kept_kl_weight
        return self.kl_weight if kept is None else kept

    @property
    def is_in_fit(self) -> bool:
        """Whether a `fit` is running."""
        return self._kept_kl_weight is not None

    @contextlib.contextmanager
    def settings_of_fit(self):
        # A callback of one `fit` may have another in it.
        now, kept = self.kl_weight, self._kept_kl_weight
        self._kept_kl_weight = self.settled_kl_weight
        try:
            yield
        finally:
            self.kl_weight, self._kept_kl_weight = now, kept
