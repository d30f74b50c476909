"""Scores a batch under draws, for training and evaluation steps."""

from typing import NamedTuple

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.data_feeds import unpacked
from bhn_tf.models import replicas


class Batch(NamedTuple):
    """Rows to learn from.

    Attributes:
        x: Inputs.
        y: Labels.
        sample_weight: As given, for rows, elements or each output; or `None`.
        row_weight: Weights of whole rows, [B], or `None`.
        element_weight: Weights of elements or outputs within a row; or `None`. Rows of
            weight 0 have weight 0 here too, since their labels may be anything.
    """

    x: object
    y: object
    sample_weight: object
    row_weight: tf.Tensor | None
    element_weight: object

    @classmethod
    def of(cls, data) -> "Batch":
        """Unpacks the data that Keras passes to a step.

        Raises:
            ValueError: If there are no labels.
        """
        x, y, sample_weight = unpacked(data)
        if y is None:
            raise ValueError(
                "Training and evaluation need labels: give `y`, or a data set of "
                "`(x, y)` or `(x, y, sample_weight)` batches."
            )
        if sample_weight is None or keras.tree.is_nested(sample_weight):
            return cls(x, y, sample_weight, None, sample_weight)
        # It may be Boolean, and in an eager step an array, whose shape has no `rank`.
        weight = tf.cast(sample_weight, tf.float32)
        if weight.shape.rank == 2 and weight.shape[1] == 1:
            weight = weight[:, 0]
        if weight.shape.rank != 1:
            return cls(x, y, sample_weight, None, weight)
        is_counted = tf.cast(weight != 0, tf.float32)
        return cls(x, y, sample_weight, weight, is_counted)

    @property
    def num_rows(self) -> tf.Tensor:
        """B, an integer scalar tensor."""
        first = next(leaf for leaf in keras.tree.flatten(self.x) if leaf is not None)
        return tf.shape(first)[0]

    def weighted(self, values: tf.Tensor) -> tf.Tensor:
        """Multiplies values [B] by the rows' weights; means still divide by B."""
        if self.row_weight is None:
            return values
        return values * tf.cast(self.row_weight, values.dtype)


class BatchScores(NamedTuple):
    """Log-likelihoods, means and losses of a batch under S draws.

    Attributes:
        log_probs: log p(y|x, g) of each row as it is optimised, [S, B], by output
            name; a single output is named "".
        predictive_log_prob: log of each row's probability, averaged over the draws,
            for all outputs together and never clipped, [B]; not computed in training.
        means: The mean of y under each draw, [S, B, ...], in the outputs' structure.
        regularization: The network's own losses under each draw, [S].
        masks: Which elements are not padding, for each output: [B, ...] or `None`.
    """

    log_probs: dict[str, tf.Tensor]
    predictive_log_prob: tf.Tensor
    means: object
    regularization: tf.Tensor
    masks: list

    def nll(self, name: str) -> tf.Tensor:
        """-log p of an output, averaged over the draws, [B]."""
        return -tf.reduce_mean(self.log_probs[name], axis=0)

    def mean(self):
        """The predictive mean, with Keras's mask, as compiled metrics take it."""
        mean = keras.tree.map_structure(lambda t: tf.reduce_mean(t, axis=0), self.means)
        leaves = [
            keras_adapter.with_mask(leaf, mask)
            for leaf, mask in zip(keras.tree.flatten(mean), self.masks, strict=True)
        ]
        return keras.tree.pack_sequence_as(mean, leaves)


def score_batch(posterior, likelihood, outputs, batch, values, training: bool):
    """Scores a batch under draws.

    On a replica without rows, statistics of rows stay as they are.

    Args:
        posterior: A `draws.Posterior`.
        likelihood: p(y|x, g), resolved for the network.
        outputs: A `RawOutputs`.
        batch: A `Batch`.
        values: `Draws.values`.
        training: Whether dropout and batch normalisation run in training mode.

    Returns:
        `BatchScores`.
    """
    names = likelihood.output_names or ("",)

    def score(raw, losses):
        masks = outputs.masks_of(raw)
        outputs.has_losses |= bool(losses)
        arguments = batch.y, raw, batch.element_weight, outputs.for_likelihood(masks)
        named = likelihood.named_log_probs(*arguments)
        results = (
            named or {"": likelihood.log_prob(*arguments)},
            # Reported only by evaluation.
            tf.zeros([]) if training else likelihood.measured_log_prob(*arguments),
            # No loss reads it, but XLA would compile its gradient, which is zero, and
            # cannot where batches differ in size.
            keras.tree.map_structure(tf.stop_gradient, likelihood.mean(raw)),
            tf.add_n([tf.cast(loss, tf.float32) for loss in losses] or [0.0]),
        )
        results = keras.tree.map_structure(outputs.as_result, results)
        return *results, [mask for mask in masks if mask is not None]

    dtype = outputs.dtype
    dtypes = (
        dict.fromkeys(names, dtype),
        dtype,
        keras.tree.map_structure(lambda _: dtype, outputs.spec),
        dtype,
        [tf.bool] * outputs.num_masked,
    )
    statistics = [
        variable
        for network in posterior.networks
        for variable in keras_adapter.statistics_of_rows(network, training)
    ]
    with replicas.kept_without_rows(statistics, batch.num_rows):
        log_probs, measured, means, losses, masks = posterior.over_draws(
            score, batch.x, values, training, dtypes
        )
    return BatchScores(
        log_probs,
        measured if training else likelihood.predictive_log_prob(measured),
        means,
        losses,
        outputs.unpacked_masks([mask[0] for mask in masks]),
    )
