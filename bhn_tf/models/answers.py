"""Computes answers from the raw outputs under S draws.

`p(y|x, D) ≈ 1/S Σ_s p(y|x, g_s)`, `g_s ~ q(g)` (paper, equation of the predictive
posterior): probabilities are averaged, not logits.
"""

import math

import keras
import tensorflow as tf

from bhn_tf.keras_adapter import DEFAULT_BATCH_SIZE

# Most numbers in a batch's samples: 16 MB, of which scores need several copies.
_MOST_SAMPLES = 2**22


class Answers:
    """The answers of a model under draws.

    Args:
        posterior: A `draws.Posterior`.
        likelihood: p(y|x, g), resolved for the network.
        outputs: A `RawOutputs`.
    """

    def __init__(self, posterior, likelihood, outputs):
        self._posterior = posterior
        self._likelihood = likelihood
        self._outputs = outputs

    def raws(self, x, values):
        """Returns raw outputs under every draw, in float32 or better.

        Args:
            x: Inputs, rows first.
            values: `Draws.values`.

        Returns:
            Raw outputs [S, B, ...] in the outputs' structure, and the outputs' masks.
        """
        outputs = self._outputs

        def of_one(raw, _):
            masks = [mask for mask in outputs.masks_of(raw) if mask is not None]
            return keras.tree.map_structure(outputs.as_result, raw), masks

        dtypes = (
            keras.tree.map_structure(lambda _: outputs.dtype, outputs.spec),
            [tf.bool] * outputs.num_masked,
        )
        raws, masks = self._posterior.over_draws(of_one, x, values, False, dtypes)
        masks = outputs.unpacked_masks([mask[0] for mask in masks])
        return _nan_where_unknown(raws, x, outputs.dtype), outputs.for_likelihood(masks)

    def mean(self, x, values):
        """The predictive mean, [B, C]."""
        raws, _ = self.raws(x, values)
        means = self._likelihood.mean(raws)
        return keras.tree.map_structure(lambda t: tf.reduce_mean(t, axis=0), means)

    def samples(self, x, values):
        """The mean of y under each draw, rows first, [B, S, ...]."""
        raws, _ = self.raws(x, values)
        return keras.tree.map_structure(
            lambda t: tf.experimental.numpy.moveaxis(t, 0, 1),
            self._likelihood.mean(raws),
        )

    def uncertainty(self, x, values):
        """The predictive mean and every score of the likelihood."""
        return self._likelihood.summarize(*self.raws(x, values))

    def interval(self, x, values, level):
        """Bounds of a central interval of y."""
        raws, _ = self.raws(x, values)
        return self._likelihood.interval(raws, level)

    def log_probs(self, x_and_y, values):
        """log p(y|x, g) of each row under every draw, never clipped, [B, S]."""
        x, y = x_and_y
        outputs = self._outputs

        def of_one(raw, _):
            mask = outputs.for_likelihood(outputs.masks_of(raw))
            return outputs.as_result(
                self._likelihood.measured_log_prob(y, raw, mask=mask)
            )

        log_probs = self._posterior.over_draws(of_one, x, values, False, outputs.dtype)
        return tf.transpose(log_probs)

    def rows_at_a_time(self, batch_size, num_draws: int) -> int:
        """Returns a batch size that bounds the samples of a batch, [B, S, C].

        The batch size affects only memory, never the answers.
        """
        asked = batch_size or DEFAULT_BATCH_SIZE
        samples_of_row = self._outputs.largest_row() * num_draws
        return max(min(asked, _MOST_SAMPLES // samples_of_row), 1)

    def batches_of_arrays(self, batch_size, steps, num_draws: int) -> tuple:
        """Returns the batch size, the number of batches and the number of rows.

        The rows are those of `steps` batches of the requested size; smaller batches
        cover them in more steps. Both numbers are `None` for all rows.
        """
        size = self.rows_at_a_time(batch_size, num_draws)
        if steps is None:
            return size, None, None
        num_rows = steps * (batch_size or DEFAULT_BATCH_SIZE)
        return size, math.ceil(num_rows / size), num_rows


def _nan_where_unknown(raws, x, dtype):
    """Replaces the outputs of rows with NaN or infinite inputs, also once cast, by NaN.

    ReLU and pooling can turn NaN into a number, and a saturated tanh infinity: the
    answer would be confident although the input is unknown.
    """
    # A float64 input may overflow in the dtype that the network computes with.
    most = dtype.max if dtype == tf.float64 else tf.float32.max
    # A comparison, because LiteRT lacks `is_finite`.
    known = [
        tf.reduce_all(
            tf.abs(leaf) <= min(most, leaf.dtype.max),
            axis=list(range(1, len(leaf.shape))),
        )
        for leaf in keras.tree.flatten(x)
        if isinstance(leaf, tf.Tensor | tf.Variable) and leaf.dtype.is_floating
    ]
    if not known:
        return raws
    is_known = tf.reduce_all(tf.stack(known), axis=0)
    return keras.tree.map_structure(
        lambda raw: tf.where(
            tf.reshape(is_known, [1, -1] + [1] * (len(raw.shape) - 2)),
            raw,
            tf.constant(math.nan, raw.dtype),
        ),
        raws,
    )
