"""A warning names the user's line, however deep in the library it arises."""

import contextlib
import inspect
import warnings

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.user_warnings import warn_user

X, Y = np.zeros([4, 2], "float32"), np.zeros(4, "int32")


@pytest.fixture
def model():
    network = keras.Sequential([keras.Input((2,)), WeightNormDense(3)])
    model = bhn_tf.BayesianHypernet(network, "mean_field", num_examples=5)
    model.compile("adam")
    return model


@contextlib.contextmanager
def expected_at(message):
    """Gives a list for the line that such a warning has to name."""
    lines = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lines
    found = [each for each in caught if message in str(each.message)]
    assert [(each.filename, each.lineno) for each in found] == [(__file__, *lines)]


def here() -> int:
    return inspect.currentframe().f_back.f_lineno


def test_outside_of_the_library_it_is_the_call_itself():
    with expected_at("old") as lines:
        warn_user("old", DeprecationWarning)
        lines.append(here() - 1)


def test_through_fit_and_what_keras_wraps_it_in(model):
    with expected_at("`num_examples` is 5") as lines:
        model.fit(X, Y, verbose=0)
        lines.append(here() - 1)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["fit", "evaluate", "predict", "predict_uncertainty"])
def test_before_every_call_that_asks_for_it(model, name):
    model.predict(X, num_samples=1, verbose=0)
    model.posterior.variables[0].assign([7.0, 7.0, 7.0])
    arguments = (X, Y) if name in ("fit", "evaluate") else (X,)
    with expected_at("have no effect") as lines:
        getattr(model, name)(*arguments, verbose=0)
        lines.append(here() - 1)


@pytest.mark.slow
def test_from_a_callback_of_the_users(model):
    class Asks(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            model.posterior.variables[0].assign([7.0, 7.0, 7.0])
            model.predict(X, num_samples=1, verbose=0)
            self.line = here() - 1

    asks = Asks()
    with expected_at("have no effect") as lines:
        model.fit(X, Y, verbose=0, callbacks=[asks])
        lines.append(asks.line)
