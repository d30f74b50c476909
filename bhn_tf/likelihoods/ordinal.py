"""The likelihood of ordered classes."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.likelihoods.classification import Categorical
from bhn_tf.likelihoods.likelihood import (
    Likelihood,
    at_least_float32,
    config_of_learned,
)


@keras.saving.register_keras_serializable("bhn_tf")
class Ordinal(Likelihood, keras.layers.Layer):
    """Ordered classes (grades, stages, stars) from one output: the cumulative logit.

    `P(y <= k) = sigmoid(c_k - raw)` with K - 1 ascending cut points c (McCullagh,
    "Regression models for ordinal data", 1980): the larger the output, the higher the
    class. They start where an output of 0 makes all classes equally likely. Mean and
    scores are those of class probabilities, as in `Categorical`.

    Labels are class numbers [B] (or [B, 1], or one-hot [B, K]) for raw outputs [B, 1];
    for several targets [B, ..., C], class numbers [B, ..., C].

    Args:
        num_classes: Number K of classes; 5 by default, common in questionnaires.
        trainable: Whether the cut points are learned; otherwise the network has to
            place its outputs between fixed ones.
        reduction: "sum" or "mean" over the elements of an example.

    Example:
    ```python
    likelihood = bhn_tf.likelihoods.Ordinal(num_classes=4)
    likelihood.mean([[0.0]])  # [[0.25, 0.25, 0.25, 0.25]]
    ```
    """

    is_of_classes = True

    def __init__(
        self,
        num_classes: int = 5,
        trainable: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        num_classes = check_count("num_classes", num_classes, minimum=2)
        super().__init__(reduction, **{**kwargs, "dtype": "float32"})
        self.num_classes = num_classes
        self._is_learned = trainable
        self._classes = Categorical(from_logits=True, reduction=reduction)
        shares = np.arange(1, num_classes) / num_classes
        cuts = np.log(shares / (1 - shares)).astype("float32")
        self.first_cut = self.add_weight(
            name="first_cut",
            shape=(),
            initializer=keras.initializers.Constant(cuts[0]),
            trainable=trainable,
        )
        # Logarithms of the distances, so that the cut points stay in order.
        distances = tf.math.log(tf.constant(np.diff(cuts)))
        self.log_distances = self.add_weight(
            name="log_distances",
            shape=(num_classes - 2,),
            initializer=lambda shape, dtype: tf.cast(distances, dtype),
            trainable=trainable,
        )
        self.built = True

    def cut_points(self) -> tf.Tensor:
        """The ascending cut points, [K - 1]."""
        distances = tf.exp(tf.convert_to_tensor(self.log_distances))
        steps = tf.concat([tf.zeros([1]), tf.cumsum(distances)], axis=0)
        return tf.convert_to_tensor(self.first_cut) + steps

    def logits(self, raw) -> tf.Tensor:
        """Normalised log-probabilities of the classes, [B, ..., K].

        For several targets [B, ..., C, K]; a single target has no axis.
        """
        raw = at_least_float32(raw)
        cuts = tf.cast(self.cut_points(), raw.dtype)
        # sigmoid(b) - sigmoid(a) = sigmoid(b) · sigmoid(-a) · (1 - exp(a - b)): no
        # difference of numbers that round to 1.
        distances = tf.cast(tf.exp(tf.convert_to_tensor(self.log_distances)), raw.dtype)
        gaps = tf.concat(
            [tf.zeros([1], raw.dtype), tf.math.log(-tf.math.expm1(-distances))], axis=0
        )
        gaps = tf.concat([gaps, tf.zeros([1], raw.dtype)], axis=0)
        behind = cuts - raw[..., None]
        nothing = tf.zeros_like(behind[..., :1])
        below = tf.concat([tf.math.log_sigmoid(behind), nothing], axis=-1)
        above = tf.concat([nothing, tf.math.log_sigmoid(-behind)], axis=-1)
        logits = below + above + gaps
        return logits[..., 0, :] if raw.shape[-1] == 1 else logits

    def _logits_shape(self, raw_shape):
        leading = raw_shape[:-1] if raw_shape[-1] == 1 else raw_shape
        return (*leading, self.num_classes)

    def element_shape(self, raw_shape):
        return self._classes.element_shape(self._logits_shape(raw_shape))

    def coded_labels(self, y, raw_shape):
        return self._classes.coded_labels(y, self._logits_shape(raw_shape))

    def valid_elements(self, y, raw_shape):
        return self._classes.valid_elements(y, self._logits_shape(raw_shape))

    def element_log_prob(self, y, raw):
        return self._classes.element_log_prob(y, self.logits(raw))

    def mean(self, raw):
        """Class probabilities, [B, ..., K]."""
        return self._classes.mean(self.logits(raw))

    def summarize(self, raws, mask=None):
        return self._classes.summarize(self.logits(raws), mask)

    def interval(self, raws, level):
        """Lowest and highest class number of the central interval, [B, ...] each."""
        reached = tf.cumsum(tf.reduce_mean(self.mean(raws), axis=0), axis=-1)
        tail = (1.0 - tf.cast(level, reached.dtype)) / 2.0

        def quantile(probability):
            # The last class is always reached, even if the sum rounds below 1.
            below = tf.cast(reached[..., :-1] < probability, reached.dtype)
            number, total = tf.reduce_sum(below, axis=-1), reached[..., -1]
            # NaN is below nothing, which would be class 0.
            return tf.where(tf.math.is_nan(total), total, number)

        return quantile(tail), quantile(1.0 - tail)

    def label_advice(self, raw_shape):
        return (
            f"give class numbers from 0 to {self.num_classes - 1}, for that is what "
            f"`Ordinal(num_classes={self.num_classes})` was made for."
        )

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            **config_of_learned(self, self._is_learned),
        }
