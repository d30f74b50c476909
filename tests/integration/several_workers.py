"""One of several workers on this machine; prints what it found as a line of JSON.

TF_CONFIG=... python tests/integration/several_workers.py [lose]
"""

import json
import os
import signal
import sys

import keras
import numpy as np
import tensorflow as tf

import bhn_tf
from bhn_tf import keras_adapter
from bhn_tf.data_feeds import feed_of
from bhn_tf.models import workers
from tests import networks

NUM_ROWS = 13


def plain_model(strategy):
    """D = 0: nothing is random; results equal one process's up to the last digit."""
    with strategy.scope():
        # Every process starts from a seed of its own, as binaries do by default.
        keras.utils.set_random_seed(1 if workers.is_chief(strategy) else 2)
        model = bhn_tf.BayesianHypernet(networks.plain())
        model.compile(
            keras.optimizers.Adam(0.05),
            metrics=["accuracy", bhn_tf.metrics.BrierScore()],
            jit_compile=False,
        )
    return model


def noisy_model(strategy):
    with strategy.scope():
        keras.utils.set_random_seed(1 if workers.is_chief(strategy) else 2)
        model = networks.bayesian(hypernet="mean_field")
        model.compile("adam", metrics=["accuracy"], jit_compile=False)
    return model


def without_noise(strategy):
    model, (x, y) = plain_model(strategy), networks.data(NUM_ROWS)
    weights = np.linspace(0, 2, NUM_ROWS).astype("float32")
    logs = model.fit(
        x,
        y,
        sample_weight=weights,
        batch_size=5,
        epochs=2,
        shuffle=False,
        validation_data=(x[:5], y[:5]),
        verbose=0,
    ).history
    # A batch of one row leaves workers without any.
    rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    evaluated = model.evaluate(rows, verbose=0, return_dict=True)
    return {
        **logs,
        **{f"evaluated {name}": value for name, value in evaluated.items()},
        "predicted": model.predict(x, batch_size=4, verbose=0).tolist(),
        "on_batch": model.predict_on_batch(x).tolist(),
        "num_examples": model.num_examples,
        "weights": [w.ravel().tolist() for w in networks.weights_of(model.primary)],
    }


def shuffled(strategy):
    """Which rows this worker gets, in the order of an epoch that `fit` shuffles."""
    model, (x, y) = plain_model(strategy), networks.data(NUM_ROWS)
    arguments = {"batch_size": 5, "shuffle": True, "validation_split": 0.25}
    model.fit(x, y, verbose=0, **arguments)
    found = {"num_examples": model.num_examples, "seen": []}
    if keras_adapter.spans_processes(strategy):
        numbers = np.arange(NUM_ROWS)
        arguments |= {"validation_split": 0.0, "validation_data": None}
        dataset = workers.training_arguments(
            {**arguments, "validation_batch_size": None, "steps_per_epoch": None}
            | {"epochs": 2},
            feed_of(numbers, numbers),
            strategy,
        )["x"]
        distributed = strategy.experimental_distribute_dataset(dataset)
        shares = [strategy.experimental_local_results(x)[0] for x, _ in distributed]
        # Three batches an epoch.
        for epoch in (shares[:3], shares[3:]):
            found["seen"].append(np.concatenate(epoch).tolist())
    return found


def with_noise(strategy):
    """Draws differ, so only what must be the same on all workers is returned."""
    model, (x, y) = noisy_model(strategy), networks.data(NUM_ROWS)
    logs = model.fit(
        x, y, batch_size=5, epochs=2, verbose=0, validation_data=(x[:6], y[:6])
    ).history
    networks.assert_identity(logs, NUM_ROWS)
    networks.assert_identity(logs, NUM_ROWS, "val_")
    return {
        **logs,
        "evaluated": model.evaluate(x, y, verbose=0),
        "predicted": model.predict(x, verbose=0, num_samples=3).tolist(),
        "uncertain": model.predict_uncertainty(x, verbose=0, num_samples=3)[
            "mutual_information"
        ].tolist(),
        "elbo": model.elbo(x, y, num_samples=3).mean,
        "scales": model.sample_scales(2, seed=1).tolist(),
    }


def seeded(strategy):
    """Predictions from a seed with the initial weights."""
    model, (x, _) = noisy_model(strategy), networks.data(NUM_ROWS)
    arguments = {"batch_size": 4, "num_samples": 3, "seed": 5, "verbose": 0}
    return {"samples": model.predict_samples(x, **arguments).tolist()}


def found_with(strategy):
    parts = (without_noise, shuffled, with_noise, seeded)
    return {part.__name__: part(strategy) for part in parts}


def lose_the_chief(strategy):
    """The chief is killed before its second call of `elbo`."""
    model, (x, y) = noisy_model(strategy), networks.data(NUM_ROWS)
    model.num_examples = NUM_ROWS
    while True:
        model.elbo(x, y, num_samples=3)
        if workers.is_chief(strategy):
            os.kill(os.getpid(), signal.SIGKILL)


def main(loses_the_chief=False):
    strategy = workers.strategy_of_workers()
    if loses_the_chief:
        lose_the_chief(strategy)
    is_chief = workers.is_chief(strategy)
    assert workers.agreed(strategy, 3 + is_chief) == 4
    assert workers.all_say(strategy, True) and not workers.all_say(strategy, is_chief)
    print("\n" + json.dumps(found_with(strategy)))


if __name__ == "__main__":
    main(*sys.argv[1:])
