"""Thresholds and the guarantee, by numbers alone: no network takes part."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from bhn_tf.conformal import ranks
from bhn_tf.conformal.set_scores import APS, LAC, RAPS, set_of

LEVELS = ("0.5", "0.9", "0.95", "0.99", "0.07", "0.3", "0.7")


@pytest.mark.parametrize("level", LEVELS)
def test_the_rank_is_exact_for_any_number_of_rows(level):
    n = np.arange(1, 3000)
    exact = [math.ceil((int(rows) + 1) * Fraction(level)) for rows in n]
    parts = ranks.parts_of(float(level))
    assert ranks.rank(n, parts).tolist() == exact
    assert ranks.parts_of(np.float32(level)) == parts


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_the_threshold_is_numpys_quantile(level):
    scores = np.sort(np.random.default_rng(0).normal(size=43))
    found = ranks.thresholds(scores, [43], level)
    share = math.ceil(44 * level) / 43
    assert found == [np.quantile(scores, share, method="inverted_cdf")]


def test_too_few_rows_say_how_many_are_needed():
    for rows in (1, 8):
        with pytest.raises(ValueError, match="at least 9 calibration rows"):
            ranks.thresholds(np.zeros(rows), [rows], 0.9)
    assert ranks.thresholds(np.arange(9.0), [9], 0.9) == [8.0]
    with pytest.raises(ValueError, match=r"groups \['b'\] have \[2\]"):
        ranks.thresholds(np.zeros(11), [9, 2], 0.9, ["a", "b"])


@pytest.mark.parametrize("level", ["0.9", None, 90, True, [0.9], float("nan")])
def test_a_level_is_a_probability(level):
    with pytest.raises(ValueError, match="probability between 0 and 1"):
        ranks.parts_of(level)


def test_one_row_is_enough_for_a_half():
    assert ranks.thresholds(np.array([3.0]), [1], 0.5) == [3.0]


@pytest.mark.parametrize("level", [0.0, 1.0, 0.9999999, -1, float("nan"), [0.9]])
def test_what_is_no_level_is_refused(level):
    with pytest.raises(ValueError, match="probability"):
        ranks.parts_of(level)


def test_a_request_gets_the_same_thresholds():
    scores = np.random.default_rng(0).normal(size=[50, 2])
    scores = np.concatenate([np.sort(part, axis=0) for part in np.split(scores, [20])])
    for level in (0.5, 0.9, 0.95):
        here = ranks.thresholds(scores, [20, 30], level)
        there = ranks.thresholds_in_graph(tf.constant(scores), [20, 30], level)
        np.testing.assert_array_equal(here, there)
    with pytest.raises(tf.errors.InvalidArgumentError, match="calibration rows"):
        ranks.thresholds_in_graph(tf.constant(scores), [20, 30], 0.99)


def inside(values, num_trials, n, rank, rows):
    """Whether a mean coverage is within its beta-binomial interval, 1 in 10^4 off."""
    law = scipy.stats.betabinom(rows, rank, n + 1 - rank)
    error = law.std() / rows / math.sqrt(num_trials)
    return abs(np.mean(values) - law.mean() / rows) < 3.9 * error


def test_coverage_over_many_splits_is_that_of_the_beta_binomial():
    rng, n, rows, trials = np.random.default_rng(1), 57, 40, 4000
    # Scores of any law: only their order counts.
    scores = rng.gamma(0.3, size=[trials, n + rows])
    calibration = np.sort(scores[:, :n], axis=1)
    for level in (0.5, 0.9):
        rank = int(ranks.rank(n, ranks.parts_of(level)))
        covered = scores[:, n:] <= calibration[:, [rank - 1]]
        assert inside(covered.mean(axis=1), trials, n, rank, rows)
        assert level <= rank / (n + 1) < level + 1 / (n + 1)


def test_ties_cover_more_and_never_less():
    rng, n, trials = np.random.default_rng(2), 30, 4000
    scores = rng.integers(0, 4, size=[trials, n + 1])
    thresholds = ranks.thresholds(np.sort(scores[:, :n], axis=1).T, [n], 0.8)
    assert (scores[:, n] <= thresholds).mean() > 0.8


# -- sets ------------------------------------------------------------------


def probabilities(rows=400, classes=5, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.5), size=rows)
    y = np.array([rng.choice(classes, p=row) for row in p])
    return p, y


@pytest.mark.parametrize(
    "numbers", [{"lam": -0.1}, {"lam": "much"}, {"k": -1}, {"k": 1.5}], ids=str
)
def test_prices_without_sense_are_refused(numbers):
    with pytest.raises(ValueError, match=f"`{next(iter(numbers))}`"):
        RAPS(**numbers)


@pytest.mark.parametrize("score", [LAC(), APS(), APS(True), RAPS(0.1, 2, True)])
def test_sets_cover_as_often_as_they_say(score):
    rng, n, rows, trials, level = np.random.default_rng(4), 49, 20, 300, 0.8
    p, y = probabilities((n + rows) * trials, seed=5)
    u = tf.constant(rng.uniform(size=len(p)))
    scores = score.of_classes(p, u).numpy()
    own = scores[np.arange(len(p)), y].reshape(trials, n + rows)
    limits = ranks.thresholds(np.sort(own[:, :n], axis=1).T, [n], level)[0]
    covered = own[:, n:] <= limits[:, None]
    rank = int(ranks.rank(n, ranks.parts_of(level)))
    assert inside(covered.mean(axis=1), trials, n, rank, rows)


def test_the_price_is_one_in_a_hundred_from_the_second_class_on_unless_given():
    p = tf.constant([[0.2, 0.5, 0.3]])
    price = RAPS().of_classes(p) - APS().of_classes(p)
    np.testing.assert_allclose(price, [[0.02, 0.0, 0.01]], atol=1e-6)


@pytest.mark.parametrize("score", [APS(), RAPS(0.1, 2), LAC()], ids=type)
@pytest.mark.parametrize("gap", [25.0, 200.0])
def test_a_sure_row_has_a_set_of_one_class(score, gap):
    """scikit-learn-contrib/MAPIE#254: classes of probability 0 are in every set."""
    y = np.arange(1000) % 5
    p = tf.nn.softmax(gap * np.eye(5, dtype="float32")[y])
    scores = score.of_classes(p).numpy()
    # One row of a hundred is wrong.
    truth = np.where(np.arange(1000) % 100, y, (y + 1) % 5)
    limit = ranks.thresholds(np.sort(scores[np.arange(1000), truth]), [1000], 0.9)
    assert (set_of(scores, limit, p).numpy().sum(axis=1) == 1).all()


def test_an_empty_set_becomes_the_likeliest_class_unless_asked():
    p = tf.constant([[0.2, 0.5, 0.3]])
    scores = LAC().of_classes(p)
    assert set_of(scores, 0.1, p).numpy().tolist() == [[False, True, False]]
    assert not set_of(scores, 0.1, p, allow_empty=True).numpy().any()


@pytest.mark.parametrize("score", [LAC(), APS()])
def test_a_row_of_nan_holds_every_class(score):
    p = tf.constant([[np.nan, np.nan], [0.9, 0.1]])
    found = set_of(score.of_classes(p), 0.5, p).numpy()
    assert found.tolist() == [[True, True], [True, False]]
