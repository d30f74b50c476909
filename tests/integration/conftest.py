"""Processes of their own: some settings hold for a whole process."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
# Warnings are errors there too, but for those of pyproject.toml.
WARNINGS = [
    "-Werror",
    "-Wignore:distutils Version classes:DeprecationWarning",
    "-Wignore:__array__ implementation:DeprecationWarning",
]


@pytest.fixture(scope="session")
def run_python():
    """Starts Python with arguments and further variables of the environment.

    Returns a function that waits for the output.
    """

    def start(*args, **environment):
        process = subprocess.Popen(
            [sys.executable, *WARNINGS, *map(str, args)],
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "",
                "PYTHONPATH": str(ROOT),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

        def output():
            try:
                stdout, stderr = process.communicate(timeout=600)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise
            assert process.returncode == 0, stdout[-2000:] + stderr[-6000:]
            return stdout

        return output

    return start
