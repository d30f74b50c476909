"""A forked process is told that it lacks TensorFlow's threads, and does not wait."""

import multiprocessing
import sys
import warnings

import pytest

from tests import networks


def ask(queue, model, method, data):
    try:
        getattr(model, method)(*data, verbose=0)
    except BaseException as error:
        queue.put((type(error).__name__, str(error)))
    else:
        queue.put(("answered", ""))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork.")
@pytest.mark.parametrize(
    "method", ["fit", "evaluate", "predict", "predict_uncertainty"]
)
def test_a_fork_is_refused_and_its_parent_goes_on(method):
    model = networks.bayesian()
    model.compile("sgd")
    x, y = networks.data(4)
    data = (x,) if method.startswith("predict") else (x, y)
    processes = multiprocessing.get_context("fork")
    queue = processes.Queue()
    child = processes.Process(target=ask, args=(queue, model, method, data))
    with warnings.catch_warnings():
        # From Python 3.12 on, which warns of what is shown here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    try:
        error, message = queue.get(timeout=60)
    finally:
        child.kill()
        child.join()
    assert error == "RuntimeError" and 'get_context("spawn")' in message
    model.predict(x, verbose=0)
