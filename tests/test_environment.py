"""`import bhn_tf` says in one sentence what is missing and how to fix it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def import_with(code: str, **environment) -> str:
    process = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport bhn_tf"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert process.returncode != 0
    return process.stderr.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("tf_keras", "pip install tf_keras"),
        ("tensorflow_probability", "pip install 'tensorflow-probability[tf]'"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_brings_it(module, command):
    message = import_with(f"import sys; sys.modules[{module!r}] = None")
    assert message.startswith("ImportError: bhn_tf needs " + module)
    assert message.endswith(command)


@pytest.mark.slow
def test_another_backend_is_refused():
    # A wrong backend is named even if its package is missing.
    code = "import keras; keras.backend.backend = lambda: 'jax'"
    message = import_with(code)
    assert "KERAS_BACKEND=tensorflow" in message


@pytest.mark.slow
def test_an_older_keras_is_refused_with_the_bound_of_setup_py():
    message = import_with("import keras; keras.__version__ = '3.9.2'")
    assert "Keras 3.11 or later and found 3.9.2" in message
    bound = re.search('"(keras>=.*)"', (ROOT / "setup.py").read_text())[1]
    assert message.endswith(f"pip install '{bound}'")


def test_keras_2_is_refused():
    message = import_with("", TF_USE_LEGACY_KERAS="1")
    assert "TF_USE_LEGACY_KERAS=0" in message
