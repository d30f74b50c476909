"""Updates the metrics of `compile`, with harmless labels where labels do not count.

A label of weight 0, or under a mask, may be anything, and 0 times NaN is NaN: if it has
no meaning, another one replaces it. Labels with a meaning stay, so that all numbers are
those of stock Keras. Only what `Categorical(ignore_class=)` takes for missing is
padding here, as in the likelihood; stock Keras counts it as wrong.
"""

import functools

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.likelihoods.elements import both

# Functions that average over the last axis; each of its elements has its own value.
_OF_ELEMENTS = (
    keras.losses.binary_crossentropy,
    keras.losses.binary_focal_crossentropy,
    keras.losses.hinge,
    keras.losses.huber,
    keras.losses.log_cosh,
    keras.losses.mean_absolute_error,
    keras.losses.mean_absolute_percentage_error,
    keras.losses.mean_squared_error,
    keras.losses.mean_squared_logarithmic_error,
    keras.losses.poisson,
    keras.losses.squared_hinge,
)


def update_metrics(compiled, likelihood, raw_shapes, y, y_pred, sample_weight) -> None:
    """Updates the metrics of `compile` with a batch.

    Args:
        compiled: Keras's object that holds all metrics of `compile`.
        likelihood: The model's.
        raw_shapes: Shape of the raw outputs, or a list of them, rows first.
        y: Labels in the outputs' structure.
        y_pred: Predicted means in that structure, with Keras's masks.
        sample_weight: As given: for rows, elements or each output; or `None`.
    """
    if not compiled.built:
        compiled.build(y, y_pred)
    outputs = [
        _Output(*of_output)
        for of_output in zip(
            likelihood.parts_of_outputs(),
            raw_shapes if likelihood.output_names else [raw_shapes],
            keras.tree.flatten(y),
            keras.tree.flatten(y_pred),
            likelihood.weights_of_outputs(sample_weight),
            strict=True,
        )
    ]
    outputs = keras.tree.pack_sequence_as(y_pred, outputs)
    for unweighted, weighted, output in keras_adapter.compiled_metrics(
        compiled, outputs
    ):
        for metric in unweighted:
            output.seen_by(metric).update_unweighted(metric)
        for metric in weighted:
            output.seen_by(metric).update_weighted(metric)


