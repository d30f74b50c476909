"""What the machine is and can do, and the versions of the software on it."""

import importlib.metadata
import os
import platform

import numpy as np
import tensorflow as tf

from benchmarks.timing import in_turns

_PACKAGES = ("tensorflow", "keras", "tensorflow-probability", "tf_keras", "numpy")


def description() -> dict:
    """Machine and versions, for the results file."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith("model name")]
        return lines[0].split(":", 1)[1].strip()
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def rates(repeats: int) -> dict[str, float]:
    """Measured limits: FLOPs a second of a product of matrices, bytes a second.

    The product has the shape of the perceptron's middle layer at batch 128. The bytes
    are those of an update of 16 million numbers, more than a cache holds.
    """
    left = tf.random.normal([128, 800])
    right = tf.random.normal([800, 800])
    weights = tf.Variable(tf.zeros([16_000_000]))
    seconds = in_turns(
        {
            "product": tf.function(lambda: tf.matmul(left, right), jit_compile=True),
            "update": tf.function(
                lambda: weights.assign(weights * 0.999 + 1.0), jit_compile=True
            ),
        },
        repeats,
        calls=10,
    )
    return {
        "flops": 2 * 128 * 800 * 800 / float(np.min(seconds["product"])),
        "bytes": 2 * 4 * 16_000_000 / float(np.min(seconds["update"])),
    }
