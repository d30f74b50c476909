"""A forked process is told that it lacks TensorFlow's threads, and does not wait."""

import multiprocessing
import sys
import warnings

import pytest

import bhn_tf
from bhn_tf import conformal, hamiltonian
from bhn_tf.serving.served_model import ServedModel
from tests import networks

DRAWS = {"num_samples": 4}


def calls(folder):
    """Every call that runs a graph, by name, and the model that has them."""
    model = networks.bayesian(num_examples=4)
    model.compile("sgd")
    x, y = networks.data(4)
    calibrated = conformal.calibrate(model, x, y, **DRAWS)
    served = ServedModel(model.export(folder, 2, ("serving_default",)))
    draws = model.sample_scales(2)
    return model, {
        **{
            name: lambda name=name: getattr(model, name)(x, y)
            for name in ("fit", "evaluate", "train_on_batch", "test_on_batch", "elbo")
        },
        **{
            name: lambda name=name: getattr(model, name)(x)
            for name in ("predict", "predict_uncertainty", "predict_on_batch")
        },
        "calibrated predict": lambda: calibrated.predict(x),
        "calibrated predict_set": lambda: calibrated.predict_set(x, 0.5),
        "calibrate": lambda: conformal.calibrate(model, x, y, **DRAWS),
        "diagnose": lambda: bhn_tf.diagnose(model, x, y, **DRAWS),
        "attack": lambda: bhn_tf.attacks.fgsm(model, x, y, 0.1, clip=None),
        "chains": lambda: hamiltonian.hamiltonian_monte_carlo(model, x, y, 16, 4),
        "answers of chains": lambda: hamiltonian.samples(model, x, draws),
        "served": lambda: served({"inputs": x}),
    }


def ask(queue, functions):
    for name, call in functions.items():
        try:
            call()
        except BaseException as error:
            queue.put((name, type(error).__name__, str(error)))
        else:
            queue.put((name, "answered", ""))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork.")
def test_a_fork_is_refused_and_its_parent_goes_on(tmp_path):
    model, functions = calls(tmp_path)
    processes = multiprocessing.get_context("fork")
    queue = processes.Queue()
    child = processes.Process(target=ask, args=(queue, functions))
    with warnings.catch_warnings():
        # From Python 3.12 on, which warns of what is shown here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    try:
        answers = [queue.get(timeout=60) for _ in functions]
    finally:
        child.kill()
        child.join()
    for name, error, message in answers:
        assert error == "RuntimeError" and 'get_context("spawn")' in message, name
    model.predict(networks.data(4)[0], verbose=0)
