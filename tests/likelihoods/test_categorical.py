import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf import uncertainty
from bhn_tf.likelihoods import Categorical

LOGITS = 3 * np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
LABELS = np.array([0, 3, 1, 2, 2])
PAPER_CLIP = (0.001, 0.999)


def softmax(logits):
    return tf.nn.softmax(logits).numpy()


@pytest.mark.parametrize("from_logits", [True, False])
def test_log_prob_is_that_of_tfp(from_logits):
    raw = LOGITS if from_logits else softmax(LOGITS)
    expected = tfp.distributions.Categorical(logits=LOGITS).log_prob(LABELS)
    result = Categorical(from_logits=from_logits).log_prob(LABELS, raw)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_hand_numbers():
    likelihood = Categorical(from_logits=True)
    np.testing.assert_allclose(likelihood.log_prob([0], [[0.0, 0.0]]), [-np.log(2)])
    likelihood = Categorical(from_logits=False)
    np.testing.assert_allclose(
        likelihood.log_prob([1, 0], [[0.25, 0.75], [1.0, 0.0]]),
        [np.log(0.75), 0.0],
        rtol=1e-6,
    )


CODINGS = {
    "column": LABELS[:, None],
    "one_hot": np.eye(4, dtype="float32")[LABELS],
    "one_hot_integers": np.eye(4, dtype="int32")[LABELS],
    "floats": LABELS.astype("float32"),
    "float_column": LABELS[:, None].astype("float64"),
    "uint8": LABELS.astype("uint8"),
    "list": LABELS.tolist(),
}


@pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS)
def test_codings_of_labels_are_equal(coding):
    likelihood = Categorical(from_logits=True)
    likelihood.check_labels(coding, (None, 4))
    expected = likelihood.log_prob(LABELS, LOGITS)
    assert expected.shape == (5,)
    np.testing.assert_allclose(likelihood.log_prob(coding, LOGITS), expected, rtol=1e-6)


def test_soft_labels_weigh_the_classes():
    likelihood = Categorical(from_logits=False)
    result = likelihood.log_prob([[0.25, 0.75]], [[0.5, 0.1]])
    expected = 0.25 * np.log(0.5) + 0.75 * np.log(0.1)
    np.testing.assert_allclose(result, [expected], rtol=1e-6)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 4],
        [-1, 0],
        [0.5, 1.0],
        [float("nan"), 0.0],
        [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]],
        [[-1.0, 2.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]],
        [[float("nan"), 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]],
    ],
)
def test_labels_without_a_meaning_are_refused(labels):
    likelihood = Categorical(from_logits=True)
    with pytest.raises(
        ValueError, match="4 classes, so give class numbers from 0 to 3"
    ):
        likelihood.check_labels(labels, (None, 4))


def test_one_output_is_no_class_of_several():
    with pytest.raises(ValueError, match="single output.*likelihood='bernoulli'"):
        Categorical(from_logits=True).check_labels([0, 1], (None, 1))


@pytest.mark.parametrize("shape", [(5, 3), (5, 2, 2), ()])
def test_labels_of_another_shape_are_refused(shape):
    likelihood = Categorical(from_logits=True)
    for use in (
        lambda: likelihood.check_labels(np.zeros(shape), (None, 4)),
        lambda: likelihood.log_prob(np.zeros(shape), LOGITS),
    ):
        with pytest.raises(ValueError, match="do not fit outputs of shape"):
            use()


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("coding", ["numbers", "column", "one_hot"])
def test_pixels_belong_to_their_example(reduction, coding):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3, 2, 5, 4)).astype("float32")
    labels = rng.integers(0, 4, size=(3, 2, 5))
    likelihood = Categorical(from_logits=True, reduction=reduction)
    pixels = tfp.distributions.Categorical(logits=logits).log_prob(labels).numpy()
    labels = {
        "numbers": labels,
        "column": labels[..., None],
        "one_hot": np.eye(4)[labels],
    }[coding]
    likelihood.check_labels(labels, (None, 2, 5, 4))
    expected = getattr(pixels, reduction)(axis=(1, 2))
    np.testing.assert_allclose(likelihood.log_prob(labels, logits), expected, rtol=1e-5)


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_computes_in_float32_at_least(dtype, from_logits):
    likelihood = Categorical(from_logits=from_logits)
    raw = tf.cast(LOGITS if from_logits else softmax(LOGITS), dtype)
    result = likelihood.log_prob(LABELS, raw)
    assert result.dtype == (tf.float64 if dtype == "float64" else tf.float32)
    assert likelihood.mean(raw).dtype == result.dtype
    # The same numbers in full precision, of which only the inputs are rounded.
    exact = likelihood.log_prob(LABELS, tf.cast(raw, "float64"))
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("from_logits", [True, False])
def test_saturated_outputs_stay_finite(from_logits):
    raw = tf.constant([[1e4, 0.0, -1e4]] if from_logits else [[1.0, 0.0, 0.0]])
    likelihood = Categorical(from_logits=from_logits)
    for label, expected in ((0, 0.0), (2, -2e4 if from_logits else -87.3)):
        with tf.GradientTape() as tape:
            tape.watch(raw)
            log_prob = likelihood.log_prob([label], raw)
        np.testing.assert_allclose(log_prob, [expected], rtol=1e-3)
        assert np.isfinite(tape.gradient(log_prob, raw)).all()


