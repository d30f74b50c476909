import doctest

import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import uncertainty
from bhn_tf.uncertainty import SCORES

NAMES = list(SCORES)
SHAPES = [(3, 4, 5), (3, 3, 3), (2, 6, 4, 3), (1, 1, 2), (5, 1, 7)]


def softmax_draws(shape, seed=0, scale=3.0, dtype="float64"):
    logits = scale * np.random.default_rng(seed).normal(size=shape)
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (p / p.sum(axis=-1, keepdims=True)).astype(dtype)


def entropy_by_hand(p):
    return -sum(value * np.log(value) for value in p if value > 0)


def score_by_hand(name, draws):
    """One score of one item, draws [S, C], in plain Python."""
    num_draws, num_classes = draws.shape
    mean = [sum(draws[:, c]) / num_draws for c in range(num_classes)]
    votes = [0] * num_classes
    for draw in draws:
        votes[list(draw).index(max(draw))] += 1
    expected = sum(entropy_by_hand(draw) for draw in draws) / num_draws
    spread = [
        np.sqrt(sum((draw[c] - mean[c]) ** 2 for draw in draws) / num_draws)
        for c in range(num_classes)
    ]
    return {
        "max_probability": 1 - max(mean),
        "variation_ratio": 1 - max(votes) / num_draws,
        "predictive_entropy": entropy_by_hand(mean),
        "expected_entropy": expected,
        "mutual_information": entropy_by_hand(mean) - expected,
        "mean_std": sum(spread) / num_classes,
    }[name]


def gradient(score, p):
    with tf.GradientTape() as tape:
        tape.watch(p)
        total = tf.reduce_sum(score(p))
    return tape.gradient(total, p)


def test_names_and_order():
    assert NAMES == [
        "max_probability",
        "variation_ratio",
        "predictive_entropy",
        "expected_entropy",
        "mutual_information",
        "mean_std",
    ]
    assert all(score.__name__ == name for name, score in SCORES.items())


