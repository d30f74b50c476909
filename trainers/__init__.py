"""Binaries that reproduce the paper's experiments: flags in, results out."""

from trainers.quiet_start import import_tensorflow

import_tensorflow()
