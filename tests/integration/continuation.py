"""What a model does after it was saved, in this process or in another.

As a script: `continuation.py DIRECTORY NAME...` loads `NAME.keras` and writes what the
model does to `NAME_loaded.npz`.
"""

import pathlib
import sys

import keras
import numpy as np


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4)).astype("float32")
    return x, np.argmax(x[:, :3], axis=1)


def go_on(model) -> dict[str, np.ndarray]:
    """Returns the weights, predictions, noise and the next step of training."""
    x, y = data()
    results = {}

    def note(name, variables):
        for index, variable in enumerate(variables):
            results[f"{name} {index:02d}"] = keras.ops.convert_to_numpy(variable)

    note("weights", model.weights)
    note("optimizer", model.optimizer.variables)
    note("centre", [model.predict(x, num_samples=0, verbose=0)])
    note("seeded", [model.predict_samples(x, num_samples=3, seed=1, verbose=0)])
    # The global seed draws the member of an ensemble that answers.
    keras.utils.set_random_seed(3)
    note("noise", [model(x), model(x)])
    # Keras before 3.15 adds up batches that are trained one by one.
    model.reset_metrics()
    logs = model.train_on_batch(x, y, return_dict=True)
    note("logs", [logs[name] for name in sorted(logs)])
    note("trained", model.weights)
    logs = model.evaluate(x, y, seed=2, verbose=0, return_dict=True)
    note("evaluated", [logs[name] for name in sorted(logs)])
    return results


def main(directory, *names):
    import bhn_tf  # noqa: F401  All that a process needs to load a model.

    for name in names:
        if name == "subclassed":
            import tests.networks  # noqa: F401  Registers the class.
        model = keras.saving.load_model(pathlib.Path(directory, f"{name}.keras"))
        np.savez(pathlib.Path(directory, f"{name}_loaded.npz"), **go_on(model))


if __name__ == "__main__":
    main(*sys.argv[1:])
