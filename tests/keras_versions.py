"""Which Keras a test runs with, where an early one cannot do what it states."""

import keras
import pytest
from packaging.version import Version


def keras_before(version: str) -> bool:
    """Whether the installed Keras is older than a version."""
    return Version(keras.__version__) < Version(version)


def needs_keras(version: str, reason: str) -> pytest.MarkDecorator:
    """Marks a test as skipped with Keras before a version."""
    return pytest.mark.skipif(keras_before(version), reason=reason)
