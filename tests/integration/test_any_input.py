"""Any input to a public entry gives a sensible answer, or an error that says why."""

import contextlib

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies
from hypothesis.extra import numpy as arrays

from bhn_tf import metrics, uncertainty
from tests import networks
from tests.fuzzing import few, outcome

#: Errors that senseless input may raise.
REFUSED = (ValueError, TypeError)

FLOATS = strategies.floats(width=32)
SCORES = strategies.lists(FLOATS, max_size=6).map(np.array)
DTYPES = strategies.sampled_from(["float32", "float64", "int32", "int64", "bool", "U2"])


def any_array(shapes=None):
    """Arrays of all dtypes, also with NaN and infinities."""
    if shapes is None:
        shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0)
    return DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, shapes))


# -- functions of arrays -------------------------------------------------------------


@few(150)
@hypothesis.given(any_array(), strategies.sampled_from(sorted(uncertainty.SCORES)))
def test_scores_of_probabilities(values, name):
    found, problem = outcome(lambda: uncertainty.SCORES[name](values), *REFUSED)
    if problem is None and np.size(found):
        found = np.asarray(found)
        assert not (found < 0).any()
        # NaN where a row has one, and nowhere else.
        flat = np.asarray(values, "float64").reshape([*found.shape, -1])
        inside = ((flat >= 0) & (flat <= 1)).all(axis=-1)
        assert np.isfinite(found[inside]).all()


@few(100)
@hypothesis.given(SCORES, SCORES)
def test_detection(scores_in, scores_out):
    found, problem = outcome(lambda: metrics.detection(scores_in, scores_out), *REFUSED)
    assert (problem is None) == (len(scores_in) > 0 and len(scores_out) > 0)
    for value in (found or {}).values():
        assert 0 <= value <= 1


@few(100)
@hypothesis.given(
    SCORES, any_array(arrays.array_shapes(max_dims=1, min_side=0)), FLOATS
)
def test_rejecting(scores, wrong, rate):
    found, _ = outcome(lambda: metrics.reject_threshold(scores, wrong, rate), *REFUSED)
    if found is not None:
        assert 0 <= found.coverage <= 1
    curve, _ = outcome(lambda: metrics.risk_coverage(scores, wrong), *REFUSED)
    if curve is not None:
        # The risk is not checked: it has the units of the loss.
        assert ((curve.coverage > 0) & (curve.coverage <= 1)).all()


# -- a model -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    found = networks.compiled(
        networks.bayesian(hypernet="mean_field"), run_eagerly=True
    )
    found.fit(*networks.data(4), verbose=0)
    return found


def learned(model):
    """What training changes; a refused step may have drawn its noise."""
    return [keras.ops.convert_to_numpy(v) for v in model.trainable_variables]


def is_moderate(x) -> bool:
    """Whether the numbers fit arithmetic in float32; huge ones may overflow."""
    try:
        values = np.asarray(x, "float64")
    except (ValueError, TypeError):
        return False
    return bool((np.abs(values[np.isfinite(values)]) < 1e6).all())


@contextlib.contextmanager
def restored(model):
    """Gives the model back what one example has changed, for the next."""
    variables = [*model.variables, *model.optimizer.variables]
    values = [keras.ops.convert_to_numpy(v) for v in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def rows(width):
    """Often fitting arrays with some NaN or infinities, sometimes anything."""
    fitting = arrays.arrays(
        "float32", strategies.tuples(strategies.integers(0, 3), width)
    )
    return strategies.one_of(fitting, any_array())


LABELS = strategies.one_of(
    strategies.lists(strategies.integers(-1, 3), max_size=3).map(np.array), any_array()
)
NUMBERS = strategies.one_of(
    strategies.integers(-1, 3), FLOATS, strategies.none(), strategies.text(max_size=1)
)


@few(60)
@hypothesis.given(
    rows(strategies.just(networks.NUM_FEATURES)),
    LABELS,
    strategies.sampled_from(["fit", "evaluate", "train_on_batch", "test_on_batch"]),
)
def test_training_and_evaluation(model, x, y, call):
    kwargs = {"verbose": 0} if call in ("fit", "evaluate") else {}
    with restored(model):
        before = learned(model)
        _, problem = outcome(lambda: getattr(model, call)(x, y, **kwargs), *REFUSED)
        after = learned(model)
    # Refused data leave the weights unchanged, and no data make them NaN.
    if is_moderate(x):
        assert all(np.isfinite(value).all() for value in after)
    if problem is not None or call in ("evaluate", "test_on_batch"):
        for value, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(value, other)


@pytest.mark.slow
@few(60)
@hypothesis.given(
    rows(strategies.just(networks.NUM_FEATURES)),
    NUMBERS,
    NUMBERS,
    strategies.sampled_from(["predict", "predict_samples", "predict_uncertainty"]),
)
def test_predictions(model, x, num_samples, seed, call):
    before = networks.weights_of(model)
    found, problem = outcome(
        lambda: getattr(model, call)(x, num_samples=num_samples, seed=seed, verbose=0),
        *REFUSED,
    )
    for value, other in zip(before, networks.weights_of(model), strict=True):
        np.testing.assert_array_equal(value, other)
    if problem is None:
        sound = np.isfinite(np.asarray(x, "float64")).all(axis=-1)
        for value in keras.tree.flatten(found):
            assert len(value) == len(x)
            large = np.abs(np.asarray(x, "float64")).max(axis=-1, initial=0) > 1e15
            assert np.isfinite(value[sound & ~large]).all()