def test_examples_in_docstrings():
    assert doctest.testmod(uncertainty).failed == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_equals_a_loop_over_items(name, shape):
    p = softmax_draws(shape)
    rows = np.moveaxis(p, 1, -2)
    expected = np.empty(rows.shape[:-2])
    for index in np.ndindex(expected.shape):
        expected[index] = score_by_hand(name, rows[index])
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-6)):
        result = SCORES[name](p.astype(dtype))
        assert result.shape == shape[:1] + shape[2:-1]
        np.testing.assert_allclose(result, expected, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_draws_can_be_reordered(name):
    p = softmax_draws((7, 5, 4), dtype="float32")
    rows, draws = np.random.default_rng(1).permutation(7), [3, 1, 4, 0, 2]
    result = SCORES[name](p)
    assert len(set(result.tolist())) > 1
    # Not bit-equal: rounding of vectorised logarithms depends on the place in memory.
    np.testing.assert_allclose(SCORES[name](p[rows]), result[rows], atol=1e-6)
    np.testing.assert_allclose(SCORES[name](p[:, draws]), result, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_equal_eager(name, jit_compile):
    p = softmax_draws((6, 4, 2, 3), dtype="float32")
    p[0] = [1.0, 0.0, 0.0]
    p[1, 2, 0, 1] = np.nan
    traced = tf.function(
        SCORES[name],
        jit_compile=jit_compile,
        input_signature=[tf.TensorSpec([None, None, 2, None])],
    )
    result = traced(p)
    assert tf.is_tensor(result)
    np.testing.assert_allclose(result, SCORES[name](p), atol=1e-6)
    assert np.isnan(result[1, 0]) and np.isnan(result).sum() == 1


@pytest.mark.parametrize("name", NAMES)
def test_types_in_and_out(name):
    p = softmax_draws((2, 3, 4))
    score = SCORES[name]
    assert isinstance(score(p), np.ndarray) and score(p).dtype == np.float64
    assert isinstance(score(p.tolist()), np.ndarray)
    assert score(p.astype("float32")).dtype == np.float32
    assert score(p.astype("float16")).dtype == np.float32
    assert score(np.eye(2, dtype=int)[:, None]).dtype == np.float32
    assert score(p[:0]).shape == (0,)
    assert tf.is_tensor(score(tf.constant(p)))
    assert score(tf.constant(p, tf.bfloat16)).dtype == tf.float32
    assert score(tf.Variable(p)).dtype == tf.float64


def test_known_values():
    disagreeing = np.eye(4)[None]
    for name, value in {
        "max_probability": 0.75,
        "variation_ratio": 0.75,
        "predictive_entropy": np.log(4),
        "expected_entropy": 0.0,
        "mutual_information": np.log(4),
        "mean_std": np.sqrt(3) / 4,
    }.items():
        np.testing.assert_allclose(SCORES[name](disagreeing), [value], atol=1e-12)
    # Equal draws: no score that measures disagreement may show rounding noise.
    equal = np.repeat(softmax_draws((50, 1, 10), dtype="float32"), 33, axis=1)
    for name in ("variation_ratio", "mean_std"):
        assert np.all(SCORES[name](equal) == 0)
    np.testing.assert_allclose(SCORES["mutual_information"](equal), 0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_raw_outputs_are_refused(name):
    for value in (-1.0, -0.1, 1.1, 4.0):
        with pytest.raises(ValueError, match="no probabilities"):
            SCORES[name](np.full((2, 2, 3), value))


@pytest.mark.parametrize("name", NAMES)
def test_one_probability_is_two_classes(name):
    p = softmax_draws((5, 6, 2))
    np.testing.assert_allclose(SCORES[name](p[..., 1:]), SCORES[name](p), atol=1e-12)


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_never_negative_or_nan_and_gradients_finite(name, dtype):
    subnormal = 1e-40 if dtype == "float32" else 1e-310
    rows = [
        [1.0, 0.0, 0.0],
        [0.5, 0.5, 0.0],
        [1.0, subnormal, 0.0],
        [1.0 + 1e-6, -1e-9, 0.0],
        [np.finfo(dtype).tiny] * 3,
        tf.nn.softmax(tf.constant([1e4, 0.0, -1e4], dtype)).numpy(),
    ]
    p = tf.constant(np.repeat(np.array(rows, dtype)[:, None], 3, axis=1))
    p = tf.concat([p, tf.random.stateless_uniform(p.shape, [0, 0], dtype=dtype)], 0)
    for wrap in (lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)):
        result = wrap(SCORES[name])(p)
        assert np.all(result >= 0)
        slope = wrap(lambda p: gradient(SCORES[name], p))(p)
        assert slope is not None and np.all(np.isfinite(slope))


def test_entropy_where_the_softmax_is_saturated():
    logits = tf.constant([[[1e4, 0.0, -1e4]]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        entropy = uncertainty.predictive_entropy(tf.nn.softmax(logits))
    assert entropy == 0.0
    assert np.all(np.isfinite(tape.gradient(entropy, logits)))
    halves = uncertainty.predictive_entropy([[[0.5, 0.5, 0.0]]])
    np.testing.assert_allclose(halves, [np.log(2)], atol=1e-6)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "variation_ratio"])
def test_gradient_equals_finite_differences(name):
    p = softmax_draws((1, 3, 3), seed=2, scale=1.0)
    slope, step = gradient(SCORES[name], tf.constant(p)), 1e-6
    for index in np.ndindex(p.shape):
        shift = np.zeros_like(p)
        shift[index] = step
        change = SCORES[name](p + shift) - SCORES[name](p - shift)
        np.testing.assert_allclose(slope[index], change[0] / (2 * step), atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_nan_stays_in_its_item(name, bad):
    p = softmax_draws((4, 5, 2, 3), dtype="float32")
    clean = SCORES[name](p)
    p[2, 4, 1, 0] = bad
    result = SCORES[name](p)
    assert np.isnan(result[2, 1])
    result[2, 1] = clean[2, 1]
    np.testing.assert_array_equal(result, clean)


def test_votes_of_equal_classes_and_draws():
    p = np.full((1, 4, 3), 1 / 3)
    assert uncertainty.variation_ratio(p) == 0.0
    assert uncertainty.variation_ratio(np.eye(2)[None]) == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_errors_say_what_to_do(name):
    with pytest.raises(ValueError, match=rf"{name} .*\(8, 10\).*predict_samples"):
        SCORES[name](np.ones((8, 10)))
    with pytest.raises(ValueError, match="no draws on axis 1"):
        SCORES[name](np.ones((8, 0, 10)))
    with pytest.raises(ValueError, match="no classes on the last axis"):
        SCORES[name](np.ones((8, 3, 0)))


@pytest.mark.parametrize("name", ["expected_entropy", "predictive_entropy"])
def test_entropy_is_not_negative_where_rounding_exceeds_1(name):
    above = np.nextafter(np.float32(1), np.float32(2))
    assert SCORES[name](np.float32([[[above, 0], [above, 0]]])) >= 0
