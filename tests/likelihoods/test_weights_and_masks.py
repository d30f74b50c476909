"""With weights and masks, only elements that count affect the sums."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.likelihoods import Bernoulli, Categorical, Gaussian, Standardized
from tests.likelihoods.element_cases import (
    BITS,
    CASES,
    CLASSES,
    LOGITS,
    MASK,
    OUTPUTS,
    REALS,
    RNG,
    ROWS,
    SPREADS,
    STEPS,
)

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def elements_of(log_of_element, shape, weight=None, mask=None):
    """Σ weight · log p and the number of real elements of each row, in a loop."""
    sums, counts = np.zeros(shape[0]), np.zeros(shape[0])
    for index in itertools.product(*map(range, shape)):
        if mask is not None and not mask[index[: mask.ndim]]:
            continue
        counts[index[0]] += 1
        factor = 1.0 if weight is None else np.broadcast_to(weight, shape)[index]
        if factor != 0:
            sums[index[0]] += factor * log_of_element(*index)
    return sums, np.maximum(counts, 1)


def element_shape(likelihood, raw):
    return likelihood.element_shape(raw.shape)


def spoiled(y, raw, is_void):
    """Labels and outputs without a meaning where `is_void`, [B, T]."""
    fillers = (-1, 1000) if y.dtype.kind == "i" else (np.nan, np.nan)
    y, raw = y.copy(), raw.copy()
    void_steps = np.argwhere(is_void)
    for number, step in enumerate(map(tuple, void_steps)):
        y[step], raw[step] = fillers[number % 2], np.nan
    return y, raw


@pytest.mark.few(22)
@each_case
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
@pytest.mark.parametrize("axes", [0, 1, 2, 3])
def test_log_prob_is_the_weighted_sum_over_what_is_real(case, reduction, mask, axes):
    make, y, raw, log_of_element = case
    likelihood = make(reduction)
    shape = element_shape(likelihood, raw)
    axes = min(axes, len(shape))
    weight = None
    if axes:
        weight = RNG.uniform(0.5, 2.0, size=shape[:axes])
        weight[0] = 0.0
        full = weight.reshape([*weight.shape, *[1] * (len(shape) - axes)])
    sums, counts = elements_of(
        log_of_element, shape, None if weight is None else full, mask
    )
    expected = sums / counts if reduction == "mean" else sums
    for log_prob in (likelihood.log_prob, likelihood.measured_log_prob):
        result = log_prob(y, raw, weight, mask)
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-5)
    if weight is not None:
        column = likelihood.log_prob(y, raw, weight[..., None], mask)
        np.testing.assert_array_equal(column, result)


@pytest.mark.few(12)
@each_case
@pytest.mark.parametrize("way", ["weight", "mask"])
@pytest.mark.parametrize("path", ["graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_nothing_of_void_elements_reaches_value_or_gradient(case, way, path):
    make, y, raw, _ = case
    likelihood = make("sum")
    voids = {way: MASK if way == "mask" else MASK.astype("float32")}

    def value_and_gradient(y, raw):
        with tf.GradientTape() as tape:
            tape.watch(raw)
            log_prob = likelihood.log_prob(y, raw, **voids)
        return log_prob, tape.gradient(log_prob, raw)

    compiled = tf.function(value_and_gradient, jit_compile=path == "xla")
    y, raw = tf.constant(y), tf.constant(raw)
    expected, expected_slope = compiled(y, raw)
    # Every way of running rounds differently, above all in special functions.
    for values, eager in zip(
        (expected, expected_slope), value_and_gradient(y, raw), strict=True
    ):
        np.testing.assert_allclose(values, eager, rtol=1e-4, atol=1e-5)
    bad_y, bad_raw = spoiled(y.numpy(), raw.numpy(), ~MASK)
    result, slope = compiled(tf.constant(bad_y), tf.constant(bad_raw))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-5, atol=1e-6)
    assert np.abs(slope.numpy()).max(axis=-1)[MASK].min() > 0
    np.testing.assert_array_equal(slope.numpy()[~MASK], 0.0)


@each_case
def test_labels_that_do_not_count_are_not_checked(case):
    make, y, raw, _ = case
    likelihood, shape = make("sum"), (None, *raw.shape[1:])
    bad_y, _ = spoiled(y, raw, ~MASK)
    # A Gaussian takes any whole number, so that nothing is refused.
    if not (isinstance(likelihood, Gaussian | Standardized) and y.dtype.kind == "i"):
        assert not likelihood.valid_labels(bad_y, shape)
        with pytest.raises(ValueError, match="do not fit"):
            likelihood.check_labels(bad_y, shape)
    for voids in ({"mask": MASK}, {"weight": MASK.astype(float)}):
        assert likelihood.valid_labels(bad_y, shape, **voids)
        likelihood.check_labels(bad_y, shape, **voids)


def test_the_error_shows_the_labels_that_count():
    y = np.array([[0, 7], [-5, 1]])
    with pytest.raises(ValueError, match="values from 0 to 7 do not fit"):
        Categorical(True).check_labels(y, (None, 2, 3), weight=[[1, 1], [0, 1]])


@pytest.mark.parametrize(
    ("y", "found"),
    [([0.5, np.nan, 7.0], "values from 0.5 to 7.0, 1 NaN"), ([np.nan] * 3, "3 NaN")],
)
def test_a_missing_label_does_not_hide_the_others_in_the_error(y, found):
    with pytest.raises(ValueError, match=f"and {found} do not fit: give a finite"):
        Gaussian().check_labels(y, (None, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_of_the_outputs_is_kept(dtype):
    log_prob = Categorical(True).log_prob(
        CLASSES, LOGITS.astype(dtype), np.ones(ROWS, "float32"), MASK
    )
    assert log_prob.dtype == dtype


@pytest.mark.parametrize("shape", [(), (2,), (ROWS, 3), (STEPS,), (1, STEPS)])
@pytest.mark.parametrize("what", ["weight", "mask"])
def test_other_shapes_are_refused_with_those_that_fit(what, shape):
    for use in (Categorical(True).log_prob, Categorical(True).measured_log_prob):
        with pytest.raises(ValueError, match=rf"`{what}` of shape .*\(3,\), \(3, 4\)"):
            use(CLASSES, LOGITS, **{what: np.ones(shape)})


def test_weights_of_unknown_lengths_are_taken():
    likelihood = Gaussian(0.5, heteroscedastic=True)
    raw = np.concatenate([REALS, SPREADS], axis=-1)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, OUTPUTS]),
            tf.TensorSpec([None, None, 2 * OUTPUTS]),
            tf.TensorSpec([None, None, None]),
        ]
    )
    def log_prob(y, raw, weight):
        return likelihood.log_prob(y, raw, weight)

    y = BITS.astype("float32")
    for weight in (np.ones((ROWS, STEPS, 1)), np.ones((ROWS, STEPS, OUTPUTS))):
        np.testing.assert_allclose(
            log_prob(y, raw, weight.astype("float32")),
            likelihood.log_prob(y, raw),
            rtol=1e-5,
        )


# -- clip, ignored classes, scores -------------------------------------------------


@pytest.mark.parametrize("make", [Categorical, Bernoulli])
def test_what_is_measured_is_never_clipped(make):
    raw = np.array([[-9.0, 9.0]], "float32")
    y = np.array([0]) if make is Categorical else np.array([[1, 0]])
    clipped, plain = make(True, (0.001, 0.999)), make(True)
    np.testing.assert_array_equal(
        clipped.measured_log_prob(y, raw), plain.log_prob(y, raw)
    )
    bound = np.log(0.001) * (1 if make is Categorical else 2)
    np.testing.assert_allclose(clipped.log_prob(y, raw), [bound], rtol=1e-6)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("ignored", [255, -1, 2])
@pytest.mark.parametrize("coding", ["numbers", "column", "floats"])
def test_an_ignored_class_counts_as_padding(reduction, ignored, coding):
    y = np.where(MASK, CLASSES % 2, ignored)
    y = {"numbers": y, "column": y[..., None], "floats": y.astype("float32")}[coding]
    likelihood = Categorical(True, reduction=reduction, ignore_class=ignored)
    likelihood.check_labels(y, (None, STEPS, 3))
    expected = Categorical(True, reduction=reduction).log_prob(
        CLASSES % 2, LOGITS, mask=MASK
    )
    for log_prob in (likelihood.log_prob, likelihood.measured_log_prob):
        np.testing.assert_allclose(log_prob(y, LOGITS), expected, rtol=1e-6)


def test_an_ignored_class_may_be_one_hot():
    one_hot = np.eye(3)[np.where(MASK, CLASSES % 2, 2)]
    result = Categorical(True, ignore_class=2).log_prob(one_hot, LOGITS)
    expected = Categorical(True).log_prob(CLASSES % 2, LOGITS, mask=MASK)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_an_ignored_class_of_small_integers_is_found():
    y = np.array([0, 255], "uint8")
    result = Categorical(True, ignore_class=255).log_prob(y, LOGITS[:2, 0])
    np.testing.assert_allclose(result[1], 0.0)
    # -1 is not such a number, and removes none of the labels.
    kept = Categorical(True, ignore_class=-1).log_prob(y[:1], LOGITS[:1, 0])
    np.testing.assert_allclose(result[0], kept[0])


@pytest.mark.parametrize("ignored", [1.5, "void", float("nan")])
def test_an_ignored_class_is_a_number_of_a_class(ignored):
    with pytest.raises(ValueError, match="`ignore_class` to be a class number"):
        Categorical(ignore_class=ignored)


@each_case
def test_scores_of_padding_are_nan_and_no_others(case):
    make, _, raw, _ = case
    likelihood = make("sum")
    raws = np.stack([raw, raw * 0.9])
    plain, masked = likelihood.summarize(raws), likelihood.summarize(raws, MASK)
    assert list(plain) == list(masked)
    np.testing.assert_array_equal(masked["mean"], plain["mean"])
    for name in set(plain) - {"mean"}:
        expected = plain[name].numpy()
        expected[~MASK] = np.nan
        np.testing.assert_allclose(masked[name], expected, rtol=1e-6)


def test_scores_of_yes_or_no_average_the_real_outputs():
    likelihood = Bernoulli(True)
    raws = REALS[None, :, 0]
    mask = np.array([[True, True], [True, False], [False, False]])
    result = likelihood.summarize(raws, mask)["predictive_entropy"]
    expected = [
        likelihood.summarize(raws[:, :1])["predictive_entropy"][0],
        likelihood.summarize(raws[:, 1:2, :1])["predictive_entropy"][0],
        np.nan,
    ]
    np.testing.assert_allclose(result, expected, rtol=1e-6)
