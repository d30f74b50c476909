"""Ordered classes: the cumulative logit of one output."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bhn_tf import uncertainty
from bhn_tf.likelihoods import Ordinal

RAW = np.random.default_rng(0).normal(size=(6, 1)).astype("float32")
LABELS = np.array([0, 1, 2, 3, 1, 0])


def probabilities(raw, num_classes=4):
    cuts = special.logit(np.arange(1, num_classes) / num_classes)
    below = special.expit(cuts - np.asarray(raw, "float64"))
    return np.diff(below, axis=-1, prepend=0, append=1)


@pytest.mark.parametrize("num_classes", [2, 3, 4, 9])
def test_probabilities_are_differences_of_the_cumulative_logit(num_classes):
    result = Ordinal(num_classes).mean(RAW)
    np.testing.assert_allclose(
        result, probabilities(RAW, num_classes), rtol=1e-5, atol=1e-7
    )
    equal = Ordinal(num_classes).mean(np.zeros((1, 1), "float32"))
    np.testing.assert_allclose(equal, 1 / num_classes, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("coding", ["numbers", "column", "one_hot"])
def test_log_prob_is_that_of_the_class(coding, dtype):
    y = {"numbers": LABELS, "column": LABELS[:, None], "one_hot": np.eye(4)[LABELS]}
    likelihood, raw = Ordinal(4), tf.constant(RAW, dtype)
    likelihood.check_labels(y[coding], (None, 1))
    result = likelihood.log_prob(y[coding], raw)
    assert result.dtype == dtype
    expected = np.log(probabilities(RAW)[range(6), LABELS])
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_several_targets_have_classes_each():
    raw = np.concatenate([RAW, RAW[::-1]], axis=1)
    y = np.stack([LABELS, LABELS[::-1]], axis=1)
    likelihood = Ordinal(4)
    assert likelihood.element_shape((None, 2)) == (None, 2)
    one_by_one = likelihood.log_prob(LABELS, RAW)
    np.testing.assert_allclose(
        likelihood.log_prob(y, raw), one_by_one + one_by_one[::-1], rtol=1e-5
    )
    assert likelihood.mean(raw).shape == (6, 2, 4)


@pytest.mark.parametrize("size", [-1e4, 1e4])
def test_no_class_is_impossible(size):
    raw = tf.fill([6, 1], size)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        log_prob = Ordinal(4).element_log_prob(LABELS, raw)
    slope = tape.gradient(log_prob, raw).numpy()
    assert np.isfinite(log_prob).all() and np.isfinite(slope).all()
    # A middle class pulls the output back; an end class pulls it from the far end.
    assert (slope[[1, 2]] * -size > 0).all()


def test_scores_are_those_of_its_class_probabilities():
    raws = np.stack([RAW, 2 * RAW, -RAW])
    summary = Ordinal(4).summarize(raws)
    assert set(summary) == {"mean", *uncertainty.SCORES}
    samples = np.moveaxis(probabilities(raws), 0, 1)
    np.testing.assert_allclose(summary["mean"], samples.mean(axis=1), rtol=1e-5)
    for name, score in uncertainty.SCORES.items():
        np.testing.assert_allclose(
            summary[name], score(samples), rtol=1e-4, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("level", [0.3, 0.9])
def test_interval_of_classes_holds_at_least_the_level(level):
    raws = np.stack([RAW, 2 * RAW, RAW - 1])
    low, high = (bound.numpy() for bound in Ordinal(4).interval(raws, level))
    reached = np.cumsum(probabilities(raws).mean(axis=0), axis=-1)
    reached = np.concatenate([np.zeros((6, 1)), reached], axis=1)
    rows = np.arange(6)
    for bound, share in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
        bound = bound.astype(int)
        assert (reached[rows, bound + 1] >= share - 1e-6).all()
        assert (reached[rows, bound] < share + 1e-6).all()


def test_a_row_of_nan_has_no_class():
    raws = np.stack([RAW, RAW])
    raws[1, 2] = np.nan
    for bound in Ordinal(4).interval(raws, 0.9):
        np.testing.assert_array_equal(np.isnan(bound), np.arange(6) == 2)


@pytest.mark.slow
def test_cut_points_are_learned_in_order():
    likelihood = Ordinal(4, trainable=True)
    y = np.repeat([0, 1, 2, 3], [10, 50, 20, 20])
    raw = np.zeros((100, 1), "float32")
    optimizer = keras.optimizers.Adam(0.1)
    for _ in range(100):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(likelihood.log_prob(y, raw))
        gradients = tape.gradient(loss, likelihood.trainable_variables)
        optimizer.apply(gradients, likelihood.trainable_variables)
    np.testing.assert_allclose(
        likelihood.cut_points(), special.logit([0.1, 0.6, 0.8]), atol=0.02
    )


def test_labels_beyond_the_classes_are_refused():
    with pytest.raises(ValueError, match=r"from 0 to 3.*Ordinal\(num_classes=4\)"):
        Ordinal(4).check_labels(np.array([0, 4]), (None, 1))
    for wrong in (1, 2.5):
        with pytest.raises(ValueError, match="at least 2, got"):
            Ordinal(wrong)
