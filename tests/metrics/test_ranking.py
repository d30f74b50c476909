import doctest
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
import tensorflow as tf

from bhn_tf import metrics
from bhn_tf.metrics import (
    detection,
    detection_curve,
    ranking,
    reject_threshold,
    risk_coverage,
)
from bhn_tf.uncertainty import SCORES


def auroc_by_hand(scores_in, scores_out):
    pairs = [(o > i) + 0.5 * (o == i) for i in scores_in for o in scores_out]
    return sum(pairs) / len(pairs)


def fpr95_by_hand(scores_in, scores_out):
    for threshold in sorted({*scores_in, *scores_out}, reverse=True):
        if np.mean(scores_out >= threshold) >= 0.95:
            return np.mean(scores_in >= threshold)


def test_examples_in_docstrings():
    assert doctest.testmod(ranking).failed == 0
    assert metrics.detection is ranking.detection


def test_close_scores():
    result = detection([0.9991, 0.9993], [0.9992, 0.9994])
    assert result["auroc"] == 0.75
    assert all(type(value) is float for value in result.values())
    assert list(result) == ["auroc", "aupr_in", "aupr_out", "fpr95"]


@pytest.mark.parametrize("ties", [False, True])
def test_equals_a_loop_over_pairs(ties):
    rng = np.random.default_rng(0)
    for size_in, size_out in ((1, 1), (13, 7), (60, 40), (20, 100)):
        scores_in, scores_out = rng.normal(size=size_in), 1 + rng.normal(size=size_out)
        if ties:
            scores_in, scores_out = np.round(scores_in), np.round(scores_out)
        result = detection(scores_in, scores_out)
        np.testing.assert_allclose(
            result["auroc"], auroc_by_hand(scores_in, scores_out), atol=1e-12
        )
        assert result["fpr95"] == fpr95_by_hand(scores_in, scores_out)


def test_average_precision_by_hand():
    # From the top: out, in, out. Precision at the out rows: 1/1 and 2/3.
    result = detection([2.0], [1.0, 3.0])
    np.testing.assert_allclose(result["aupr_out"], (1 + 2 / 3) / 2)
    np.testing.assert_allclose(result["aupr_in"], 1 / 2)


def test_only_the_order_of_scores_counts():
    rng = np.random.default_rng(1)
    scores_in, scores_out = rng.normal(size=50), rng.normal(size=30) + 0.5
    expected = detection(scores_in, scores_out)
    for change in (
        lambda s: 1e6 * s,
        lambda s: s - 1e3,
        lambda s: s * 1e-300,
        lambda s: s * 1e300,
        np.exp,
        np.float32,
        tf.constant,
        lambda s: s.reshape(-1, 5),
        list,
    ):
        assert detection(change(scores_in), change(scores_out)) == expected
    largest, smallest = np.argmax(scores_out), np.argmin(scores_in)
    scores_out[largest], scores_in[smallest] = np.inf, -np.inf
    np.testing.assert_allclose(
        detection(scores_in, scores_out)["auroc"], auroc_by_hand(scores_in, scores_out)
    )


def test_far_from_zero_and_one():
    rng = np.random.default_rng(2)
    result = detection(rng.uniform(20, 34, 500), rng.uniform(35, 50, 300))
    assert result == {"auroc": 1.0, "aupr_in": 1.0, "aupr_out": 1.0, "fpr95": 0.0}


def test_all_equal():
    result = detection(np.zeros(30), np.zeros(10))
    assert result == {"auroc": 0.5, "aupr_in": 0.75, "aupr_out": 0.25, "fpr95": 1.0}


def test_nan_is_never_strange():
    worst = detection([-np.inf, 0.0], [np.nan, np.nan])
    assert worst["auroc"] == 0.0 and worst["fpr95"] == 1.0
    assert detection([np.nan, np.nan], [-np.inf, 0.0])["auroc"] == 1.0
    assert detection([np.nan], [np.nan])["auroc"] == 0.5


