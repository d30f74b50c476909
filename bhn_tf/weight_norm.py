"""The norm of weight normalisation, safe where a vector vanishes.

Salimans and Kingma, "Weight Normalization" (2016); the paper's equation
`w_j = g_j v_j / ||v_j||`.
"""

import tensorflow as tf

# A sum of squares below this is no direction: float32 cannot represent its root
# and a vector of that size can only be a zero that rounding has touched.
_SMALLEST_SQUARE = 1e-30
# In float16 the gradient by a shorter vector, which grows as 1 / ||v||, overflows.
_SMALLEST_SQUARE_OF_FLOAT16 = 1e-8


def inverse_norm(vectors, axes, smoothing: float = 0.0) -> tf.Tensor:
    """Returns `1 / ||v||` over `axes`, finite for every finite `vectors`.

    Where a vector is zero the result is 1, so that the product `g v / ||v||`
    is zero, its gradient with respect to `v` is `g`, and the vector can leave
    zero; the quotient 0 / 0 would turn every weight into NaN.

    Args:
        vectors: Tensor of any floating dtype; squares are summed in float32 (or
            float64), since a float16 sum overflows at 65,504.
        axes: The axes over which the norm is taken; they are removed.
        smoothing: Added to the sum of squares. A unit with a single input has no
            direction to learn, so its exact gradient is zero; a small positive
            value keeps it from being frozen.

    Returns:
        A tensor of the remaining axes, float32 or float64.

    Example:
    ```python
    inverse_norm(tf.constant([[3.0, 0.0], [4.0, 0.0]]), axes=[0])  # [0.2, 1.0]
    ```
    """
    vectors = tf.convert_to_tensor(vectors)
    is_float16 = vectors.dtype == tf.float16
    smallest = _SMALLEST_SQUARE_OF_FLOAT16 if is_float16 else _SMALLEST_SQUARE
    if vectors.dtype != tf.float64:
        vectors = tf.cast(vectors, tf.float32)
    square = tf.reduce_sum(tf.square(vectors), axis=axes) + smoothing
    vanishes = square < smallest
    # The inner `where` keeps the infinite slope at zero out of the gradient.
    one = tf.constant(1, square.dtype)
    return tf.where(vanishes, one, tf.math.rsqrt(tf.where(vanishes, one, square)))
