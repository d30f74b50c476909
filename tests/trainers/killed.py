"""Trainers that are killed: `killed.py FOLDER NUM_KILLS [tiny|classification]`.

Each run is a fork of this process, which has only imported the modules. It is killed at
random moments and started again until it ends; then the next one begins, until all
kills are spent. Each run has to leave the same files as a run without kills.
"""

import dataclasses
import json
import os
import pathlib
import random
import signal
import sys
import time
import traceback

import keras
import numpy as np

import bhn_tf
from trainers import classification, experiment, training
from trainers.config import CommonConfig


@dataclasses.dataclass
class Tiny:
    """An experiment that is over in a second, with all kinds of files of a run."""

    config: CommonConfig
    name = "tiny"

    def load(self):
        x = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
        return x, (x[:, 0] > 0).astype("int32")

    def compute(self, folder, data):
        model, seconds = training.train(
            folder,
            "bhn",
            self.config,
            self.make_model,
            *data,
            self.config.epochs,
            [bhn_tf.callbacks.KLAnnealing(0.0, epochs=3)],
        )
        draws = folder.checkpoints.load_arrays("draws")
        if draws is None:
            draws = {"scales": model.sample_scales(10, seed=0)}
            folder.checkpoints.save_arrays("draws", draws)
        folder.save_model("model.keras", model)
        found = model.evaluate(*data, verbose=0, return_dict=True, seed=0)
        return {**found, "spread": float(draws["scales"].std()), "seconds": seconds}

    def make_model(self):
        network = keras.Sequential(
            [
                keras.layers.Input((3,)),
                bhn_tf.layers.WeightNormDense(4, activation="relu"),
                keras.layers.Dropout(0.2),
                bhn_tf.layers.WeightNormDense(2),
            ]
        )
        model = bhn_tf.BayesianHypernet(network, "mean_field", num_examples=24)
        schedule = keras.optimizers.schedules.CosineDecay(1e-2, 3 * self.config.epochs)
        # Eager, since a few steps take less time than their graph.
        model.compile(
            keras.optimizers.Adam(schedule), metrics=["accuracy"], run_eagerly=True
        )
        return model

    def table(self, results):
        return f"{results['loss']}"

    def where_to_look(self, folder):
        return f"{folder.path}"


def tiny(folder):
    config = CommonConfig(output_dir=str(folder), batch_size=8, epochs=6)
    experiment.run(Tiny(config))


def small_classification(folder):
    sizes = dict(train_size=100, units=(8,), num_flow_layers=1, flow_units=(8,))
    few = dict(epochs=6, num_samples=4, batch_size=50, smoke=True)
    methods = dict(methods=("bhn", "mc_dropout"), anomalies=("uniform",))
    config = classification.Config(output_dir=str(folder), **sizes, **few, **methods)
    classification.run(config)


RUNS = {"tiny": tiny, "classification": small_classification}


def forked(run, folder, seconds=None):
    """Whether a run in its own process ended before it was killed."""
    process = os.fork()
    if not process:
        # Every epoch is kept, so that kills fall between the files of any epoch.
        training._SECONDS_BETWEEN_CHECKPOINTS = 0.0
        status = 1
        try:
            with open(f"{folder}.log", "a") as log:
                os.dup2(log.fileno(), 1)
                run(folder)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        # If the run has ended meanwhile, its process id is not yet taken by another.
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return False
    assert os.WEXITSTATUS(status) == 0, "a run failed, as is printed above"
    return True


def left_by(folder):
    """What must be equal: the history, the results, and every weight."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    results = json.loads((folder / "results.json").read_text())
    model = keras.saving.load_model(folder / "model.keras")
    weights = [value.tolist() for value in model.get_weights()]
    left = sorted(path.name for path in folder.rglob("*") if not is_checkpoint(path))
    return {
        "history": [without_seconds(json.loads(line)) for line in lines],
        "results": without_seconds(results),
        "weights": weights,
        "files": left,
    }


def is_checkpoint(path):
    """The moment of a kill decides which of the last two exist."""
    return path.parent.name == "checkpoints" and path.suffix == ".keras"


def without_seconds(found):
    if not isinstance(found, dict):
        return found
    return {
        key: without_seconds(value)
        for key, value in found.items()
        if key not in ("seconds", "output_dir")
    }


def main(directory, num_kills, name="tiny"):
    directory, run = pathlib.Path(directory), RUNS[name]
    started = time.monotonic()
    assert forked(run, directory / "whole")
    duration = time.monotonic() - started
    moments = random.Random(0)
    folders, killed = [directory / "killed-0"], 0
    while killed < int(num_kills):
        if forked(run, folders[-1], moments.uniform(0.05, 1.0) * duration):
            folders.append(directory / f"killed-{len(folders)}")
        else:
            killed += 1
    forked(run, folders[-1])
    expected = left_by(directory / "whole")
    epochs = [(entry["method"], entry["epoch"]) for entry in expected["history"]]
    assert len(epochs) == len(set(epochs)), "an epoch is there twice"
    for folder in folders:
        found = left_by(folder)
        for part, value in expected.items():
            assert found[part] == value, (folder, part, found[part], value)
    print(
        f"{killed} kills over {len(folders)} runs of {len(epochs)} epochs, "
        f"{duration:.1f} s each: history, results, weights and files are those of "
        "the run that nothing happened to."
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