def test_masked_scores_are_no_scores():
    masked = np.ma.array([0, 9], mask=[False, True])
    nullable = pd.Series([0.0, None], dtype="Float64")
    for scores in (masked, nullable):
        assert detection([0.1], scores) == detection([0.1], [0.0, np.nan])


@pytest.mark.parametrize("name", [n for n in SCORES if n != "expected_entropy"])
def test_direction_of_every_score(name):
    """In: all draws agree on a class. Out: every draw says another class."""
    inside = np.repeat(np.eye(5)[:, None], 5, axis=1)
    outside = np.stack([np.eye(5)[::-1]] * 4)
    score = SCORES[name]
    assert detection(score(inside), score(outside)) == {
        "auroc": 1.0,
        "aupr_in": 1.0,
        "aupr_out": 1.0,
        "fpr95": 0.0,
    }
    assert detection(score(outside), score(inside))["auroc"] == 0.0


@pytest.mark.parametrize("compare", [detection, detection_curve])
def test_empty_sets_are_an_error(compare):
    for sets in (([], [1.0]), ([1.0], []), ([], [])):
        with pytest.raises(ValueError, match="at least one"):
            compare(*sets)


def test_the_curve_counts_what_each_threshold_flags():
    rng = np.random.default_rng(6)
    scores_in, scores_out = np.round(rng.normal(size=(2, 30)), 1)
    curve = detection_curve(scores_in, scores_out)
    thresholds = sorted({*scores_in, *scores_out}, reverse=True)
    assert curve.flagged_in[0] == curve.flagged_out[0] == 0
    for index, threshold in enumerate(thresholds, start=1):
        assert curve.flagged_in[index] == np.mean(scores_in >= threshold)
        assert curve.flagged_out[index] == np.mean(scores_out >= threshold)
    area = scipy.integrate.trapezoid(curve.flagged_out, curve.flagged_in)
    np.testing.assert_allclose(area, curve.auroc)
    assert curve.auroc == detection(scores_in, scores_out)["auroc"]


def test_risk_at_every_coverage():
    rng = np.random.default_rng(3)
    scores, errors = np.round(rng.normal(size=40), 1), rng.integers(0, 2, 40)
    curve = risk_coverage(scores, errors)
    assert len(curve.threshold) == len(set(scores))
    for coverage, risk, threshold, _ in zip(*curve[:3], scores, strict=False):
        kept = scores <= threshold
        np.testing.assert_allclose((coverage, risk), (kept.mean(), errors[kept].mean()))
    assert curve.coverage[-1] == 1 and curve.risk[-1] == errors.mean()


def test_area_is_the_mean_over_orders_of_equal_scores():
    rng = np.random.default_rng(4)
    scores, errors = rng.integers(0, 4, 12), rng.integers(0, 2, 12)
    curve, areas = risk_coverage(scores, errors), []
    for _ in range(20_000):
        order = np.lexsort([rng.random(12), scores])
        areas.append(np.mean(np.cumsum(errors[order]) / np.arange(1, 13)))
    assert abs(np.mean(areas) - curve.aurc) < 5 * np.std(areas) / np.sqrt(20_000)
    for _ in range(5):
        order = rng.permutation(12)
        again = risk_coverage(scores[order], errors[order])
        np.testing.assert_array_equal(again.risk, curve.risk)
        np.testing.assert_allclose(again.aurc, curve.aurc, rtol=1e-12)


