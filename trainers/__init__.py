"""Binaries that reproduce the paper's experiments: flags in, results out."""

import logging
import os

# TensorFlow's remarks on the machine would bury what a trainer has to say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
logging.getLogger("tensorflow").setLevel(logging.ERROR)
