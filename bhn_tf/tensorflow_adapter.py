"""The only file that uses names of TensorFlow that are not public.

TensorFlow has no public way to see whether a data set repeats itself or may never end,
what one replica gets of a distributed one, how long a silent process is waited for, or
whether its threads were lost in a fork; or to forget a graph that is gone.
"""

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator

import keras
import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import (
    coordination_config_pb2,
)
from tensorflow.python.distribute.values import PerReplicaSpec
from tensorflow.python.eager import context
from tensorflow.python.framework import ops


class _Fork:
    """Whether this process is a fork of one in which TensorFlow had begun to work."""

    has_lost_threads = False

    @classmethod
    def note(cls):
        begun = context.context_safe()
        cls.has_lost_threads = begun is not None and begun._initialized


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Fork.note)


def require_threads() -> None:
    """Refuses to wait for threads that a fork does not have.

    Raises:
        RuntimeError: If the process is a fork of one in which TensorFlow had begun to
            work: a graph would never end.
    """
    if _Fork.has_lost_threads:
        raise RuntimeError(
            "This process is a fork of one that has used TensorFlow, whose threads it "
            "lacks: it would wait for ever. Start processes with "
            '`multiprocessing.get_context("spawn")` or with joblib\'s "loky".'
        )


def repeats(dataset: tf.data.Dataset) -> bool:
    """Whether a data set, or one that it is made from, repeats its rows.

    A zip ends with its shortest part, whose rows may be beside a constant or a number
    that goes on for ever.
    """
    name, parts = type(dataset).__name__.lstrip("_"), dataset._inputs()
    if name == "ZipDataset":
        return all(repeats(part) for part in parts if not is_endless(part))
    return name == "RepeatDataset" or any(map(repeats, parts))


def is_endless(dataset: tf.data.Dataset) -> bool:
    """Whether a data set is known to have no end, even if a filter hides it."""
    cardinality = dataset.cardinality()
    if cardinality != tf.data.UNKNOWN_CARDINALITY:
        return bool(cardinality == tf.data.INFINITE_CARDINALITY)
    ends = type(dataset).__name__.lstrip("_") in ("TakeDataset", "TakeWhileDataset")
    inputs = dataset._inputs()
    return not ends and len(inputs) == 1 and is_endless(inputs[0])


def reads_generator(dataset: tf.data.Dataset) -> bool:
    """Whether elements come from a generator or a repetition, which may never end.

    Their end cannot be known, unlike that of files, or of filters of finite data.
    """
    endless = {"GeneratorDataset", "RepeatDataset", "RepeatDatasetV2"}
    return any(
        operation.type in endless
        for function in dataset._functions()
        for operation in function.function.graph.get_operations()
    ) or any(map(reads_generator, dataset._inputs()))


def element_spec_of_replica(dataset):
    """Returns the specification of the batches of a data set, or of a replica's share.

    That of a distributed data set holds one for each replica, and has no dtype.
    """
    return keras.tree.map_structure(
        lambda spec: spec._value_specs[0] if isinstance(spec, PerReplicaSpec) else spec,
        dataset.element_spec,
    )


def wait_for_heartbeats(cluster_spec, seconds: float) -> None:
    """Sets how long the processes of a cluster may be silent before they count as gone.

    Call it before a strategy is made.
    """
    jobs = [job for job in ("chief", "worker") if job in cluster_spec.jobs]
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:{jobs[0]}/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * seconds),
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(
                name=job, num_tasks=cluster_spec.num_tasks(job)
            )
            for job in jobs
        ],
    )


# Operations that call functions, in whose graphs there are custom gradients too.
_CALLS = (
    "If",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "StatelessIf",
    "StatelessWhile",
    "While",
)
# How TensorFlow names the gradients that it registers itself.
_CUSTOM_GRADIENT = "CustomGradient-"


@contextlib.contextmanager
def custom_gradients_go_with_their_graph() -> Iterator[None]:
    """Lets TensorFlow forget custom gradients traced in the block with their graph.

    TensorFlow registers each custom gradient for ever, and with it the graph that it
    belongs to: without this, each model that is trained would leave megabytes behind.
    As long as there is the graph, it can be differentiated. That matters for functions
    that every model calls, such as `tfp.math.lbeta`: their graphs stay.
    """
    if tf.executing_eagerly():
        yield
        return
    graph = tf.compat.v1.get_default_graph()
    num_before = len(graph.get_operations())
    yield
    _keep_in_graph(graph, graph.get_operations()[num_before:])


def _keep_in_graph(graph, operations: Iterable[tf.Operation]) -> None:
    for operation in operations:
        if operation.type == "IdentityN":
            # Other operations of this kind have no such attribute.
            with contextlib.suppress(ValueError):
                name = operation.get_attr("_gradient_op_type").decode()
                if name.startswith(_CUSTOM_GRADIENT):
                    _GradientInGraph.replace(name, graph)
        elif operation.type in _CALLS:
            for attribute in operation.node_def.attr.values():
                function = graph._get_function(attribute.func.name)
                if function is not None and function.graph is not None:
                    _keep_in_graph(function.graph, function.graph.get_operations())


class _GradientInGraph:
    """A registered gradient that is held by its graph, and not by the registry."""

    def __init__(self, gradient, graph):
        self._gradient = weakref.ref(gradient)
        held = getattr(graph, "_custom_gradients", [])
        graph._custom_gradients = [*held, gradient]

    def __call__(self, *args):
        return self._gradient()(*args)

    @classmethod
    def replace(cls, name: str, graph) -> None:
        """Puts such a gradient in the place of the one that is registered."""
        entry = ops.gradient_registry._registry.get(name)
        if entry is None or isinstance(entry["type"], cls):
            return
        entry["type"] = cls(entry["type"], graph)
        forget = ops.gradient_registry._registry.pop
        weakref.finalize(graph, forget, name, None).atexit = False
