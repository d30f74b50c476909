"""Several processes that train one model: `tf.distribute.MultiWorkerMirroredStrategy`.

Stock Keras 3 fails under this strategy: it averages a step's logs over an axis of rows
that scalars lack, and every process shuffles and draws by itself. This file corrects
that; with one process it changes nothing.

The processes run the same program on the same data. Each takes its share of every
global batch, and all take their seeds for shuffling and drawing from the chief.
"""

import contextlib
import functools
import re
from collections.abc import Iterator

import keras
import tensorflow as tf

from bhn_tf import tensorflow_adapter
from bhn_tf.data_feeds.array_feed import ArrayFeed
from bhn_tf.data_feeds.dataset_feed import DatasetFeed, DistributedFeed
from bhn_tf.data_feeds.epochs import batches_of_epochs
from bhn_tf.data_feeds.feed import Feed, num_rows
from bhn_tf.keras_adapter import DEFAULT_BATCH_SIZE, spans_processes

#: The errors that TensorFlow raises when another process no longer answers.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
)

#: Lines that TensorFlow puts around a cause: headings and, indented, a stack of calls.
_NO_CAUSE = re.compile(r"\s|$|Graph execution error|Detected at node|<stack traces")


class WorkerLost(RuntimeError):
    """Another process of the training is gone or does not answer in time."""


