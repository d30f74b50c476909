"""Where the workers of one run write: only the chief into the folder of the run."""

import shutil
import tempfile
from pathlib import Path

from bhn_tf.models import workers
from trainers.cluster import Task, task_of
from trainers.config import CommonConfig, UsageProblem
from trainers.run_folder import RunFolder
from trainers.training import strategy_of


def folder_of(config: CommonConfig, name: str) -> RunFolder:
    """Returns the folder of a run, as this process may use it.

    Args:
        config: The configuration.
        name: Name of the trainer.

    Raises:
        UsageProblem: As `RunFolder`; or if TF_CONFIG is missing or wrong.
    """
    task = task_of(config)
    if task is None:
        return RunFolder(config, name)
    return _FolderOfChief(config, name) if task.is_chief else _Copy(config, name, task)


class _FolderOfChief(RunFolder):
    """The folder of the run; the other workers copy it once it is the run's own."""

    def __enter__(self):
        strategy = strategy_of(self.config.strategy)
        has_begun = False
        try:
            super().__enter__()
            has_begun = True
        finally:
            # The others wait, and have to hear of a refusal, too.
            workers.all_say(strategy, has_begun)
        if not workers.all_say(strategy, True):
            self.__exit__()
            raise UsageProblem(
                f"--output_dir={self.path} is not the same folder for every worker. "
                "Give one that all of them see, such as a shared disk's."
            )
        if not workers.all_say(strategy, True):
            self.__exit__()
            raise UsageProblem(
                "Another worker has other flags or other data than this one, the "
                "chief; it says which. Start all workers with the same."
            )
        return self


class _Copy(RunFolder):
    """The copy of a worker that is not the chief; it is gone when the run ends.

    Saving, exporting and measuring ask all workers for their share, so all of them do
    what the chief does, and what they write is thrown away.
    """

    def __init__(self, config: CommonConfig, name: str, task: Task):
        self._task = task
        self._temporary: tempfile.TemporaryDirectory | None = None
        super().__init__(config, name)

    def _refuse_if_in_use(self):
        """Leaves this to the chief: two that ask at once would refuse each other."""

    def __enter__(self):
        strategy = strategy_of(self.config.strategy)
        if not workers.all_say(strategy, True):
            raise UsageProblem(
                f"The chief cannot use --output_dir={self.path}; it says why. This is "
                f"{self._task.job} {self._task.index}."
            )
        shared = self.path
        is_there = (shared / "config.json").exists()
        if is_there:
            self._temporary = tempfile.TemporaryDirectory(prefix="bhn_worker_")
            self._be_at(Path(self._temporary.name) / "run")
            shutil.copytree(shared, self.path, ignore=shutil.ignore_patterns(".*.*.*"))
        if not workers.all_say(strategy, is_there):
            self.__exit__()
            raise UsageProblem(
                f"--output_dir={shared} is not the chief's folder here, on "
                f"{self._task.job} {self._task.index}. Give one that all workers see."
            )
        self._refuse_another_run(strategy)
        return self

    def _refuse_another_run(self, strategy):
        """Raises `UsageProblem` unless all workers have the chief's flags and data."""
        different = ["the trainer"]
        try:
            flags, data = self._differences()
            different = [*flags, *data]
        finally:
            # The others wait, and have to hear of a refusal, too.
            is_one_run = workers.all_say(strategy, not different)
        if is_one_run:
            return
        self.__exit__()
        here = f"{self._task.job} {self._task.index}"
        if not different:
            raise UsageProblem(
                "Another worker has other flags or other data than the chief; it says "
                f"which. This is {here}. Start all workers with the same."
            )
        raise UsageProblem(
            "The chief runs another configuration, or has other data, than "
            f"{here} (at the chief: {'; '.join(different)}). Start all workers with "
            "the same flags and the same data."
        )

    def __exit__(self, *exception):
        if self._temporary is not None:
            self._temporary.cleanup()
