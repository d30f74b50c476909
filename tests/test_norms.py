import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.norms import inverse_norm, sum_of_squares


@pytest.mark.parametrize("axes", [[0], [0, 1], [0, 1, 2]])
def test_is_one_over_the_norm(axes):
    vectors = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")
    expected = 1 / np.sqrt(np.sum(np.square(vectors.astype("float64")), tuple(axes)))
    np.testing.assert_allclose(inverse_norm(vectors, axes), expected, rtol=1e-6)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "decorate",
    [lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)],
    ids=["eager", "graph", "xla"],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [0.0, 1e-7, 1e-3, 1.0, 1e3])
def test_value_and_gradient_are_finite(dtype, size, decorate):
    @decorate
    def value_and_gradient(vectors):
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            result = inverse_norm(vectors, [0])
            # The direction, as a layer uses it.
            direction = tf.cast(vectors, result.dtype) * result
            loss = tf.reduce_sum(direction * tf.constant([[1], [2]], result.dtype))
        return result, tape.gradient(loss, vectors)

    vectors = tf.constant([[size, 1.0], [size, 1.0]], dtype)
    result, gradient = value_and_gradient(vectors)
    assert result.dtype == (tf.float64 if dtype == "float64" else tf.float32)
    assert np.isfinite(result).all()
    assert gradient.dtype == dtype
    assert np.isfinite(tf.cast(gradient, tf.float32)).all()


def test_zero_vector_has_the_gradient_of_the_identity():
    vector = tf.zeros([3, 1])
    with tf.GradientTape() as tape:
        tape.watch(vector)
        loss = tf.reduce_sum(vector * inverse_norm(vector, [0]))
    np.testing.assert_array_equal(tape.gradient(loss, vector), tf.ones([3, 1]))


def test_sum_of_squares_does_not_overflow_in_half_precision():
    vectors = tf.ones([70_000, 1], "float16")
    np.testing.assert_allclose(inverse_norm(vectors, [0]), [70_000**-0.5], rtol=1e-5)


@pytest.mark.parametrize("shape", [(5, 3), (3, 3, 2, 4), (7,), (70, 3), (9, 11, 4)])
def test_gradient_is_that_of_the_plain_formula(shape):
    vectors = tf.random.stateless_normal(shape, [1, 2])
    axes = list(range(len(shape) - 1))
    weights = tf.random.stateless_normal(shape[-1:], [3, 4])

    def gradients(norm):
        with tf.GradientTape() as outer:
            outer.watch(vectors)
            with tf.GradientTape() as tape:
                tape.watch(vectors)
                value = tf.reduce_sum(weights * norm(vectors))
            first = tape.gradient(value, vectors)
            total = tf.reduce_sum(first**2)
        return first, outer.gradient(total, vectors)

    found = gradients(lambda v: inverse_norm(v, axes))
    plain = gradients(lambda v: tf.reduce_sum(v * v, axis=axes) ** -0.5)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize("num_rows", [1, 33, 66, 100, 301])
def test_sums_of_slices_are_those_of_columns(num_rows):
    vectors = np.random.default_rng(0).normal(size=(num_rows, 2, 5)).astype("float32")
    for axes in ([0, 1], [0], [1], [0, 2]):
        found = sum_of_squares(tf.constant(vectors), axes)
        expected = np.square(vectors).sum(axis=tuple(axes))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
