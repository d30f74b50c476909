"""As a script, `centres.py DIRECTORY NAME...`: loads `NAME.keras` and writes what the
model answers at the centre to `NAME_loaded.npz`, its report to `NAME_loaded.txt`."""

import pathlib
import sys

import keras
import numpy as np


def centre_of(model, arrays) -> np.ndarray:
    """The model's answer without noise to one or several inputs."""
    x = arrays if len(arrays) > 1 else arrays[0]
    return model.predict(x, num_samples=0, verbose=0)


def main(directory, *names):
    import bhn_tf  # noqa: F401  All that a process needs to load a model.

    for name in names:
        path = pathlib.Path(directory, name)
        model = keras.saving.load_model(f"{path}.keras")
        with np.load(f"{path}.npz") as inputs:
            arrays = [inputs[key] for key in sorted(inputs)]
        np.savez(f"{path}_loaded.npz", centre=centre_of(model, arrays))
        pathlib.Path(f"{path}_loaded.txt").write_text(str(model.conversion_report))


if __name__ == "__main__":
    main(*sys.argv[1:])
