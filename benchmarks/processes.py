"""Measurements that need a process of their own: starting up, and memory."""

import os
import statistics
import subprocess
import sys

import numpy as np

from benchmarks.rows import Row

_IMPORTS = """
import time
import tensorflow, tensorflow_probability
start = time.perf_counter()
import bhn_tf
print(time.perf_counter() - start)
"""

_FIRST_STEP = """
import time
import numpy as np
import keras
import bhn_tf
from benchmarks import networks
x, y = networks.data(networks.PERCEPTRON, networks.BATCH_SIZE)
start = time.perf_counter()
primary = networks.stack(
    networks.PERCEPTRON, keras, bhn_tf.layers.WeightNormDense, None
)
model = bhn_tf.BayesianHypernet(primary, "iaf")
model.compile("adam")
model.fit(x, y, batch_size=networks.BATCH_SIZE, verbose=0)
print(time.perf_counter() - start)
"""

_PREDICT = """
import numpy as np
import keras
import bhn_tf
from benchmarks import processes
x = np.zeros((10_000, 784), "float32")
def network(dense):
    return keras.Sequential([
        keras.Input((784,)), dense(100, activation="relu"), dense(10)])
if {num_samples}:
    model = bhn_tf.BayesianHypernet(network(bhn_tf.layers.WeightNormDense))
    model.{call}(x, batch_size={batch_size}, num_samples={num_samples}, verbose=0)
else:
    network(keras.layers.Dense).predict(x, batch_size={batch_size}, verbose=0)
print(processes.peak_memory())
"""


def peak_memory() -> float:
    """The highest resident memory of this process so far, in MB.

    `ru_maxrss` would not do: it begins with the memory of the parent.
    """
    with open("/proc/self/status") as file:
        (peak,) = [line.split()[1] for line in file if line.startswith("VmHWM")]
    return int(peak) / 1024


def startup(repeats: int) -> list[Row]:
    """Times the import, and construction to the end of the first step."""
    rows = []
    for work, source, bound in (
        ("`import bhn_tf` after TensorFlow and TFP", _IMPORTS, 0.5),
        ("construction to the end of the first step, IAF-8 MLP", _FIRST_STEP, 10.0),
    ):
        seconds = [number_from(source) for _ in range(repeats)]
        low, high = np.percentile(seconds, [25, 75])
        rows.append(
            Row(
                work,
                "",
                statistics.median(seconds),
                bound,
                unit="s",
                spread=float(high - low) / 2,
                detail={"repeats": repeats},
            )
        )
    return rows


def memory(draws: tuple[int, ...], batch_size: int = 1000) -> list[Row]:
    """Peak memory of predictions of 10,000 rows, beyond that of plain `predict`."""
    plain = number_from(
        _PREDICT.format(num_samples=0, call="predict", batch_size=batch_size)
    )
    rows = []
    for call in ("predict", "predict_uncertainty"):
        for num_samples in draws:
            source = _PREDICT.format(
                num_samples=num_samples, call=call, batch_size=batch_size
            )
            rows.append(
                Row(
                    f"peak memory of `{call}`, 10,000 rows, S = {num_samples:,}",
                    "plain `predict`",
                    number_from(source) - plain,
                    500.0,
                    unit="MB more",
                    detail={"plain": plain},
                )
            )
    return rows


def number_from(source: str) -> float:
    """Runs a program and returns the number that it prints last."""
    result = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"A measured program failed:\n{result.stderr}")
    return float(result.stdout.split()[-1])