def strategy_of_workers(
    silence: float = 60.0, patience: float = 600.0
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Returns the strategy of the processes listed in the variable TF_CONFIG.

    Call it before TensorFlow does anything else. By default TensorFlow takes a worker
    for dead after ten seconds of silence, which can happen on a busy machine.

    Args:
        silence: Seconds without a heartbeat after which a worker counts as gone.
        patience: Seconds for which a living worker may keep the others waiting.
    """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tensorflow_adapter.wait_for_heartbeats(resolver.cluster_spec(), silence)
    return tf.distribute.MultiWorkerMirroredStrategy(
        cluster_resolver=resolver,
        communication_options=tf.distribute.experimental.CommunicationOptions(
            timeout_seconds=patience
        ),
    )


def is_chief(strategy) -> bool:
    """Whether this process is the one that writes; a single process always is."""
    if not spans_processes(strategy):
        return True
    resolver = strategy.cluster_resolver
    jobs = resolver.cluster_spec().jobs
    job, index = ("chief" if "chief" in jobs else "worker"), 0
    return (resolver.task_type, resolver.task_id) == (job, index)


def agreed(strategy, number: int) -> int:
    """Returns the chief's number in every process; all processes must call it.

    Args:
        strategy: The strategy.
        number: An integer; only the chief's counts.

    Raises:
        WorkerLost: If a process is gone.
    """
    if not spans_processes(strategy):
        return number

    with lost_workers_named(strategy):
        return int(_from_first_replica(strategy)(tf.constant(number, tf.int64)))


@functools.cache
def _from_first_replica(strategy):
    """The compiled function that sends the first replica's number to all."""

    def of_replica(number):
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.where(replica == 0, number, 0)

    @tf.function(autograph=False)
    def of_all(number):
        numbers = strategy.run(of_replica, args=(number,))
        return strategy.reduce("SUM", numbers, axis=None)

    return of_all


def all_say(strategy, is_true: bool) -> bool:
    """Whether something holds in every process; all processes must call it.

    Raises:
        WorkerLost: If a process is gone.
    """
    if not spans_processes(strategy):
        return is_true
    with lost_workers_named(strategy):
        total = int(_sum_of_all(strategy)(tf.constant(int(is_true), tf.int64)))
    return total == strategy.num_replicas_in_sync


@functools.cache
def _sum_of_all(strategy):
    """The compiled function that adds the numbers of all replicas."""

    @tf.function(autograph=False)
    def of_all(number):
        numbers = strategy.run(tf.identity, args=(number,))
        return strategy.reduce("SUM", numbers, axis=None)

    return of_all


def agreed_seed(strategy, seed):
    """Returns one seed for all processes: the given one, or the chief's."""
    if seed is not None or not spans_processes(strategy):
        return seed
    return agreed(strategy, int(tf.random.uniform([], maxval=2**31 - 1, dtype="int32")))


@contextlib.contextmanager
def lost_workers_named(strategy) -> Iterator[None]:
    """Explains TensorFlow's errors about a lost connection.

    Args:
        strategy: The strategy; with one process, errors pass unchanged.

    Raises:
        WorkerLost: Instead of such an error.
    """
    try:
        yield
    except _LOST as error:
        if not spans_processes(strategy):
            raise
        raise WorkerLost(
            "Another worker of this training is gone, or has not answered in time: "
            f"{cause_of(error)} Start all workers again: they can go on from what "
            "was kept last."
        ) from error


def cause_of(error) -> str:
    """Returns in one line what TensorFlow says about a lost connection."""
    text = error.message or str(error)
    # After a sentence, TensorFlow lists each silent worker on its own line.
    silent = re.findall(r"^/job:\S+$", text, re.MULTILINE)
    if silent:
        return f"no heartbeat of {', '.join(dict.fromkeys(silent))}."
    lines = text.split("}} ")[-1].strip().split("\n")
    causes = [line for line in lines if not _NO_CAUSE.match(line)]
    return (causes or [type(error).__name__])[0][:200].rstrip(":.") + "."


def logs_of_step(logs: dict, strategy) -> dict:
    """Adds to a step's logs the axis over which Keras averages processes."""
    if not spans_processes(strategy):
        return logs
    return {name: tf.reshape(value, [1]) for name, value in logs.items()}


# -- data ------------------------------------------------------------------------------


def shared_out(x, strategy):
    """Lets every process take its share of each batch of a data set.

    By default TensorFlow divides the files among the processes, which could wait for
    ever if they have unequal numbers. A policy already set on the data set stays.
    """
    if not spans_processes(strategy) or not isinstance(x, tf.data.Dataset):
        return x
    options = tf.data.Options()
    policies = tf.data.experimental.AutoShardPolicy
    if x.options().experimental_distribute.auto_shard_policy != policies.AUTO:
        return x
    options.experimental_distribute.auto_shard_policy = policies.DATA
    return x.with_options(options)


def reads_share(feed: Feed, strategy) -> bool:
    """Whether this process's data are its own share of the rows, not all of them."""
    if not spans_processes(strategy) or not isinstance(feed, DatasetFeed):
        return False
    policy = feed.x.options().experimental_distribute.auto_shard_policy
    return policy == tf.data.experimental.AutoShardPolicy.OFF


def training_arguments(arguments: dict, feed: Feed, strategy) -> dict:
    """Returns the arguments of `fit` for several processes.

    Arrays are shuffled alike in every process, so that each row is seen once an epoch.

    Args:
        arguments: Those of `fit`, by name.
        feed: The feed of their `x`, `y` and `sample_weight`.
        strategy: The strategy.

    Raises:
        ValueError: If the data come from Python, in an order of each process's own.
    """
    if not spans_processes(strategy):
        return arguments
    if isinstance(feed, DatasetFeed | DistributedFeed):
        return {**arguments, "x": shared_out(feed.x, strategy)}
    if not isinstance(feed, ArrayFeed):
        raise ValueError(
            f"A {type(feed.x).__name__} makes its batches in each process, in an order "
            "of its own, and rows would be seen twice or never. On several workers "
            "give arrays, or a `tf.data.Dataset` whose order is the same everywhere."
        )
    tensors = feed.as_tensors()
    rows = keras.tree.lists_to_tuples((tensors.x, tensors.y, tensors.sample_weight))
    split = arguments["validation_split"]
    if split and arguments["validation_data"] is None:
        num_trained = feed.count(split)
        arguments["validation_data"] = _given(_cut(rows, slice(num_trained, None)))
        rows = _cut(rows, slice(num_trained))
    rows = _given(rows)
    batch_size = arguments["batch_size"] or DEFAULT_BATCH_SIZE
    num_batches = -(-num_rows(rows) // batch_size)
    steps = arguments["steps_per_epoch"] or num_batches
    # With `steps_per_epoch`, an epoch need not be a whole pass over the data.
    num_passes = -(-steps * arguments["epochs"] // num_batches)
    seed = agreed_seed(strategy, None) if arguments["shuffle"] else None
    dataset = batches_of_epochs(rows, batch_size, seed, 0, num_passes)
    return {
        **arguments,
        "x": shared_out(dataset, strategy),
        "y": None,
        "sample_weight": None,
        "batch_size": None,
        "steps_per_epoch": steps,
        "shuffle": False,
        "validation_split": 0.0,
        "validation_batch_size": arguments["validation_batch_size"]
        or arguments["batch_size"],
    }


def _cut(rows, part: slice):
    return keras.tree.map_structure(
        lambda leaf: None if leaf is None else leaf[part], rows
    )


def _given(rows) -> tuple:
    """`(x, y)`, or `(x, y, sample_weight)` if there are weights."""
    return rows if rows[2] is not None else rows[:2]
