"""Labels as the metrics of `compile` take them."""

import keras
import tensorflow as tf


class MetricLabels:
    """Keeps labels in the coding that the compiled metrics saw first.

    With its first batch, Keras's "accuracy" decides for good whether labels are class
    numbers or one-hot rows; likelihoods take both at any time.
    """

    def __init__(self):
        self._are_one_hot: list[bool] | None = None

    def forget(self) -> None:
        """Lets the next labels decide the coding, for metrics that are new."""
        self._are_one_hot = None

    def of(self, likelihood, y, y_pred):
        """Returns labels in the outputs' structure and in the metrics' coding.

        Args:
            likelihood: The model's.
            y: Labels as they were given.
            y_pred: Predicted means, in the outputs' structure.
        """
        labels = likelihood.as_outputs(y, y_pred)
        pairs = list(
            zip(keras.tree.flatten(labels), keras.tree.flatten(y_pred), strict=True)
        )
        are_one_hot = [_is_one_hot(*pair) for pair in pairs]
        if self._are_one_hot is None:
            self._are_one_hot = are_one_hot
        recoded = [
            _recoded(*pair, wanted)
            if part.is_of_classes and is_one_hot != wanted
            else pair[0]
            for part, pair, is_one_hot, wanted in zip(
                likelihood.parts_of_outputs(),
                pairs,
                are_one_hot,
                self._are_one_hot,
                strict=True,
            )
        ]
        return keras.tree.pack_sequence_as(labels, recoded)


def _is_one_hot(y, y_pred) -> bool:
    return len(y.shape) == len(y_pred.shape) and y.shape[-1] == y_pred.shape[-1] != 1


def _recoded(y, y_pred, to_one_hot: bool) -> tf.Tensor:
    if not to_one_hot:
        return tf.argmax(y, axis=-1)
    numbers = y[..., 0] if len(y.shape) == len(y_pred.shape) else y
    return tf.one_hot(tf.cast(numbers, tf.int32), y_pred.shape[-1])
