"""The workers of `--strategy=multi_worker`, as the variable TF_CONFIG lists them."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from trainers.config import CommonConfig, UsageProblem

_EXAMPLE = (
    '\'{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": '
    '"worker", "index": 0}}\''
)


class Task(NamedTuple):
    """Which worker this process is.

    Attributes:
        job: "chief" or "worker".
        index: Its number in the job.
        is_chief: Whether it is the one that writes.
    """

    job: str
    index: int
    is_chief: bool


def task_of(config: CommonConfig) -> Task | None:
    """Returns this process's task; `None` where `--strategy` asks for no workers.

    Raises:
        UsageProblem: If TF_CONFIG is missing or wrong.
    """
    if config.strategy != "multi_worker":
        return None
    text = os.environ.get("TF_CONFIG", "")
    try:
        content = json.loads(text)
        cluster, task = content["cluster"], content["task"]
        job, index = task["type"], int(task["index"])
        is_known = job in ("chief", "worker") and 0 <= index < len(cluster[job])
        is_known = is_known and _has_addresses(cluster)
    except (AttributeError, ValueError, KeyError, TypeError):
        is_known = False
    if not is_known:
        raise UsageProblem(
            "--strategy=multi_worker: the variable TF_CONFIG has to list the workers, "
            "one of them the chief at most, and say which of them this process is, as "
            f"in TF_CONFIG={_EXAMPLE}; got {text!r}. See docs/distributed.md."
        )
    first_job = "chief" if "chief" in cluster else "worker"
    return Task(job, index, (job, index) == (first_job, 0))


def _has_addresses(cluster: dict) -> bool:
    """Whether each job has a list of addresses, and one of them the chief's at most."""
    are_lists = all(
        isinstance(hosts, list) and hosts and all(":" in host for host in hosts)
        for hosts in cluster.values()
    )
    return are_lists and len(cluster.get("chief", [])) <= 1


@contextlib.contextmanager
def chief_alone_prints(config: CommonConfig) -> Iterator[None]:
    """Drops what workers other than the chief print; errors still reach stderr."""
    task = task_of(config)
    with contextlib.ExitStack() as until_the_end:
        if task is not None and not task.is_chief:
            nowhere = until_the_end.enter_context(open(os.devnull, "w"))
            until_the_end.enter_context(contextlib.redirect_stdout(nowhere))
        yield
