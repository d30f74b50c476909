"""Memory does not grow, however often a model is trained and asked."""

import gc
import pathlib
import resource

import pytest
import tensorflow as tf

from bhn_tf import attacks, likelihoods
from tests import networks

STATUS = pathlib.Path("/proc/self/statm")


def resident_megabytes():
    gc.collect()
    pages = int(STATUS.read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.fixture(scope="module")
def model():
    if not STATUS.exists():
        pytest.skip("Resident memory is read from /proc.")
    model = networks.compiled(networks.bayesian(num_examples=8))
    model.fit(*networks.data(8), verbose=0)
    return model


def grown(call, num_calls):
    """Growth over `num_calls`, after a tenth of them as warm-up."""
    for _ in range(num_calls // 10):
        call()
    before = resident_megabytes()
    for _ in range(num_calls):
        call()
    return resident_megabytes() - before


@pytest.mark.slow
def test_eager_predictions(model):
    x, _ = networks.data(8)
    assert grown(lambda: model(x), 200) < 20


@pytest.mark.slow
def test_fits(model):
    x, y = networks.data(8)
    assert grown(lambda: model.fit(x, y, verbose=0), 100) < 20


@pytest.mark.slow
def test_predictions_and_evaluations(model):
    x, y = networks.data(8)

    def call():
        model.predict(x, num_samples=2, verbose=0)
        model.evaluate(x, y, verbose=0)

    assert grown(call, 80) < 20


def num_graphs():
    gc.collect()
    return sum(isinstance(each, tf.Graph) for each in gc.get_objects())


def fit(model, folder):
    model.fit(*networks.data(8), verbose=0)


def fit_by_xla(model, folder):
    networks.compiled(model, jit_compile=True)
    model.fit(*networks.data(8), verbose=0)


def ask(model, folder):
    x, y = networks.data(8)
    model.evaluate(x, y, verbose=0)
    model.predict(x, verbose=0)
    model.predict_uncertainty(x)


def attack(model, folder):
    attacks.fgsm(model, *networks.data(8), epsilon=0.1, clip=None)


def export(model, folder):
    model.export(folder)


@pytest.mark.few(1)
@pytest.mark.parametrize("use", [fit, fit_by_xla, ask, attack, export])
def test_a_model_that_is_gone_leaves_no_graph(use, tmp_path):
    """TensorFlow keeps each custom gradient of a graph, and with it the graph."""
    use(networks.compiled(networks.bayesian(num_examples=8)), tmp_path)
    before = num_graphs()
    use(networks.compiled(networks.bayesian(num_examples=8)), tmp_path)
    assert num_graphs() == before


@pytest.mark.slow
def test_functions_that_all_models_call_are_differentiated_later():
    """TFP has one graph of its log-beta function for all; see `tensorflow_adapter`."""
    x, _ = networks.data(8)
    for trainable in [False, True]:
        likelihood = likelihoods.StudentT(trainable=trainable)
        model = networks.bayesian(likelihood=likelihood, num_examples=8)
        networks.compiled(model)
        model.evaluate(x, x[:, :3], verbose=0)
        model.fit(x, x[:, :3], verbose=0)
