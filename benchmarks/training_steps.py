"""Training steps: against plain Keras, and against TFP's flipout layers."""

import tensorflow as tf

from benchmarks import floors, networks
from benchmarks.rows import Row, of_seconds
from benchmarks.timing import in_turns
from bhn_tf import hypernets

_HYPERNETS = {
    "MeanField": hypernets.MeanField,
    "RealNVP-8": hypernets.RealNVP,
    "IAF-8": hypernets.IAF,
}
# Work, hypernet, what it is measured against, and bound.
_BOUNDS = {
    networks.PERCEPTRON: [
        ("MeanField", "plain Keras", 1.15),
        ("RealNVP-8", "plain Keras", 2.0),
        ("IAF-8", "plain Keras", 3.5),
        ("RealNVP-8", "DenseFlipout", 0.8),
        ("IAF-8", "DenseFlipout", 1.1),
    ],
    networks.CONVOLUTIONAL: [
        ("RealNVP-8", "plain Keras", 1.15),
        ("IAF-8", "plain Keras", 1.3),
        ("RealNVP-8", "Convolution2DFlipout", 0.6),
    ],
}
_FLIPOUT = {
    networks.PERCEPTRON: "DenseFlipout",
    networks.CONVOLUTIONAL: "Convolution2DFlipout",
}


def measure(kind: str, rates: dict, repeats: int, calls: int) -> list[Row]:
    """Times a step of every model of a kind of network, in turns.

    Each model runs with XLA or without, whichever is faster on this machine.
    """
    compared = {name for name, _, _ in _BOUNDS[kind]}
    makers = {"plain Keras": lambda jit: networks.plain(kind, jit)}
    makers |= {
        name: lambda jit, family=family: networks.bayesian(kind, family(), jit)
        for name, family in _HYPERNETS.items()
        if name in compared
    }
    makers[_FLIPOUT[kind]] = lambda jit: networks.flipout(kind, jit)
    models, steps, compiled = {}, {}, {}
    for name, make in makers.items():
        models[name], steps[name], compiled[name] = _faster(kind, make)
    seconds = in_turns(steps, repeats, calls)
    rows = []
    for name, against, bound in _BOUNDS[kind]:
        floor = None
        if against == "plain Keras":
            floor = _floor(models, name, rates)
        row = of_seconds(
            f"training step, {kind.upper()}, batch {networks.BATCH_SIZE}, {name}",
            against,
            bound,
            floor,
            seconds,
            (name, against),
        )
        row.detail["xla"] = {key: compiled[key] for key in (name, against)}
        rows.append(row)
    return rows


def _floor(models, name, rates) -> float:
    batch_size = networks.BATCH_SIZE
    plain = floors.training_step(models["plain Keras"], 0, batch_size, rates)
    weights = models[name].hypernet.count_params()
    bayesian = floors.training_step(models["plain Keras"], weights, batch_size, rates)
    return bayesian / plain


# On a CPU, XLA's convolutions take several times as long as TensorFlow's.
_WITH_XLA = {networks.PERCEPTRON: (True, False), networks.CONVOLUTIONAL: (False,)}


def _faster(kind, make):
    """Returns the model, its step and whether it uses XLA, whichever is faster."""
    candidates = {}
    for jit in _WITH_XLA[kind]:
        model = make(jit)
        candidates[jit] = (model, step_of(model, kind))
    steps = {jit: step for jit, (_, step) in candidates.items()}
    seconds = in_turns(steps, repeats=3, calls=3)
    best = min(seconds, key=lambda jit: min(seconds[jit]))
    return *candidates[best], best


def step_of(model, kind: str, batch_size: int = networks.BATCH_SIZE):
    """Returns a function that makes one training step, as `fit` does."""
    x, y = networks.data(kind, batch_size)
    batches = tf.data.Dataset.from_tensors((x, y)).cache().repeat()
    # Builds what `fit` builds before its first step.
    model.fit(batches.take(1), verbose=0)
    train_function = model.make_train_function() or model.train_function
    iterator = iter(batches)

    def step():
        logs = train_function(iterator)
        # Reading the numbers waits for the end of the step.
        return {name: float(value) for name, value in logs.items()}

    return step
