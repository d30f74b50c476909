"""Imports TensorFlow without the remarks that it prints about the machine."""

import importlib
import logging
import os
import re
import sys

# What TensorFlow's C++ writes before it reads TF_CPP_MIN_LOG_LEVEL. Everything else is
# shown, such as fatal messages ("F0000 ...") and those of Python.
_REMARK = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|[IWE]\d{4} \d\d:\d\d:"
)


def import_tensorflow() -> None:
    """Imports TensorFlow so that it shows only errors, now and afterwards.

    TF_CPP_MIN_LOG_LEVEL is respected where it is set. Its default here is "3", since
    Python's exceptions say what fails.
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
        # This closes the last writing end of the pipe, so that the filter ends, too.
        os.dup2(shown, 2)
        os.close(shown)
        os.waitpid(filtering, 0)


def _start_filter(shown: int) -> int:
    """Starts a process that passes on stderr without the remarks; returns its id.

    It is no thread: if TensorFlow dies in the import, its last words still get through.
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
