"""Latency and throughput of served models, by method, rows and draws."""

import tempfile
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

import bhn_tf
from benchmarks.rows import Row, of_seconds
from benchmarks.timing import in_turns, milliseconds
from bhn_tf import baselines
from trainers.serving_example import network

_NUM_DRAWS = (8, 32, 128)
_BATCH_SIZES = (1, 16, 256)
# Bounds on a request, relative to one of the plain model: rows, S, model, bound.
_BOUNDS = ((1, 32, "BHN, drawn anew", 10.0), (1, 32, "BHN, frozen draws", 5.0))
_PLAIN = "plain"


def measure(repeats: int, calls: int) -> tuple[list[Row], list[dict]]:
    """Times requests to exported models of the network of `saved_models/digits`.

    Models with the same number of draws, members or masks take turns, and the plain
    network takes turns with them.

    Returns:
        The rows that have a bound, and a line for every model, S and number of rows.
    """
    rows, lines = [], []
    for num_draws in _NUM_DRAWS:
        with tempfile.TemporaryDirectory() as folder:
            served = {
                name: _served(model, folder, num_draws, frozen)
                for name, model, frozen in _models(num_draws)
            }
            for num_rows in _BATCH_SIZES:
                x = tf.constant(np.zeros((num_rows, 28, 28, 1), "uint8"))
                requests = {
                    name: lambda signature=signature, x=x: signature(x)["mean"].numpy()
                    for name, signature in served.items()
                }
                # Requests of many rows and draws take long enough to need few calls.
                few = max(2, calls * 32 // (num_rows * num_draws))
                seconds = in_turns(requests, repeats, min(calls, few))
                lines += list(_lines(seconds, num_draws, num_rows))
                rows += list(_rows(seconds, num_draws, num_rows))
    return rows, lines


def _lines(seconds, num_draws, num_rows) -> Iterator[dict]:
    for name, values in seconds.items():
        latency = milliseconds(values)
        yield {
            "model": name,
            "num_draws": 1 if name == _PLAIN else num_draws,
            "beside": num_draws,
            "num_rows": num_rows,
            "milliseconds": latency,
            "rows_per_second": 1e3 * num_rows / latency,
        }


def _rows(seconds, num_draws, num_rows) -> Iterator[Row]:
    for rows, draws, name, bound in _BOUNDS:
        if (rows, draws) == (num_rows, num_draws):
            yield of_seconds(
                f"served request, {rows} row, S = {draws}, {name}",
                "the plain model served",
                bound,
                None,
                seconds,
                (name, _PLAIN),
            )


def as_table(lines: list[dict]) -> str:
    """Latencies and throughputs as a Markdown table."""
    sizes = sorted({line["num_rows"] for line in lines})
    head = "".join(f" {size} rows |" for size in sizes).replace(" 1 rows", " 1 row")
    table = [f"| model | S |{head}", "|---|---|" + "---|" * len(sizes)]
    cells = {}
    for line in lines:
        # The plain network is timed beside each S, and shown beside the first.
        if line["model"] == _PLAIN and line["beside"] != lines[0]["beside"]:
            continue
        cells.setdefault((line["model"], line["num_draws"]), []).append(
            f"{line['milliseconds']:.2f} ms, {line['rows_per_second']:,.0f}/s"
        )
    for (name, num_draws), values in sorted(cells.items(), key=lambda i: i[0][1]):
        table.append(f"| {name} | {num_draws} | {' | '.join(values)} |")
    return "\n".join(table)


def _models(num_draws: int):
    """Name, model and whether its draws are frozen."""
    dense = keras.layers.Dense
    bayesian = bhn_tf.BayesianHypernet(network(), bhn_tf.hypernets.RealNVP(2, (16,)))
    members = [network(dense) for _ in range(num_draws)]
    return [
        (_PLAIN, baselines.Deterministic(network(dense)), False),
        ("BHN, drawn anew", bayesian, False),
        ("BHN, frozen draws", bayesian, True),
        ("MC dropout", baselines.MCDropout(network(dense, 0.5)), False),
        ("ensemble", baselines.DeepEnsemble(members), False),
    ]


def _served(model, folder, num_draws, frozen):
    path = model.export(folder, num_samples=num_draws, ensemble=frozen)
    loaded = tf.saved_model.load(path)
    signature = loaded.signatures["serving_default"]

    def request(x):
        # `loaded` owns the variables, and has to live as long as the signature.
        return signature(inputs=x) if loaded is not None else None

    return request
