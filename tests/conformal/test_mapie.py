"""The same scores give the same thresholds, sets and intervals as in MAPIE."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from bhn_tf.conformal import APS, LAC, RAPS, Absolute, ranks
from bhn_tf.conformal.interval_scores import Predictive
from bhn_tf.conformal.set_scores import set_of
from bhn_tf.likelihoods import Gaussian

pytest.importorskip("mapie", reason="compares with MAPIE")
from mapie import conformity_scores as scores
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor

LEVELS = [0.5, 0.8, 0.9, 0.95]
NUM_CLASSES, NUM_CALIBRATION = 5, 200


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose inputs are its probabilities."""

    def fit(self, x, y):
        self.classes_ = np.arange(NUM_CLASSES)
        return self

    def predict_proba(self, x):
        return x

    def predict(self, x):
        return np.argmax(x, axis=1)


class Identity(RegressorMixin, BaseEstimator):
    """A regressor whose inputs are its predictions."""

    def fit(self, x, y):
        self.fitted_ = True
        return self

    def predict(self, x):
        return x[:, 0]


class Constant(np.random.RandomState):
    """MAPIE's APS is always randomised; a random number of 0 takes nothing off."""

    def __init__(self, value):
        super().__init__(0)
        self._value = value

    def uniform(self, low=0.0, high=1.0, size=None):
        return np.full(size, self._value)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(NUM_CLASSES, 0.5), size=500)
    return p, np.array([rng.choice(NUM_CLASSES, p=row) for row in p])


def of_mapie(score, rows, uniform=0.0, **kwargs):
    """MAPIE's thresholds and sets, [rows, C, levels]."""
    p, y = rows
    model = SplitConformalClassifier(
        Given().fit(*rows), LEVELS, score, random_state=Constant(uniform)
    )
    model.conformalize(p[:NUM_CALIBRATION], y[:NUM_CALIBRATION])
    _, sets = model.predict_set(p[NUM_CALIBRATION:], **kwargs)
    return score.quantiles_, sets


def check(score, rows, thresholds, sets, uniform=0.0, allow_empty=False):
    p, y = rows
    u = tf.fill([len(p)], tf.constant(uniform, tf.float64))
    found = score.of_classes(p, u)
    own = found.numpy()[np.arange(len(p)), y][:NUM_CALIBRATION]
    limits = [ranks.thresholds(np.sort(own), [len(own)], level) for level in LEVELS]
    np.testing.assert_allclose(np.ravel(limits), thresholds, atol=1e-12)
    if sets is not None:
        later, p = found[NUM_CALIBRATION:], tf.constant(p[NUM_CALIBRATION:])
        for index, limit in enumerate(limits):
            possible = set_of(later, limit, p, allow_empty)
            np.testing.assert_array_equal(possible, sets[..., index])


def test_lac(rows):
    found = of_mapie(scores.LACConformityScore(), rows)
    assert not found[1].any(axis=1).all()
    check(LAC(), rows, *found, allow_empty=True)


# A score of at most the threshold, and no class beyond it.
WITHOUT_LAST = {"conformity_score_params": {"include_last_label": False}}


def test_aps(rows):
    found = of_mapie(scores.APSConformityScore(), rows, **WITHOUT_LAST)
    check(APS(), rows, *found)


def test_thresholds_of_randomised_aps(rows):
    # Without sets, for which MAPIE draws anew.
    thresholds, _ = of_mapie(scores.APSConformityScore(), rows, 0.4)
    check(APS(randomized=True), rows, thresholds, None, uniform=0.4)


def test_raps_of_the_same_price(rows):
    """λ and k are those that MAPIE finds on a part of the calibration rows."""
    for level in LEVELS[1:]:
        check_raps(rows, level)


def check_raps(rows, level):
    p, y = rows
    score = scores.RAPSConformityScore(size_raps=0.3)
    model = SplitConformalClassifier(
        Given().fit(*rows), level, score, random_state=Constant(0.0)
    )
    model.conformalize(p[:NUM_CALIBRATION], y[:NUM_CALIBRATION])
    _, sets = model.predict_set(p[NUM_CALIBRATION:], **WITHOUT_LAST)
    spent = {row.tobytes() for row in score.X_raps}
    kept = np.array([row.tobytes() not in spent for row in p[:NUM_CALIBRATION]])
    assert kept.sum() == NUM_CALIBRATION - len(score.X_raps)

    own = RAPS(float(score.lambda_star), int(score.k_star[0]))
    assert own.lam > 0
    found = own.of_classes(p)
    calibration = found.numpy()[np.arange(len(p)), y][:NUM_CALIBRATION][kept]
    limit = ranks.thresholds(np.sort(calibration), [kept.sum()], level)
    np.testing.assert_allclose(limit, score.quantiles_, atol=1e-12)
    later = tf.constant(p[NUM_CALIBRATION:])
    possible = set_of(found[NUM_CALIBRATION:], limit, later)
    np.testing.assert_array_equal(possible, sets[..., 0])


def test_absolute_residuals():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 1))
    y = x[:, 0] + rng.normal(size=300)
    model = SplitConformalRegressor(Identity().fit(x, y), LEVELS, "absolute")
    model.conformalize(x[:NUM_CALIBRATION], y[:NUM_CALIBRATION])
    _, bounds = model.predict_interval(x[NUM_CALIBRATION:])

    predictive = Predictive(Gaussian(1.0), tf.constant(x)[tf.newaxis])
    residuals = Absolute().of_targets(predictive, y[:, np.newaxis])
    own = np.sort(residuals[:NUM_CALIBRATION], axis=0)
    for index, level in enumerate(LEVELS):
        limit = ranks.thresholds(own, [NUM_CALIBRATION], level)
        for side, bound in enumerate(Absolute().interval(predictive, limit)):
            expected = bounds[:, side, index]
            np.testing.assert_allclose(bound[NUM_CALIBRATION:, 0], expected, atol=1e-12)


def test_where_mapie_is_a_rank_higher():
    """(n + 1) · level is an integer, but a little more in floating point."""
    n, level = 9, 0.3
    x, y = np.zeros([n, 1]), np.arange(1.0, n + 1)
    model = SplitConformalRegressor(Identity().fit(x, y), level, "absolute")
    model.conformalize(x, y)
    _, bounds = model.predict_interval(x[:1])
    assert ranks.thresholds(y, [n], level) == [3.0]
    assert bounds[0, 1, 0] == 4.0
