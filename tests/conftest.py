"""Every run has the same initial weights, so that failures can be repeated."""

import gc

import keras
import pytest


def pytest_collection_finish():
    """Traced graphs are many small objects, which Python would look through often."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def seed_of_module():
    """For what the tests of a module share."""
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def seed_of_test(seed_of_module):
    keras.utils.set_random_seed(0)
