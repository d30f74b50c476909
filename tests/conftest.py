"""Every run has the same initial weights, so that failures can be repeated."""

import os

import keras
import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests of fresh processes wait for them."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True, scope="module")
def seed_of_module():
    """For what the tests of a module share."""
    keras.utils.set_random_seed(0)
    yield
    # TensorFlow keeps what was compiled, which would fill the memory of a whole run.
    keras.utils.clear_session()


@pytest.fixture(autouse=True)
def seed_of_test(seed_of_module):
    keras.utils.set_random_seed(0)
