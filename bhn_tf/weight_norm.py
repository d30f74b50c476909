"""The norm of weight normalisation, safe where a vector vanishes, and fast.

Salimans and Kingma, "Weight Normalization" (2016); the paper's equation
`w_j = g_j v_j / ||v_j||`.
"""

import tensorflow as tf

# A sum of squares below this is no direction: float32 cannot represent its root
# and a vector of that size can only be a zero that rounding has touched.
_SMALLEST_SQUARE = 1e-30
# In float16 the gradient by a shorter vector, which grows as 1 / ||v||, overflows.
_SMALLEST_SQUARE_OF_FLOAT16 = 1e-8
# More slices gain nothing; of fewer rows XLA sums columns without vector registers.
_MOST_SLICES = 8
_FEWEST_ROWS = 33


def norm(vectors, axes, smoothing: float = 0.0) -> tf.Tensor:
    """Returns `||v||` over `axes`, or 1 where it is zero.

    There the quotient `g v / ||v||` is zero, its gradient with respect to `v` is `g`,
    and the vector can leave zero; 0 / 0 would turn every weight into NaN.

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
    norm(tf.constant([[3.0, 0.0], [4.0, 0.0]]), axes=[0])  # [5.0, 1.0]
    ```
    """
    vectors = tf.convert_to_tensor(vectors)
    is_float16 = vectors.dtype == tf.float16
    smallest = _SMALLEST_SQUARE_OF_FLOAT16 if is_float16 else _SMALLEST_SQUARE
    if vectors.dtype != tf.float64:
        vectors = tf.cast(vectors, tf.float32)

    @tf.custom_gradient
    def differentiable(vectors):
        square = sum_of_squares(vectors, axes) + smoothing
        vanishes = square < smallest
        root = tf.sqrt(tf.where(vanishes, tf.ones_like(square), square))

        def gradient(upstream):
            # v / ||v||. Divided before it meets v: XLA computes a quotient once a
            # column, and would compute a product anew for every weight.
            factor = tf.where(vanishes, tf.zeros_like(upstream), upstream) / root
            for axis in sorted(axes):
                factor = tf.expand_dims(factor, axis)
            return vectors * factor

        return root, gradient

    return differentiable(vectors)


def inverse_norm(vectors, axes, smoothing: float = 0.0) -> tf.Tensor:
    """Returns `1 / ||v||`, the reciprocal of `norm`.

    Example:
    ```python
    inverse_norm(tf.constant([[3.0, 0.0], [4.0, 0.0]]), axes=[0])  # [0.2, 1.0]
    ```
    """
    return 1.0 / norm(vectors, axes, smoothing)


def sum_of_squares(vectors, axes) -> tf.Tensor:
    """Returns Σ v² over `axes`, in about one pass over the memory of v.

    XLA on a CPU writes all squares to memory before it sums columns. Squares of a few
    slices of rows are added up in one loop, which leaves little to write and to sum.

    Args:
        vectors: Tensor of any floating dtype.
        axes: The axes that are summed and removed.

    Returns:
        A tensor of the remaining axes, of the same dtype.
    """
    leading = vectors.shape[:-1]
    if list(axes) == list(range(len(leading))) and leading.is_fully_defined():
        num_slices = min(_MOST_SLICES, leading.num_elements() // _FEWEST_ROWS)
        if num_slices > 1:
            matrix = tf.reshape(vectors, [-1, vectors.shape[-1]])
            return _sum_of_squared_columns(matrix, num_slices)
    return tf.reduce_sum(tf.square(vectors), axis=axes)


def _sum_of_squared_columns(matrix, num_slices):
    num_rows, num_left = divmod(matrix.shape[0], num_slices)
    *slices, rest = tf.split(matrix, [num_rows] * num_slices + [num_left])
    sums = tf.add_n([tf.square(part) for part in slices])
    return sum(tf.reduce_sum(values, axis=0) for values in (sums, tf.square(rest)))
