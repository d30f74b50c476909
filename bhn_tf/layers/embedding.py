"""Embeddings."""

from typing import ClassVar

import keras
import tensorflow as tf

from bhn_tf.layers.generated import current_value
from bhn_tf.layers.weight_norm import WeightNorm


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormEmbedding(WeightNorm, keras.layers.Embedding):
    """Embeddings with a scale for each column, `g_j v_ij / ‖v_j‖` of word i.

    The norm is taken over the vocabulary and grows with the square root of its size: a
    `prior_loc`, or a normalisation after the layer, keeps the scales of a large
    vocabulary near the prior.

    Args:
        input_dim: Size of the vocabulary.
        output_dim: Number of columns.
        random: "scale" (default), "kernel" (all embeddings) or "none": what a
            hypernet generates for the layer. As it has no bias, "scale_and_bias" and
            "kernel_and_bias" are the same.
        scale_initializer: Initial scales; `None` for the norms of the drawn columns.
        weights: Initial embeddings, [input_dim, output_dim].
        **kwargs: Every other argument of `keras.layers.Embedding`.

    Raises:
        ValueError: If `random` is "rank_one": numbers of words cannot be scaled.

    Example:
    ```python
    layer = bhn_tf.layers.WeightNormEmbedding(1000, 16, mask_zero=True)
    ```
    """

    GENERATED: ClassVar = {
        mode: WeightNorm.GENERATED[mode]
        for mode in ("none", "scale", "scale_and_bias", "kernel", "kernel_and_bias")
    }

    #: An embedding has neither.
    bias = activation = None

    def __init__(self, *args, random="scale", weights=None, **kwargs):
        if random == "rank_one":
            raise ValueError(
                "`random='rank_one'` scales inputs, and those of an embedding are the "
                "numbers of words. Use `random='scale'`; a layer behind the "
                "embedding can scale its columns."
            )
        super().__init__(*args, random=random, **kwargs)
        if weights is not None:
            # Keras would set them in its constructor, before there are scales.
            self.build()
            is_listed = isinstance(weights, list) and len(weights) == 1
            self.direction.assign(weights[0] if is_listed else weights)
            if self.scale is not None and self.scale_initializer is None:
                self.scale.assign(self.kernel_norm())

    @property
    def direction(self):
        """The variable v, which Keras calls the embeddings."""
        return self.embeddings

    def kernel_of(self, layer):
        return layer.embeddings

    def build(self, input_shape=None):
        if not self.built:
            super().build(input_shape)

    def _checked_product(self, inputs, factor):
        if inputs.dtype not in ("int32", "int64"):
            inputs = keras.ops.cast(inputs, "int32")
        # Scales only the rows of words that occur.
        outputs = keras.ops.take(current_value(self.direction), inputs, axis=0)
        if factor is not None:
            outputs = tf.cast(outputs, factor.dtype) * factor
        return tf.cast(outputs, self.compute_dtype)
