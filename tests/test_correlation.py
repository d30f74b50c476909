"""Pearson's test of pairs, against scipy's own and on values known to depend."""

import numpy as np
import pytest
from scipy import stats

from bhn_tf import correlation


@pytest.fixture
def draws():
    random = np.random.default_rng(0)
    independent = random.normal(size=(200, 5))
    return np.column_stack([independent, independent[:, 0] + independent[:, 1]])


def test_each_pair_has_the_values_of_scipy(draws):
    found = correlation.pearson_test(draws)
    assert found.pairs.shape == (15, 2)
    for (i, j), r, p in zip(*found, strict=True):
        expected = stats.pearsonr(draws[:, i], draws[:, j])
        assert r == pytest.approx(expected.statistic, abs=1e-12)
        assert p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-300)
    dependent = {tuple(sorted(pair)) for pair in found.pairs[found.p_value < 1e-9]}
    assert dependent == {(0, 5), (1, 5)}


def test_independent_values_are_below_the_level_as_often_as_it_says():
    draws = np.random.default_rng(1).normal(size=(1_000, 300))
    p_value = correlation.pearson_test(draws).p_value
    assert len(p_value) == 300 * 299 // 2
    assert (p_value < 0.05).mean() == pytest.approx(0.05, abs=0.005)


def test_a_subset_is_random_repeats_and_names_its_values(draws):
    found = correlation.pearson_test(draws, max_values=3, seed=1)
    assert len(found.p_value) == 3 and len(set(found.pairs.ravel())) == 3
    again = correlation.pearson_test(draws, max_values=3, seed=1)
    np.testing.assert_array_equal(found.pairs, again.pairs)
    (i, j), r = found.pairs[0], found.correlation[0]
    assert r == pytest.approx(np.corrcoef(draws[:, i], draws[:, j])[0, 1])


def test_perfect_and_missing_variation():
    column = np.arange(5.0)
    found = correlation.pearson_test(np.column_stack([column, -column, np.ones(5)]))
    np.testing.assert_allclose(found.correlation, [-1, 0, 0])
    np.testing.assert_allclose(found.p_value, [0, 1, 1], atol=1e-12)


def test_values_that_never_vary_depend_on_nothing_whatever_their_mean_rounds_to():
    columns = np.random.default_rng(0).normal(size=(100, 9))
    columns[:, :7] = [0.1, 0.7, 1 / 3, -1e5 / 3, 1e-200, 1e300, 0.0]
    found = correlation.pearson_test(columns)
    is_varying = (found.pairs >= 7).all(axis=1)
    assert is_varying.sum() == 1 and abs(found.correlation[is_varying]) > 0
    assert (found.correlation[~is_varying] == 0).all()
    assert (found.p_value[~is_varying] == 1).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_draws_that_are_not_finite_are_refused(value, draws):
    draws = draws.copy()
    draws[0, 0] = value
    with pytest.raises(ValueError, match="NaN or infinite"):
        correlation.pearson_test(draws)


@pytest.mark.parametrize(
    "numbers", [{"max_values": 1}, {"max_values": -1}, {"seed": -1}], ids=str
)
def test_numbers_without_sense_are_refused(numbers, draws):
    with pytest.raises(ValueError, match=f"`{next(iter(numbers))}`"):
        correlation.pearson_test(draws, **numbers)


@pytest.mark.parametrize("shape", [(5,), (2, 4), (5, 1)])
def test_too_few_draws_or_values_are_refused(shape):
    with pytest.raises(ValueError, match=r"\[S, D\]"):
        correlation.pearson_test(np.zeros(shape))
