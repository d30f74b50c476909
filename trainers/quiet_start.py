"""Imports TensorFlow without its remarks on the machine: the first screen is ours."""

import importlib
import logging
import os
import re
import sys

# What TensorFlow's C++ writes before it reads TF_CPP_MIN_LOG_LEVEL. Whatever else comes
# meanwhile, fatal messages ("F0000 ...") and Python's own, is shown.
_REMARK = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|[IWE]\d{4} \d\d:\d\d:"
)


def import_tensorflow() -> None:
    """Imports TensorFlow so that only errors are seen, of it and of all that follows.

    A user who sets TF_CPP_MIN_LOG_LEVEL gets what it asks for, "3" being the default
    here: Python's exceptions say what fails.
    """
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    is_quiet = os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    if "tensorflow" in sys.modules or not is_quiet or not hasattr(os, "fork"):
        return
    sys.stderr.flush()
    shown = os.dup(2)
    filtering = _start_filter(shown)
    try:
        importlib.import_module("tensorflow")
    finally:
        sys.stderr.flush()
        # The last writing end: the filter sees the end and ends, too.
        os.dup2(shown, 2)
        os.close(shown)
        os.waitpid(filtering, 0)


def _start_filter(shown: int) -> int:
    """Puts a process before stderr that passes on what is no remark; returns its id.

    A process: if TensorFlow dies in the import, its last words have to come through.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(reading)
        os.dup2(writing, 2)
        os.close(writing)
        return process
    os.close(writing)
    os.close(2)
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not _REMARK.match(line):
                os.write(shown, line)
    os._exit(0)