def test_a_class_that_is_ruled_out_costs_the_others_nothing():
    """With -inf, as in a mask of logits."""
    raw = tf.constant([[0.0, -np.inf, 1.0]])
    found = []
    for labels in ([2], [[0.0, 0.0, 1.0]]):
        with tf.GradientTape() as tape:
            tape.watch(raw)
            log_prob = Categorical(from_logits=True).log_prob(labels, raw)
        found.append(np.append(tape.gradient(log_prob, raw), log_prob))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(*found, rtol=1e-6)


# -- the paper's clip --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [10.0, 1e4])
def test_clip_bounds_the_probability(dtype, size):
    likelihood = Categorical(from_logits=True, clip=PAPER_CLIP)
    raw = tf.constant([[size, -size], [-size, size], [0.0, 1.0]], dtype)
    expected = [np.log(0.999), np.log(0.001), -np.log1p(np.exp(1.0))]
    np.testing.assert_allclose(likelihood.log_prob([0] * 3, raw), expected, rtol=1e-3)


def test_clip_is_exact_however_wrong_the_network_is():
    likelihood = Categorical(from_logits=True, clip=PAPER_CLIP)
    result = likelihood.log_prob([0, 0], [[-1e4, 0.0], [-1e8, 0.0]])
    np.testing.assert_allclose(result, np.log([0.001] * 2), rtol=1e-6)


def test_clipped_rows_have_the_gradient_of_unclipped_ones():
    raw = tf.constant([[10.0, -10.0], [-10.0, 10.0], [0.3, 0.1]])
    gradients = []
    for clip in (None, PAPER_CLIP):
        with tf.GradientTape() as tape:
            tape.watch(raw)
            log_prob = Categorical(True, clip).log_prob([0, 0, 0], raw)
        gradients.append(tape.gradient(log_prob, raw))
    np.testing.assert_array_equal(gradients[0], gradients[1])
    assert np.abs(gradients[1][1]).min() > 0.9


def test_a_class_that_is_ruled_out_is_clipped_too():
    raw = tf.constant([[0.0, -np.inf, 1.0]])
    likelihood = Categorical(from_logits=True, clip=PAPER_CLIP)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        log_prob = likelihood.log_prob([1], raw)
    np.testing.assert_allclose(log_prob, [np.log(0.001)], rtol=1e-6)
    assert np.isfinite(tape.gradient(log_prob, raw)).all()


@pytest.mark.parametrize(
    ("num_classes", "low"), [(2, 0.001), (100, 0.001), (1000, 0.0001), (10_000, 1e-5)]
)
def test_clip_stays_below_a_uniform_guess(num_classes, low):
    raw = np.zeros((1, num_classes), "float32")
    raw[0, 0] = -100.0
    likelihood = Categorical(from_logits=True, clip=PAPER_CLIP)
    np.testing.assert_allclose(likelihood.log_prob([0], raw), [np.log(low)], rtol=1e-5)
    uniform = likelihood.log_prob([1], np.zeros((1, num_classes)))
    np.testing.assert_allclose(uniform, [-np.log(num_classes)], rtol=1e-5)


def test_clip_does_not_touch_predictions():
    raw = [[-10.0, 10.0]]
    clipped, plain = Categorical(True, PAPER_CLIP), Categorical(True)
    np.testing.assert_array_equal(clipped.mean(raw), plain.mean(raw))
    summary, expected = (
        each.summarize(tf.constant([raw])) for each in (clipped, plain)
    )
    for name in expected:
        np.testing.assert_array_equal(summary[name], expected[name])


@pytest.mark.parametrize("clip", [(0.5, 0.1), (-0.1, 0.9), (0.1, 1.1), (0.2, 0.2)])
def test_clip_without_a_meaning_is_refused(clip):
    with pytest.raises(ValueError, match="two probabilities in ascending order"):
        Categorical(clip=clip)


# -- predictions -------------------------------------------------------------------


@pytest.mark.parametrize("pixels", [(), (2, 3)])
def test_summary_averages_probabilities(pixels):
    raws = np.random.default_rng(0).normal(size=(6, 5, *pixels, 4)).astype("float32")
    summary = Categorical(from_logits=True).summarize(raws)
    probabilities = softmax(raws)
    assert set(summary) == {"mean", *uncertainty.SCORES}
    np.testing.assert_allclose(summary["mean"], probabilities.mean(axis=0), rtol=1e-5)
    for name, score in uncertainty.SCORES.items():
        expected = score(np.moveaxis(probabilities, 0, 1))
        assert summary[name].shape == (5, *pixels)
        np.testing.assert_allclose(summary[name], expected, rtol=1e-5, atol=1e-6)


def test_agreeing_draws_have_no_mutual_information():
    agree = np.tile([[[2.0, 0.0]]], (4, 1, 1)).astype("float32")
    disagree = np.array([[[9.0, 0.0]], [[0.0, 9.0]]], "float32")
    likelihood = Categorical(from_logits=True)
    assert likelihood.summarize(agree)["mutual_information"] < 1e-6
    assert likelihood.summarize(disagree)["mutual_information"] > 0.6
