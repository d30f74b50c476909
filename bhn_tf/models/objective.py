"""What training minimises for each example if there is no prior.

    loss = nll + regularization

with `nll = -Σ_b w_b log p(y_b|x_b, g) / B` over the rows of a batch.
"""

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf

from bhn_tf.models import replicas
from bhn_tf.models.trackers import Terms, Trackers


class MaximumLikelihood:
    """`loss = nll + regularization`: an objective without a prior."""

    def __init__(self):
        self.loss_weights = [1.0]

    # -- the equation ---------------------------------------------------------------

    def complexity(self, kl) -> tf.Tensor:
        """Each example's share of the KL."""
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
            training: Whether to leave out the predictive likelihood.
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

        Gradients are later summed over replicas. Hence each row is divided by the rows
        of all replicas, and terms of the whole model by the number of replicas that
        have rows.

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
        """Restores the settings at the end, whatever callbacks have set."""
        yield
