"""Every run sees the same initial weights: a failure can be repeated."""

import keras
import pytest
import tensorflow as tf


def pytest_addoption(parser):
    parser.addoption(
        "--optimize-graphs",
        action="store_true",
        help="Leave TensorFlow's optimiser of graphs on, which rewrites each of the "
        "thousands of small graphs that the tests trace once and run a few times.",
    )


def pytest_configure(config):
    # Processes that tests start, to serve, to score or to go on, keep it.
    tf.config.optimizer.set_experimental_options(
        {"disable_meta_optimizer": not config.getoption("--optimize-graphs")}
    )


@pytest.fixture(autouse=True, scope="module")
def seed_of_module():
    """For what the tests of a module share."""
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def seed_of_test(seed_of_module):
    keras.utils.set_random_seed(0)
