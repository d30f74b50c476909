"""What the binaries of all experiments share, and what each has to provide."""

import contextlib
import dataclasses
from typing import Any, Protocol

import tensorflow as tf

from bhn_tf.models.workers import WorkerLost
from trainers.cluster import chief_alone_prints
from trainers.config import CommonConfig, UsageProblem
from trainers.run_folder import RunFolder
from trainers.training import strategy_of
from trainers.worker_folder import folder_of


class Experiment(Protocol):
    """What each experiment has to provide.

    If its flags can ask for more than a finished run of the folder has found, it also
    has `is_complete(results)`: whether these results are all that is asked for now.

    Attributes:
        name: Name of the trainer, as in `python -m trainers.<name>`.
        config: What the flags say.
    """

    name: str
    config: CommonConfig

    def load(self) -> Any:
        """Returns the data; writes nothing.

        Raises:
            UsageProblem: If there are none, or they do not fit; names the flag.
        """

    def compute(self, folder: RunFolder, data: Any) -> dict:
        """Trains and measures, or resumes from what the folder holds.

        Args:
            folder: Where logs, checkpoints, pictures and models go.
            data: What `load` returned.

        Returns:
            The results, in the types of JSON.
        """

    def table(self, results: dict) -> str:
        """Returns the results as text for the terminal."""

    def where_to_look(self, folder: RunFolder) -> str:
        """Explains the table's words, what the folder holds and what to try next."""


def run(experiment: Experiment) -> dict:
    """Runs an experiment, or shows what a finished run of the same flags has found.

    Args:
        experiment: The experiment.

    Returns:
        The content of `results.json`.

    Raises:
        UsageProblem: If the data or the output folder cannot be used, or disk or memory
            fill up; files in the folder are whole then.
    """
    config = experiment.config
    folder = folder_of(config, experiment.name)
    results = None if config.overwrite else folder.read_results()
    is_complete = getattr(experiment, "is_complete", lambda results: True)
    with folder.reading_results():
        table = None
        if results is not None and is_complete(results):
            table = experiment.table(results)
    with chief_alone_prints(config):
        if results is None or table is None:
            results = _computed(experiment, folder)
            table = experiment.table(results)
        else:
            _refuse_other_data(experiment, folder)
            print(f"This run is finished; {folder.path} stays as it is.\n")
        print(table)
        print(experiment.where_to_look(folder))
    return results


def _refuse_other_data(experiment: Experiment, folder: RunFolder) -> None:
    """Refuses a finished run on other data that have the same names."""
    try:
        data = experiment.load()
    except UsageProblem as problem:
        # Results can be shown even where the data are missing.
        print(f"Whether the data are still the same is not known: {problem}")
    else:
        folder.learn_from(data)


def _computed(experiment: Experiment, folder: RunFolder) -> dict:
    config = experiment.config
    try:
        # Workers have to find each other before TensorFlow does anything.
        _require_steps(config, strategy_of(config.strategy))
        data = experiment.load()
        folder.learn_from(data)
        with folder, _clear_ends(folder):
            found = experiment.compute(folder, data)
            folder.write_results({**found, "config": dataclasses.asdict(config)})
            return folder.read_results()
    except WorkerLost as error:
        raise UsageProblem(str(error)) from error


def _require_steps(config: CommonConfig, strategy: tf.distribute.Strategy) -> None:
    """Refuses XLA for steps of several devices, before anything is written."""
    if config.jit_compile and strategy.num_replicas_in_sync > 1:
        raise UsageProblem(
            f"--jit_compile --strategy={config.strategy}: XLA cannot compile steps of "
            f"{strategy.num_replicas_in_sync} devices. Leave out one of the two."
        )


@contextlib.contextmanager
def _clear_ends(folder: RunFolder):
    """Says in a sentence what happened to disk or memory, and how to go on."""
    again = "What is there is whole: the same command goes on"
    try:
        yield
    except OSError as error:
        raise UsageProblem(
            f"--output_dir={folder.path}: a file cannot be written or read ({error}). "
            f"{again} when this is mended."
        ) from error
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise UsageProblem(
            "The memory is used up. Give it more, or a smaller --batch_size in another "
            f"--output_dir. {again} with more memory."
        ) from error
