"""A learner that several files of tests read, trained once."""

import pytest

from tests.active.learners import learner, make, pool


@pytest.fixture(scope="session")
def bhn_run(tmp_path_factory):
    """A Bayesian hypernet after two rounds, in graphs, and its folder: read-only."""
    folder = tmp_path_factory.mktemp("bhn")
    found = learner(make_model=make("bhn", run_eagerly=False), directory=folder)
    found.run(2, validation_data=pool(20))
    return found, folder