def test_area_of_good_and_bad_scores():
    errors = [0, 0, 0, 1]
    assert risk_coverage([1, 2, 3, 4], errors).aurc == 0.25 / 4
    np.testing.assert_allclose(
        risk_coverage([4, 3, 2, 1], errors).aurc, (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    )
    assert risk_coverage([7, 7, 7, 7], errors).aurc == 0.25
    assert risk_coverage([-np.inf, 0, 1, np.inf], errors).aurc == 0.25 / 4


def test_nan_scores_are_rejected_first():
    curve = risk_coverage([np.nan, 0.1, np.inf, np.nan], [1, 0, 0, 1])
    np.testing.assert_array_equal(curve.threshold, [0.1, np.inf, np.nan])
    np.testing.assert_array_equal(curve.coverage, [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(curve.risk, [0.0, 0.0, 0.5])


def test_risk_coverage_errors_say_what_to_do():
    with pytest.raises(ValueError, match="at least one row"):
        risk_coverage([], [])
    with pytest.raises(ValueError, match="3 scores and 2 errors"):
        risk_coverage([1, 2, 3], [0, 1])
    with pytest.raises(ValueError, match="1 errors that are NaN"):
        risk_coverage([1, 2], [0, np.nan])


def test_reject_threshold_is_the_best_of_all_thresholds():
    rng = np.random.default_rng(5)
    for num_rows in (1, 7, 60):
        scores = np.round(rng.normal(size=num_rows), 1)
        errors = rng.random(num_rows) < 1 / (1 + np.exp(-scores))
        for max_risk in (0.0, 0.1, 0.3, 1.0):
            found = reject_threshold(scores, errors, max_risk)
            kept = [scores <= t for t in set(scores)]
            allowed = [k.mean() for k in kept if errors[k].mean() <= max_risk]
            answered = scores <= found.threshold
            assert found.coverage == answered.mean() == max(allowed, default=0)
            if allowed:
                assert found.risk == errors[answered].mean() <= max_risk


def test_losses_are_not_refused_for_the_rounding_of_their_sum():
    found = reject_threshold([1, 2, 3, 4], [0.1, 0.1, 0.1, 0.9], 0.1)
    assert found == (3.0, 0.75, 0.1)
    rng = np.random.default_rng(0)
    for loss in [*rng.exponential(size=20), 1e-310, 1e300]:
        found = reject_threshold(np.arange(50) // 3, np.full(50, loss), loss)
        assert found == (16.0, 1.0, loss)


def test_risks_of_losses_are_exact_means():
    rng = np.random.default_rng(1)
    scores = rng.permutation(40) // 2
    errors = rng.normal(size=40) * 10.0 ** rng.integers(-20, 20, 40)
    curve = risk_coverage(scores, errors)
    for threshold, risk in zip(curve.threshold, curve.risk, strict=True):
        kept = [Fraction(error) for error in errors[scores <= threshold]]
        assert risk == float(sum(kept) / len(kept))
    errors[scores == 5] = np.inf
    risks = risk_coverage(scores, errors).risk
    np.testing.assert_array_equal(risks[:5], curve.risk[:5])
    assert (risks[5:] == np.inf).all()


def test_equal_scores_cannot_be_split():
    found = reject_threshold([1, 2, 2, 2], [0, 0, 0, 1], max_risk=0.2)
    assert found == (1.0, 0.25, 0.0)


def test_risk_that_falls_again_is_used():
    found = reject_threshold([1, 2, 3, 4, 5], [1, 0, 0, 0, 0], max_risk=0.2)
    assert found == (5.0, 1.0, 0.2)


def test_nothing_acceptable_answers_nothing():
    scores = np.array([-np.inf, 0.0, np.inf])
    found = reject_threshold(scores, [1, 1, 1], max_risk=0.5)
    assert found.coverage == 0 and np.isnan(found.risk)
    assert not (scores <= found.threshold).any()


def test_rows_without_a_score_are_never_answered():
    scores = np.array([0.1, np.nan, np.nan])
    found = reject_threshold(scores, [0, 0, 0], max_risk=0.0)
    assert found == (0.1, 1 / 3, 0.0)
    assert np.isnan(reject_threshold([np.nan], [0], max_risk=1.0).threshold)


@pytest.mark.parametrize("max_risk", [-0.1, np.nan, [0.1, 0.2]])
def test_a_wanted_risk_has_to_be_a_number(max_risk):
    with pytest.raises(ValueError, match="`max_risk`"):
        reject_threshold([0.1], [0], max_risk)
