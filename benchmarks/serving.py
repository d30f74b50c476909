"""Served models: how long a request takes, of one row and of many."""

import tempfile

import keras
import numpy as np
import tensorflow as tf

import bhn_tf
from benchmarks.rows import Row, of_seconds
from benchmarks.timing import in_turns, milliseconds
from bhn_tf import baselines, layers
from trainers.methods import perceptron

_NUM_SAMPLES = 32
_BATCH_SIZES = (1, 64)
# Work, served model, bound against the plain model's request of one row.
_BOUNDS = (("drawn anew", "bhn", 10.0), ("frozen draws", "bhn_frozen", 5.0))


def measure(repeats: int, calls: int) -> list[Row]:
    """Times requests to exported models of a digit network, in turns.

    All answer from 32 draws (an ensemble: from 32 members) but the plain one.
    """
    with tempfile.TemporaryDirectory() as folder:
        served = {
            name: _served(model, folder, frozen) for name, model, frozen in _models()
        }
        seconds = {}
        for rows in _BATCH_SIZES:
            x = tf.constant(np.zeros((rows, 28, 28, 1), "float32"))
            requests = {
                name: lambda signature=signature, x=x: signature(x)["mean"].numpy()
                for name, signature in served.items()
            }
            seconds[rows] = in_turns(requests, repeats, calls)
    return [
        _row(seconds[rows], rows, *bounded)
        for rows in _BATCH_SIZES
        for bounded in _BOUNDS
    ]


def _row(seconds, rows, work, name, bound) -> Row:
    row = of_seconds(
        f"served request, {rows} rows at once, S = {_NUM_SAMPLES}, {work}",
        "the plain model",
        # The bounds are for one row; of many rows every draw costs its products.
        bound if rows == 1 else float(_NUM_SAMPLES),
        None,
        seconds,
        (name, "plain"),
    )
    row.detail["milliseconds"] = {
        other: milliseconds(values) for other, values in seconds.items()
    }
    return row


def _models():
    """Name, model and whether its draws are frozen."""

    def network(dense, dropout_rate=0.0):
        return perceptron((28, 28, 1), (128, 128), 10, dense, dropout_rate)

    dense = keras.layers.Dense
    bayesian = bhn_tf.BayesianHypernet(
        network(layers.WeightNormDense), bhn_tf.hypernets.RealNVP(4, (50,))
    )
    return [
        ("plain", baselines.Deterministic(network(dense)), False),
        ("bhn", bayesian, False),
        ("bhn_frozen", bayesian, True),
        ("mc_dropout", baselines.MCDropout(network(dense, 0.5)), False),
        (
            "ensemble",
            baselines.DeepEnsemble([network(dense) for _ in range(_NUM_SAMPLES)]),
            False,
        ),
    ]


def _served(model, folder, frozen):
    path = model.export(folder, num_samples=_NUM_SAMPLES, ensemble=frozen)
    loaded = tf.saved_model.load(path)
    signature = loaded.signatures["serving_default"]

    def request(x):
        # The loaded object owns the variables; the signature does not keep it.
        return signature(inputs=x) if loaded is not None else None

    return request