class _Output:
    """Labels, predictions and weights of one output."""

    def __init__(self, likelihood, raw_shape, y, y_pred, weight):
        self._likelihood, self._raw_shape = likelihood, (None, *raw_shape[1:])
        self._y, self._y_pred, self._weight = y, y_pred, weight
        self._mask = keras_adapter.mask_of(y_pred)

    def seen_by(self, metric):
        """The output in which missing labels are padding, as for the likelihood."""
        part, shape = self._likelihood, self._raw_shape
        if getattr(part, "ignore_class", None) is None:
            return self
        y, y_pred = tf.convert_to_tensor(self._y), self._y_pred
        has_label = part.has_label(part.coded_labels(y, shape), shape)
        if has_label is None:
            return self
        function = keras_adapter.averaged_function(metric)
        if function is not None:
            y = tf.where(_with_rank(has_label, len(y.shape)), y, tf.zeros_like(y))
            rank = tf.convert_to_tensor(function(y, y_pred)).shape.rank
            if rank is not None and rank < len(shape) - 1:
                # No mask fits values of rows or batches, such as overlaps of images.
                return self
        mask = both(part.counted_elements(shape, None, self._mask), has_label)
        y_pred = keras_adapter.with_mask(tf.identity(y_pred), mask)
        return _Output(part, shape, y, y_pred, self._weight)

    def update_unweighted(self, metric) -> None:
        """Updates a metric of `metrics`."""
        y = self._of_rank(metric, self._labels, None)
        keras_adapter.update_without_weights(metric, y, self._y_pred)

    # Of all metrics of a kind, once.

    @functools.cached_property
    def _labels(self):
        return self._with_meaning(None)

    @functools.cached_property
    def _weighted_labels(self):
        return self._with_meaning(self._weight)

    def _with_meaning(self, weight):
        """Labels, in which those that neither count nor have a meaning are replaced."""
        part, shape = self._likelihood, self._raw_shape
        counted = part.counted_elements(shape, weight, self._mask)
        if counted is None:
            return self._y
        y = tf.convert_to_tensor(self._y)
        coded = part.coded_labels(y, shape)
        kept = counted | part.valid_elements(coded, shape)
        has_label = part.has_label(coded, shape)
        if has_label is not None:
            # Metrics such as `MeanIoU` understand the number for a missing label.
            kept |= ~has_label
        # The prediction is a valid number, and 0 a valid class.
        other = tf.zeros_like(y) if part.is_of_classes else self._y_pred
        kept, other = (_with_rank(values, len(y.shape)) for values in (kept, other))
        return tf.where(kept, y, tf.cast(other, y.dtype))

    def _of_rank(self, metric, y, weight):
        """Labels [B, T] with the axis of predictions [B, T, 1], if elements count.

        Without it, Keras's means are over T before masks and weights of T arrive.
        """
        y_pred = self._y_pred
        lacks_axis = len(y.shape) == len(y_pred.shape) - 1 and y_pred.shape[-1] == 1
        is_mean = keras_adapter.averaged_function(metric) is not None
        of_elements = _is_of_elements(self._mask) or _is_of_elements(weight)
        return y[..., None] if lacks_axis and is_mean and of_elements else y

    def update_weighted(self, metric) -> None:
        """Updates a metric of `weighted_metrics`."""
        y_pred, weight = self._y_pred, self._weight
        y = self._of_rank(metric, self._weighted_labels, weight)
        is_mean = keras_adapter.averaged_function(metric) is not None
        if is_mean and self._mask is not None and weight is not None:
            # Keras multiplies masks and weights as they are: they need one rank.
            axes = max(len(weight.shape), len(self._mask.shape))
            weight = _with_rank(weight, axes)
        if self._loses_weighted_axis(metric, y):
            if not _has_values_of_elements(metric):
                raise ValueError(
                    f"`weighted_metrics` has {metric.name!r}, which is a "
                    f"{type(metric).__name__} here and has no value for each of the "
                    "elements that `sample_weight`, of shape "
                    f"{tuple(self._weight.shape)}, weighs. Give it in `metrics`, or "
                    "weights of rows. For answers of yes or no, 'binary_accuracy' has "
                    "such values."
                )
            mask = None if self._mask is None else self._mask[..., None]
            # Over an added axis of 1, the metric's mean is the element itself.
            y, y_pred = y[..., None], keras_adapter.with_mask(y_pred[..., None], mask)
        if weight is None:
            keras_adapter.update_without_weights(metric, y, y_pred)
        else:
            metric.update_state(y, y_pred, sample_weight=weight)

    def _loses_weighted_axis(self, metric, y) -> bool:
        """Whether the metric is a mean over an axis whose elements have weights."""
        function = keras_adapter.averaged_function(metric)
        if self._weight is None or function is None:
            return False
        weight, y_pred = self._weight, self._y_pred
        ranks = {len(values.shape) for values in (weight, y, y_pred)}
        has_axis = len(ranks) == 1 and weight.shape[-1] != 1
        return has_axis and len(function(y, y_pred).shape) < len(weight.shape)


def _is_of_elements(counts) -> bool:
    """Whether a mask or weight may tell elements of a row apart."""
    return counts is not None and any(size != 1 for size in counts.shape[1:])


def _has_values_of_elements(metric) -> bool:
    """Whether a metric takes an added axis, after which it has a value per element."""
    # A subclass may compute with the axis that it knows to be the last.
    is_plain = type(metric).update_state is keras.metrics.MeanMetricWrapper.update_state
    return is_plain and keras_adapter.averaged_function(metric).func in _OF_ELEMENTS


def _with_rank(values, rank):
    """Gives values a rank by adding or removing trailing axes of 1."""
    while len(values.shape) > rank:
        values = values[..., 0]
    return values[(..., *[None] * (rank - len(values.shape)))]
