import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf import uncertainty
from bhn_tf.likelihoods import Bernoulli

LOGITS = 3 * np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
LABELS = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1], [1, 1, 1]])


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_log_prob_is_that_of_tfp(from_logits, reduction):
    raw = LOGITS if from_logits else tf.sigmoid(LOGITS)
    expected = tfp.distributions.Bernoulli(logits=LOGITS).log_prob(LABELS).numpy()
    likelihood = Bernoulli(from_logits=from_logits, reduction=reduction)
    result = likelihood.log_prob(LABELS, raw)
    assert result.shape == (5,)
    np.testing.assert_allclose(result, getattr(expected, reduction)(axis=1), rtol=1e-4)


def test_hand_numbers():
    likelihood = Bernoulli(from_logits=False)
    np.testing.assert_allclose(
        likelihood.log_prob([1, 0, 0], [[0.25], [0.25], [0.0]]),
        [np.log(0.25), np.log(0.75), 0.0],
        rtol=1e-6,
    )


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "bool"])
def test_a_single_output_takes_labels_of_both_shapes(dtype):
    labels = np.array([0, 1, 1], dtype)
    raw = np.array([[0.3], [-1.0], [2.0]], "float32")
    likelihood = Bernoulli(from_logits=True)
    expected = tfp.distributions.Bernoulli(logits=raw[:, 0]).log_prob([0, 1, 1])
    for coding in (labels, labels[:, None]):
        likelihood.check_labels(coding, (None, 1))
        np.testing.assert_allclose(
            likelihood.log_prob(coding, raw), expected, rtol=1e-5
        )


@pytest.mark.parametrize("labels", [[[2.0]], [[-0.1]], [[float("nan")]], [3]])
def test_labels_without_a_meaning_are_refused(labels):
    with pytest.raises(ValueError, match="give 0 or 1"):
        Bernoulli(from_logits=True).check_labels(labels, (None, 1))


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 2), (1, 3), (5, 3, 1)])
def test_labels_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="do not match outputs of shape"):
        Bernoulli(from_logits=True).log_prob(np.zeros(shape), LOGITS)


def test_an_answer_that_is_ruled_out_costs_the_others_nothing():
    """With -inf, as in a mask of logits."""
    raw = tf.constant([[1.0, -np.inf], [np.inf, 1.0]])
    likelihood = Bernoulli(from_logits=True)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        log_prob = likelihood.log_prob([[1, 0], [1, 1]], raw)
    np.testing.assert_allclose(log_prob, np.log(tf.sigmoid([1.0, 1.0])), rtol=1e-6)
    assert np.isfinite(tape.gradient(log_prob, raw)).all()
    # What is impossible, or likely to some degree, is not sure.
    for label in (1.0, 0.5):
        assert likelihood.log_prob([label], [[-np.inf]]) == -np.inf
    assert np.isnan(likelihood.log_prob([0], [[np.nan]]))


@pytest.mark.parametrize("from_logits", [True, False])
def test_saturated_outputs_stay_finite(from_logits):
    raw = tf.constant([[1e4, -1e4]] if from_logits else [[1.0, 0.0]])
    for labels in ([[1, 0]], [[0, 1]]):
        with tf.GradientTape() as tape:
            tape.watch(raw)
            log_prob = Bernoulli(from_logits=from_logits).log_prob(labels, raw)
        assert np.isfinite(log_prob).all()
        assert np.isfinite(tape.gradient(log_prob, raw)).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_clip_bounds_the_probability_and_keeps_the_gradient(dtype):
    raw = tf.constant([[-10.0], [10.0], [0.5]], dtype)
    results, gradients = [], []
    for clip in (None, (0.001, 0.999)):
        with tf.GradientTape() as tape:
            tape.watch(raw)
            results.append(Bernoulli(True, clip).log_prob([1, 1, 1], raw))
        gradients.append(tape.gradient(results[-1], raw))
    expected = [np.log(0.001), np.log(0.999), results[0][2]]
    np.testing.assert_allclose(results[1], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(gradients[0], gradients[1])


def test_every_output_counts_as_two_classes():
    raws = np.random.default_rng(0).normal(size=(6, 5, 3)).astype("float32")
    summary = Bernoulli(from_logits=True).summarize(raws)
    p = tf.sigmoid(raws).numpy()
    assert set(summary) == {"mean", *uncertainty.SCORES}
    np.testing.assert_allclose(summary["mean"], p.mean(axis=0), rtol=1e-5)
    for name, score in uncertainty.SCORES.items():
        of_outputs = [
            score(np.stack([1 - p[:, :, c].T, p[:, :, c].T], axis=-1)) for c in range(3)
        ]
        expected = np.mean(of_outputs, axis=0)
        np.testing.assert_allclose(summary[name], expected, rtol=1e-4, atol=1e-6)


def test_scores_keep_the_axes_between_rows_and_outputs():
    summary = Bernoulli(from_logits=True).summarize(
        np.zeros((6, 5, 2, 4, 3), "float32")
    )
    assert summary["mean"].shape == (5, 2, 4, 3)
    np.testing.assert_allclose(
        summary["predictive_entropy"], np.full((5, 2, 4), np.log(2)), rtol=1e-6
    )
