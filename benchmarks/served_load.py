"""A served model under load: `python -m benchmarks.served_load`.

Several threads send requests of 1 to 64 rows, their signatures mixed, to one exported
model, and to the plain network beside it. Answers that are seeded or without noise have
to be those that one thread gets, and memory must not grow; latencies are shown.
"""

import collections
import gc
import os
import resource
import tempfile
import time
from concurrent import futures
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import bhn_tf
from bhn_tf import baselines
from bhn_tf.tables import text_table
from trainers.serving_example import network

#: How far an answer may be from that of one thread.
TOLERANCE = 1e-4
_SEEDS = 8


class Request(NamedTuple):
    """A request to a served model."""

    signature: str
    inputs: dict


class Load(NamedTuple):
    """What was measured under load.

    Attributes:
        seconds: Seconds of each request, by signature.
        grown: Growth of the process, in MB, after the first tenth of the requests.
        wrong: Answers that are of wrong size, not finite or not those of one thread.
    """

    seconds: dict[str, list[float]]
    grown: float
    wrong: int


def requests(x: np.ndarray, num_requests: int, signatures, max_rows: int = 64):
    """Requests of 1 to `max_rows` rows, the same in every call.

    Args:
        x: Rows to ask for.
        num_requests: How many.
        signatures: Names of signatures, one of which is drawn for each request.
        max_rows: Largest number of rows.
    """
    rng = np.random.default_rng(0)
    found = []
    for _ in range(num_requests):
        signature = str(rng.choice(list(signatures)))
        rows = rng.integers(0, len(x), rng.integers(1, max_rows + 1))
        inputs = {"inputs": x[rows]}
        if signature == "sample":
            seed = np.int32(rng.integers(_SEEDS))
            inputs |= {"num_samples": np.int32(4), "seed": seed}
        found.append(Request(signature, inputs))
    return found


def put_under(model, asked: list[Request], num_threads: int = 4) -> Load:
    """Sends requests from several threads, and some of them again from one.

    Args:
        model: A loaded SavedModel.
        asked: The requests.
        num_threads: Threads that send them at once.
    """
    seconds = collections.defaultdict(list)

    def answer(request):
        function = model.signatures[request.signature]
        started = time.perf_counter()
        answers = function(**{k: tf.constant(v) for k, v in request.inputs.items()})
        answers = {name: value.numpy() for name, value in answers.items()}
        seconds[request.signature].append(time.perf_counter() - started)
        return answers

    num_first = len(asked) // 10
    with futures.ThreadPoolExecutor(num_threads) as threads:
        first = list(threads.map(answer, asked[:num_first]))
        before = resident_megabytes()
        wrong = 0
        # Answers are checked as they come, so that they take no memory.
        for request, answers in zip(
            asked[num_first:], threads.map(answer, asked[num_first:]), strict=True
        ):
            wrong += not _is_sound(request, answers)
        grown = resident_megabytes() - before
    timed = {name: list(values) for name, values in seconds.items()}
    for request, answers in zip(asked, first, strict=False):
        wrong += not (_is_sound(request, answers) and _agree(request, answers, answer))
    return Load(timed, grown, wrong)


def resident_megabytes() -> float:
    """Memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _is_sound(request, answers) -> bool:
    rows = len(request.inputs["inputs"])
    return all(
        len(value) == rows and np.isfinite(value).all() for value in answers.values()
    )


def _agree(request, answers, answer) -> bool:
    """Whether one thread gets the same; not asked where each request draws anew."""
    if request.signature == "serving_default":
        return True
    again = answer(request)
    return all(np.allclose(again[k], v, atol=TOLERANCE) for k, v in answers.items())


def as_table(loads: dict[str, Load]) -> str:
    """Latencies in milliseconds, a line for each model and signature."""
    rows = [["model", "signature", "requests", "p50 ms", "p99 ms", "grown MB"]]
    for name, load in loads.items():
        for signature, seconds in sorted(load.seconds.items()):
            median, last = 1e3 * np.percentile(seconds, [50, 99])
            cells = [str(len(seconds)), f"{median:.2f}", f"{last:.2f}"]
            rows.append([name, signature, *cells, f"{load.grown:.1f}"])
    return text_table(rows, numbers=range(2, len(rows[0])))


def main(_):
    """Exports both models, puts them under load and prints the table."""
    if not os.path.exists("/proc/self/statm"):
        raise SystemExit("Memory is read from /proc, which is not there.")
    x = np.random.default_rng(1).integers(0, 256, (500, 28, 28, 1), "uint8")
    flow = bhn_tf.hypernets.RealNVP(2, (16,))
    models = {
        "plain": baselines.Deterministic(network(keras.layers.Dense)),
        "Bayesian hypernet": bhn_tf.BayesianHypernet(network(), flow),
    }
    loads = {}
    for name, model in models.items():
        signatures = ["serving_default", "sample", "deterministic"]
        if name == "plain":
            signatures = ["serving_default"]
        with tempfile.TemporaryDirectory() as folder:
            loaded = tf.saved_model.load(model.export(folder, num_samples=32))
        asked = requests(x, flags.FLAGS.requests, signatures)
        loads[name] = put_under(loaded, asked, flags.FLAGS.threads)
    print(as_table(loads))
    wrong = sum(load.wrong for load in loads.values())
    print(f"{wrong} answers are not those of one thread.")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    flags.DEFINE_integer("requests", 10_000, "Requests to each model.", lower_bound=10)
    flags.DEFINE_integer("threads", 4, "Threads that send them.", lower_bound=1)
    app.run(main)
