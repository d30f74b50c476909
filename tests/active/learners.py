"""A small pool and learners over it, for this process or for one that is killed.

As a script: `learners.py DIRECTORY METHOD [PLACE]` runs three rounds and prints the
ids; at the place, `train 2` or `label 3`, it kills itself.
"""

import json
import os
import signal
import sys

import keras

from bhn_tf import active, baselines, hypernets
from bhn_tf.models import BayesianHypernet
from tests import networks

INITIAL = [3, 0, 7, 12]


def pool(num_rows=40):
    return networks.data(num_rows, seed=5)


def dropout_network():
    return keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(networks.NUM_CLASSES),
        ]
    )


METHODS = {
    "bhn": lambda: BayesianHypernet(
        networks.sequential(), hypernets.RealNVP(2, (4,)), num_examples=1
    ),
    "dropout": lambda: baselines.MCDropout(dropout_network()),
    "deterministic": lambda: baselines.Deterministic(networks.plain()),
    "ensemble": lambda: baselines.DeepEnsemble([networks.plain() for _ in range(2)]),
}


def make(method="deterministic"):
    """A function that makes the compiled model of a method."""

    def make_model():
        model = networks.compiled(METHODS[method](), metrics=["accuracy"])
        # Steps that are large enough to change what is asked for.
        model.optimizer.learning_rate = 0.05
        return model

    return make_model


def learner(method="deterministic", num_rows=40, **kwargs):
    x, y = pool(num_rows)
    settings = dict(
        label_fn=lambda ids: y[ids], initial_ids=INITIAL, query_size=4, num_samples=5
    )
    settings |= dict(seed=1, fit_kwargs={"epochs": 3, "batch_size": 8})
    settings |= {"pool_x": x, **kwargs}
    return active.ActiveLearner(settings.pop("make_model", make(method)), **settings)


class KillAt(keras.callbacks.Callback):
    """Kills the process in the middle of training number `number`."""

    def __init__(self, number=None):
        super().__init__()
        self.number, self.count = number, 0

    def on_train_begin(self, logs=None):
        self.count += 1

    def on_epoch_end(self, epoch, logs=None):
        if self.count == self.number and epoch == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def main(directory, method, place=""):
    what, number = place.split() if place else ("", "0")
    _, y = pool()
    calls = []

    def label_fn(ids):
        calls.append(ids)
        if what == "label" and len(calls) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return y[ids]

    kill = KillAt(int(number) if what == "train" else None)
    found = learner(
        method,
        label_fn=label_fn,
        directory=directory,
        fit_kwargs={"epochs": 3, "batch_size": 8, "callbacks": [kill]},
    )
    history = found.run(3, validation_data=pool(20))
    answers = {"ids": found.labelled_ids.tolist(), "asked": len(calls)}
    print(json.dumps({**answers, "metrics": [e["metrics"] for e in history]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
