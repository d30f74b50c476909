"""Attention with weight-normalised projections."""

import keras

from bhn_tf.layers.einsum_dense import WeightNormEinsumDense
from bhn_tf.layers.random_parts import RandomParts
from bhn_tf.layers.weight_norm import NotQuantised

_ARGUMENTS = (
    "name",
    "equation",
    "bias_axes",
    "activation",
    "activity_regularizer",
    "kernel_initializer",
    "kernel_regularizer",
    "kernel_constraint",
    "bias_initializer",
    "bias_regularizer",
    "bias_constraint",
)


class _WeightNormAttention(RandomParts):
    def __setattr__(self, name, value):
        # Keras makes the projections in `build` and sets them as attributes. Replacing
        # each as it is set, before it has weights, works for any name and number of
        # projections; masks, dropout and the product stay Keras's own.
        if type(value) is keras.layers.EinsumDense and not value.built:
            value = WeightNormEinsumDense(
                **_arguments_of(value),
                random=self.random,
                scale_initializer=_cloned(self.scale_initializer),
            )
        super().__setattr__(name, value)

    def quantize(self, *args, **kwargs):
        raise NotQuantised(self)


def _arguments_of(projection) -> dict:
    """The arguments that Keras gives to a projection.

    They are objects, not a configuration, in which Keras looks for functions and
    classes by name.
    """
    arguments = {name: _cloned(getattr(projection, name)) for name in _ARGUMENTS}
    shape, dtype = projection.partial_output_shape, projection.dtype_policy
    return {**arguments, "output_shape": shape, "dtype": dtype}


def _cloned(value):
    """An initializer for one projection alone, so that others draw other values."""
    is_initializer = isinstance(value, keras.initializers.Initializer)
    return value.clone() if is_initializer else value


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormMultiHeadAttention(
    _WeightNormAttention, keras.layers.MultiHeadAttention
):
    """Multi-head attention with four weight-normalised projections.

    Query, key and value have a scale for each unit of each head, the output one for
    each feature. All else is Keras's: masks, causal masks, dropout of scores.

    Args:
        num_heads: Number of heads.
        key_dim: Units of a head for queries and keys.
        random: What a hypernet generates for each projection: "scale" (default),
            "scale_and_bias", "rank_one", "kernel", "kernel_and_bias" or "none".
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.MultiHeadAttention`.

    Example:
    ```python
    attention = bhn_tf.layers.WeightNormMultiHeadAttention(num_heads=2, key_dim=8)
    x = np.ones((3, 5, 16), "float32")
    outputs = attention(x, x, use_causal_mask=True)  # [3, 5, 16]
    ```
    """


@keras.saving.register_keras_serializable("bhn_tf")
class WeightNormGroupQueryAttention(
    _WeightNormAttention, keras.layers.GroupQueryAttention
):
    """Grouped-query attention with four weight-normalised projections.

    Groups of heads share their keys and values.

    Args:
        head_dim: Units of a head.
        num_query_heads: Number of query heads.
        num_key_value_heads: Number of key and value heads.
        random: What a hypernet generates for each projection: "scale" (default),
            "scale_and_bias", "rank_one", "kernel", "kernel_and_bias" or "none".
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.
        **kwargs: Every other argument of `keras.layers.GroupQueryAttention`.

    Example:
    ```python
    attention = bhn_tf.layers.WeightNormGroupQueryAttention(8, 4, 2)
    x = np.ones((3, 5, 16), "float32")
    outputs = attention(x, x)  # [3, 5, 16]
    ```
    """
