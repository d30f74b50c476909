"""Prediction: S draws against S forward passes, with scores and without."""

import keras

from benchmarks import floors, networks
from benchmarks.rows import Row, of_seconds
from benchmarks.timing import in_turns
from bhn_tf import hypernets

_BOUNDS = {networks.PERCEPTRON: 0.6, networks.CONVOLUTIONAL: 1.05}


def measure(
    kind: str, num_rows: int, batch_size: int, num_samples: int, repeats: int
) -> list[Row]:
    """Times `predict` and `predict_uncertainty` beside plain `predict`.

    The plain network answers `num_samples` times, as an ensemble of that size would.
    """
    x, _ = networks.data(kind, num_rows)
    plain = networks.stack(kind, keras, keras.layers.Dense, keras.layers.Conv2D)
    model = networks.bayesian(kind, hypernets.RealNVP(), jit_compile=False)
    arguments = {"batch_size": batch_size, "verbose": 0}

    # A few forward passes are timed, and scaled to `num_samples`.
    num_passes = min(num_samples, 10)

    def repeat_plain():
        for _ in range(num_passes):
            plain.predict(x, **arguments)

    seconds = in_turns(
        {
            "plain": repeat_plain,
            "predict": lambda: model.predict(
                x, num_samples=num_samples, seed=0, **arguments
            ),
            "uncertainty": lambda: model.predict_uncertainty(
                x, num_samples=num_samples, seed=0, **arguments
            ),
        },
        repeats,
    )
    seconds["plain"] = [value * num_samples / num_passes for value in seconds["plain"]]
    work = f"S = {num_samples}, {num_rows:,} rows in batches of {batch_size}"
    return [
        of_seconds(
            f"`predict`, {kind.upper()}, {work}",
            f"{num_samples} × plain `predict`",
            _BOUNDS[kind],
            floors.prediction(plain, num_samples),
            seconds,
            ("predict", "plain"),
        ),
        of_seconds(
            f"`predict_uncertainty`, {kind.upper()}, {work}",
            "`predict`",
            1.15,
            1.0,
            seconds,
            ("uncertainty", "predict"),
        ),
    ]
