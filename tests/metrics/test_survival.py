"""The concordance index, against pairs counted by hand."""

import itertools

import numpy as np
import pytest

from bhn_tf.metrics import concordance_index

RANDOM = np.random.default_rng(0)
TIME = RANDOM.integers(1, 15, size=40).astype(float)
EVENT = RANDOM.integers(2, size=40)
PREDICTION = np.round(TIME + RANDOM.normal(scale=4.0, size=40))


def test_it_is_the_share_of_known_pairs_in_the_right_order():
    scores = []
    for first, then in itertools.permutations(range(len(TIME)), 2):
        # A row censored at the time of an event counts as waiting longer.
        is_tied = TIME[first] == TIME[then] and not EVENT[then]
        if EVENT[first] and (TIME[first] < TIME[then] or is_tied):
            difference = PREDICTION[then] - PREDICTION[first]
            scores.append(1.0 if difference > 0 else 0.5 * (difference == 0))
    expected = np.mean(scores)
    assert concordance_index(TIME, EVENT, PREDICTION) == pytest.approx(expected)
    assert concordance_index(TIME, EVENT, -PREDICTION) == pytest.approx(1 - expected)


@pytest.mark.parametrize("which", range(3))
def test_what_has_no_order_is_refused(which):
    given = [TIME, EVENT.astype(float), PREDICTION]
    given[which] = np.where(np.arange(40) == 3, np.nan, given[which])
    with pytest.raises(ValueError, match="got NaN or infinite"):
        concordance_index(*given)
    given[which] = given[which][:30]
    with pytest.raises(ValueError, match="one number of each for each row"):
        concordance_index(*given)
    with pytest.raises(ValueError, match="No pair of rows"):
        concordance_index(TIME, np.zeros(40), PREDICTION)


@pytest.mark.parametrize("event", [EVENT + 1, EVENT - 1, EVENT / 2])
def test_other_codes_of_events_are_refused(event):
    with pytest.raises(ValueError, match="Recode them"):
        concordance_index(TIME, event, PREDICTION)
