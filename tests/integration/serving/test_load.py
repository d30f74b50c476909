"""Many requests at once, of all sizes and signatures, to one loaded model."""

import types

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import served_load
from tests import networks

SIGNATURES = ("serving_default", "sample", "deterministic")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    return tf.saved_model.load(networks.bayesian().export(folder, num_samples=4))


def put_under(served, num_requests):
    x, _ = networks.data(100)
    asked = served_load.requests(x, num_requests, SIGNATURES)
    assert {request.signature for request in asked} == set(SIGNATURES)
    sizes = [len(request.inputs["inputs"]) for request in asked]
    assert min(sizes) < 5 and max(sizes) > 60
    return served_load.put_under(served, asked)


@pytest.mark.slow
def test_requests_of_four_threads_are_answered_as_those_of_one(served):
    load = put_under(served, 400)
    assert load.wrong == 0 and load.grown < 20
    assert sum(map(len, load.seconds.values())) == 400
    table = served_load.as_table({"hypernet": load})
    assert all(name in table for name in SIGNATURES)


def test_a_wrong_answer_is_found(served):
    """For example, threads that got each other's draws."""

    def confused(inputs, num_samples, seed):
        noise = np.random.default_rng().normal(size=len(inputs))
        return {"samples": tf.constant(noise)}

    confusing = types.SimpleNamespace(
        signatures={**served.signatures, "sample": confused}
    )
    assert put_under(confusing, 100).wrong > 0


@pytest.mark.slow
def test_ten_thousand_requests(served):
    load = put_under(served, 10_000)
    assert load.wrong == 0 and load.grown < 20
