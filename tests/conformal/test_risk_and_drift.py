"""Promised error rates and false alarms, by numbers alone."""

import math

import numpy as np
import pytest
import scipy.stats

from bhn_tf import metrics
from bhn_tf.conformal import ConformalMartingale, controlled_threshold
from bhn_tf.conformal.risk import upper_error_rate


def rows(rng, size):
    """Scores, and errors that become likelier as the score rises."""
    scores = rng.uniform(size=size)
    return scores, rng.uniform(size=size) < 0.3 * scores


def error_rate(threshold):
    """The error rate of new rows up to a threshold: the mean of 0.3 s."""
    return 0.15 * np.nan_to_num(threshold)


def test_the_error_rate_is_kept_with_the_stated_confidence():
    rng, trials, confidence = np.random.default_rng(0), 300, 0.8
    promised, plain = [], []
    for _ in range(trials):
        scores, errors = rows(rng, 600)
        chosen = controlled_threshold(scores, errors, 0.06, confidence)
        promised.append(error_rate(chosen.threshold))
        chosen = metrics.reject_threshold(scores, errors, 0.06)
        plain.append(error_rate(chosen.threshold))
    broken = np.sum(np.array(promised) > 0.06)
    assert broken <= scipy.stats.binom(trials, 1 - confidence).ppf(0.999)
    # Without control, the true rate is above the wanted one far more often.
    assert np.sum(np.array(plain) > 0.06) > 0.35 * trials


def test_most_of_what_could_be_answered_is():
    rng, shares = np.random.default_rng(3), []
    for _ in range(30):
        scores = rng.uniform(size=1000)
        errors = rng.uniform(size=1000) < 0.5 * scores**6
        shares.append(controlled_threshold(scores, errors, 0.05, 0.95).coverage)
    # The error rate of a share c is 0.5 c^6 / 7.
    assert np.mean(shares) > 0.9 * 0.7 ** (1 / 6)


def test_the_bound_is_that_of_clopper_and_pearson():
    bound = float(upper_error_rate(3, 80, 0.9))
    assert scipy.stats.binom.cdf(3, 80, bound) == pytest.approx(0.1)
    assert float(upper_error_rate(5, 5, 0.9)) == 1.0


def test_nothing_is_answered_where_nothing_can_be_promised():
    chosen = controlled_threshold(np.arange(10.0), np.zeros(10), 0.01, 0.95)
    assert math.isnan(chosen.threshold) and chosen.coverage == 0.0


def test_all_is_answered_where_all_is_right():
    chosen = controlled_threshold(np.arange(500.0), np.zeros(500), 0.05, 0.95)
    assert chosen == metrics.RejectThreshold(499.0, 1.0, 0.0)


def test_rows_of_equal_score_stay_together_and_nan_is_rejected():
    scores = np.array([0.0] * 300 + [1.0] * 100 + [np.nan] * 100)
    errors = np.array([0] * 300 + [1] * 5 + [0] * 95 + [1] * 100)
    chosen = controlled_threshold(scores, errors, 0.02, 0.9)
    assert chosen == metrics.RejectThreshold(0.0, 0.6, 0.0)


def test_shares_are_those_of_the_given_rows():
    scores, errors = rows(np.random.default_rng(5), 600)
    threshold, coverage, risk = controlled_threshold(scores, errors, 0.1, 0.9)
    answered = scores <= threshold
    assert 0 < risk == pytest.approx(errors[answered].mean())
    assert coverage == pytest.approx(answered.mean())


def test_numbers_that_are_no_probabilities_are_refused():
    with pytest.raises(ValueError, match="confidence"):
        controlled_threshold([0.1], [0], 0.1, 1.0)
    with pytest.raises(ValueError, match="one of each"):
        controlled_threshold([0.1, 0.2], [0], 0.1, 0.9)


@pytest.mark.parametrize("error", [0.01, 2, math.nan])
def test_losses_are_not_counted_as_wrong_answers(error):
    errors = np.array([0.0] * 399 + [error])
    with pytest.raises(ValueError, match="1 .wrong. or 0 .right."):
        controlled_threshold(np.arange(400.0), errors, 0.02, 0.95)


# -- drift -----------------------------------------------------------------


def highest(martingale, scores):
    return martingale.update(scores).max()


def test_false_alarms_are_as_rare_as_stated():
    rng, rate, runs = np.random.default_rng(1), 0.1, 300
    # Few calibration rows, and many ties: nothing may depend on either.
    alarms = [
        highest(
            ConformalMartingale(rng.integers(0, 9, size=20), seed=run),
            rng.integers(0, 9, size=200),
        )
        >= -math.log(rate)
        for run in range(runs)
    ]
    assert np.sum(alarms) <= scipy.stats.binom(runs, rate).ppf(0.999)


def test_the_mean_wealth_of_exchangeable_rows_stays_one():
    """With a single calibration row, where every count of rows matters."""
    rng, wealth = np.random.default_rng(6), []
    for run in range(4000):
        martingale = ConformalMartingale(rng.uniform(size=1), seed=run)
        wealth.append(math.exp(martingale.update(rng.uniform(size=4))[-1]))
    assert abs(np.mean(wealth) - 1) < 4 * scipy.stats.sem(wealth)


@pytest.mark.parametrize("shift", [1.5, -1.5, np.inf])
def test_a_shift_is_found_within_200_rows(shift):
    rng = np.random.default_rng(2)
    martingale = ConformalMartingale(rng.normal(size=300))
    assert highest(martingale, rng.normal(size=100)) < math.log(100)
    assert highest(martingale, rng.normal(size=200) + shift) > math.log(100)


def test_nan_is_strange():
    martingale = ConformalMartingale(np.arange(100.0))
    assert martingale.update(np.full(30, np.nan))[-1] > math.log(100)
