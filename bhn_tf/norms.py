"""The norm of weight normalisation, fast, and safe for vectors of zeros.

Salimans and Kingma, "Weight Normalization" (2016); the paper's equation
`w_j = g_j v_j / ||v_j||`.
"""

import tensorflow as tf

# Vectors with a smaller sum of squares count as zero: so short a vector can only come
# from rounding.
_SMALLEST_SQUARE = 1e-30
# In float16, the gradient for a shorter vector, which grows as 1 / ||v||, overflows.
_SMALLEST_SQUARE_OF_FLOAT16 = 1e-8
# More slices gain nothing; with fewer rows, XLA sums columns without vector registers.
_MOST_SLICES = 4
_FEWEST_ROWS = 33


def inverse_norm(vectors, axes) -> tf.Tensor:
    """Returns `1 / ||v||` over `axes`, finite for every finite `vectors`.

    For a vector of zeros the result is 1, so that the product `g v / ||v||` is zero,
    its gradient with respect to `v` is `g`, and the vector can leave zero; the quotient
    0 / 0 would turn every weight into NaN.

    Args:
        vectors: Tensor of any floating dtype; squares are summed in float32 (or
            float64), since a float16 sum overflows at 65,504.
        axes: The axes over which the norm is taken; they are removed.

    Returns:
        A tensor of the remaining axes, float32 or float64.

    Example:
    ```python
    from bhn_tf.norms import inverse_norm

    inverse_norm(tf.constant([[3.0, 0.0], [4.0, 0.0]]), axes=[0])  # [0.2, 1.0]
    ```
    """
    vectors = tf.convert_to_tensor(vectors)
    is_float16 = vectors.dtype == tf.float16
    smallest = _SMALLEST_SQUARE_OF_FLOAT16 if is_float16 else _SMALLEST_SQUARE
    if vectors.dtype != tf.float64:
        vectors = tf.cast(vectors, tf.float32)
    square = sum_of_squares(vectors, axes)
    vanishes = square < smallest
    # The inner `where` keeps the infinite slope at zero out of the gradient. XLA
    # computes the quotients in the gradient of 1 / `sqrt` once per output, but would
    # recompute the products in that of `rsqrt` for every weight.
    one = tf.constant(1, square.dtype)
    return tf.where(vanishes, one, 1 / tf.sqrt(tf.where(vanishes, one, square)))


def sum_of_squares(vectors, axes) -> tf.Tensor:
    """Returns Σ v² over `axes`, in about one pass over the memory of v.

    XLA on a CPU writes all squares to memory before it sums columns. Here the squares
    of a few slices of rows are first added in one loop, which leaves little to write.

    Args:
        vectors: Tensor of any floating dtype.
        axes: The axes that are summed and removed.

    Returns:
        A tensor of the remaining axes, of the same dtype.
    """

    @tf.custom_gradient
    def differentiable(vectors):
        def gradient(upstream):
            for axis in sorted(axes):
                upstream = tf.expand_dims(upstream, axis)
            return 2 * upstream * vectors

        return _sum_of_squares(vectors, axes), gradient

    return differentiable(vectors)


def _sum_of_squares(vectors, axes):
    leading = vectors.shape[:-1]
    if list(axes) == list(range(len(leading))) and leading.is_fully_defined():
        num_slices = min(_MOST_SLICES, leading.num_elements() // _FEWEST_ROWS)
        if num_slices > 1:
            matrix = tf.reshape(vectors, [-1, vectors.shape[-1]])
            num_rows, num_left = divmod(matrix.shape[0], num_slices)
            *slices, rest = tf.split(matrix, [num_rows] * num_slices + [num_left])
            added = tf.add_n([tf.square(part) for part in slices])
            rest = tf.square(rest)
            return tf.reduce_sum(added, axis=0) + tf.reduce_sum(rest, axis=0)
    return tf.reduce_sum(tf.square(vectors), axis=axes)
