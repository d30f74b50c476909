"""The only file that uses names of Keras that are not public.

Keras has no public way to walk through the layers of a model, to see the graph of a
functional one, to run several layers as one call, or to iterate over data as `fit`
does. Each function here says what it reaches for; the rest of the library uses these
functions and public names only. Only the base class of the models also asks its own
base, `keras.Model`, for strategy, compiled metrics and whether `compile` was called.
"""

import contextlib
import functools
import inspect
from collections import OrderedDict
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import trainer as _tensorflow_trainer
from keras.src.backend.tensorflow.trainer import (
    TFEpochIterator,
    _collective_all_reduce_multi_worker,
    convert_to_np_if_not_ragged,
    potentially_ragged_concat,
    reduce_per_replica,
)

# The cell of a convolutional LSTM, re-exported by this module.
from keras.src.layers.rnn.conv_lstm import ConvLSTMCell as ConvLSTMCell
from keras.src.trainers.data_adapters.data_adapter_utils import (
    is_scipy_sparse,
    scipy_sparse_to_tf_sparse,
)
from keras.src.utils import python_utils

# Layers that keep measured statistics in weights and update them only in training.
_MOVES_IN_TRAINING_ONLY = (
    keras.layers.BatchNormalization,
    keras.layers.Normalization,
    keras.layers.SpectralNormalization,
)


# -- layers -------------------------------------------------------------------------


def layers_of(network: keras.Layer) -> list[keras.Layer]:
    """Returns a network and every layer inside, each once.

    They come depth first, in the order of the network's own layers, whereas
    `Layer._flatten_layers` reverses nested ones.
    """
    found: dict[int, keras.Layer] = {}

    def visit(layer):
        if id(layer) not in found:
            found[id(layer)] = layer
            for inner in layers_inside(layer):
                visit(inner)

    visit(network)
    return list(found.values())


def layers_inside(layer: keras.Layer) -> list[keras.Layer]:
    """Returns the layers that a layer holds directly, in order of its attributes."""
    return list(layer._layers)


def functions_of(layer) -> dict:
    """Returns the functions that one of Keras's layers or operations was given.

    They are by argument; a configuration has only a function's name, or its code
    without the module around it. Layers of other classes have their own ways, and none
    here.
    """
    if type(layer).__module__.split(".")[0] not in ("keras", "bhn_tf"):
        return {}
    found = {
        argument: value
        for argument in layer.get_config()
        for value in (getattr(layer, name, None) for name in (argument, f"_{argument}"))
        if inspect.isfunction(value)
    }
    if isinstance(layer, keras.layers.Lambda):
        # These may hold functions.
        found |= {"arguments": layer.arguments, "mask": layer.mask}
    return found


def with_objects(config: dict) -> dict:
    """Returns a configuration with the objects that Keras has made into dictionaries.

    Some are accepted by `from_config` alone, such as how a layer is quantised.
    """
    return {
        argument: keras.saving.deserialize_keras_object(value)
        if isinstance(value, dict) and "class_name" in value
        else value
        for argument, value in config.items()
    }


def freeze_parts_of_frozen(layer: keras.Layer) -> None:
    """Freezes parts of a frozen layer that did not exist when it was frozen."""
    if not layer.trainable:
        # Part by part, as Keras ignores setting `trainable` to the value it has.
        for part in layers_inside(layer):
            part.trainable = False


def num_parts_in_file(store, place: str) -> int:
    """Returns how many layers in a list have weights in the file that is being read.

    Args:
        store: What Keras gives to a layer's `load_own_variables`. Of a file in several
            shards only the open one is counted, and of other formats nothing.
        place: Where the list is in the layer: attributes with slashes between them.
    """

    def is_array(name, item):
        return True if hasattr(item, "shape") else None

    file = getattr(store, "h5_file", None)
    around = getattr(store, "_h5_entry_path", None)
    parts = file.get(f"{around}/{place}", {}) if file else {}
    return sum(bool(part.visititems(is_array)) for part in parts.values())


def own_attributes(layer: keras.Layer) -> dict:
    """Returns the attributes that a class has added to those of every layer.

    TensorFlow lists some of them again, for checkpoints, under other names.
    """
    others = set(vars(keras.layers.Layer()))
    return {
        name: value
        for name, value in vars(layer).items()
        if name not in others and not name.startswith("_self_")
    }


def exchange_layer(owner: keras.Layer, old, new, container, key) -> None:
    """Replaces a layer that another layer holds.

    Keras accepts no new layers in a built layer, and keeps tracking replaced ones. In
    the tracker's list the new layer takes the old one's position.

    Args:
        owner: The layer that holds them.
        old: The layer to be replaced.
        new: Its replacement.
        container: The list or dictionary in which it is, or `None` for an attribute.
        key: Its index, key or the attribute's name.
    """
    if owner._tracker.is_in_store("layers", old):
        owner._tracker.replace_tracked_value("layers", old, new)
    if container is None:
        setattr(owner, key, new)
    else:
        # Bypasses Keras's own lists and dictionaries, which would try to track it.
        kind = dict if isinstance(container, dict) else list
        kind.__setitem__(container, key, new)


def kernel_of(layer: keras.Layer) -> keras.Variable:
    """Returns the variable behind `layer.kernel`, which is a property of some layers.

    The property adds the product of LoRA, or unpacks quantised values.
    """
    return layer._kernel if hasattr(layer, "_kernel") else layer.kernel


def causal_padding_of(layer: keras.layers.Conv1D) -> list[list[int]]:
    """Returns the padding of each axis of the inputs with `padding="causal"`."""
    return layer._compute_causal_padding()


def noise_shape_of(layer, inputs):
    """Returns the shape of the mask of a `SpatialDropout` layer."""
    return layer._get_noise_shape(inputs)


def is_rematerialized(layer: keras.Layer) -> bool:
    """Whether a layer's call may run again for its gradient (`RematScope`).

    The mode "activations" is safe, as these are functions of only their inputs.
    """
    scope = getattr(layer, "_remat_mode", None)
    if scope is None or scope.mode in (None, "activations"):
        return False
    return scope.mode != "list_of_layers" or layer.name in scope.layer_names


def first_call_of(layer: keras.Layer) -> tuple[tuple, dict]:
    """Returns the arguments of the first call of a layer in a graph."""
    arguments = layer._inbound_nodes[0].arguments
    return arguments.args, arguments.kwargs


def layers_as_keras_flattens(network: keras.Layer) -> list[keras.Layer]:
    """Returns the layers in the order in which version 0.1 took their values."""
    return network._flatten_layers()


def own_losses(network: keras.Layer) -> list[tf.Tensor]:
    """Returns what the layers have added with `add_loss` in the running call.

    This includes the regularisation of activities, but not of weights.
    """
    return [loss for layer in layers_of(network) for loss in layer._get_own_losses()]


def weight_losses(network: keras.Layer) -> list[tf.Tensor]:
    """Returns the regularisation of the network's weights."""
    return network._get_regularization_losses()


@contextlib.contextmanager
def one_call_of(network: keras.Layer) -> Iterator[None]:
    """Runs layers as if the network had called them.

    A layer that is called on its own first forgets what it has added with `add_loss`,
    so that a second use would hide the losses of the first.
    """
    network._get_call_context()
    try:
        yield
    finally:
        network._maybe_reset_call_context()


# -- state that moves ----------------------------------------------------------------


def moving_variables(network: keras.Layer, training: bool) -> list[keras.Variable]:
    """Returns the variables that a call of the network may change.

    They are states of recurrent layers and of users' own layers, and in training also
    moving averages; not metrics, on which no output depends.
    """
    layers = layers_of(network)
    variables = [
        variable
        for layer in layers
        if training or not isinstance(layer, _MOVES_IN_TRAINING_ONLY)
        for variable in layer._non_trainable_variables
    ]
    if training:
        # In training this layer divides its kernel, a trainable weight, by its norm.
        variables += [
            layer.kernel
            for layer in layers
            if isinstance(layer, keras.layers.SpectralNormalization)
        ]
    # States of a recurrent layer are not among its variables.
    states = [
        state
        for layer in layers
        if isinstance(layer, keras.layers.RNN) and layer.stateful
        for state in keras.tree.flatten(layer.states)
        if state is not None
    ]
    return list({id(variable): variable for variable in variables + states}.values())


def statistics_of_rows(network: keras.Layer, training: bool) -> list[keras.Variable]:
    """Returns the variables that a call may set to numbers taken from its rows.

    They are metrics of layers, and what `moving_variables` returns except for counters
    and what is the same on all replicas: statistics of all their rows, and of weights.
    """
    shared = {
        id(variable)
        for layer in layers_of(network)
        if is_synchronized(layer)
        or isinstance(layer, keras.layers.SpectralNormalization)
        for variable in layer.variables
    }
    return metric_variables(network) + [
        variable
        for variable in moving_variables(network, training)
        if id(variable) not in shared and "float" in variable.dtype
    ]


def is_synchronized(layer: keras.Layer) -> bool:
    """Whether a layer normalises with statistics of the rows of all replicas."""
    is_normalization = isinstance(layer, keras.layers.BatchNormalization)
    return is_normalization and layer.synchronized


def metrics_inside(network: keras.Layer) -> list[keras.Metric]:
    """Returns the metrics that layers, and models, hold and update themselves.

    Those of `compile`, and the loss of a model inside, are not among them.
    """
    return [metric for layer in layers_of(network) for metric in layer._metrics]


def metric_variables(network: keras.Layer) -> list[keras.Variable]:
    """Returns the variables of the metrics that layers hold and update themselves."""
    return [v for metric in metrics_inside(network) for v in metric.variables]


def seed_variables(network: keras.Layer) -> list[keras.Variable]:
    """Returns the states of the network's seed generators (dropout, noise)."""
    return [
        generator.state
        for layer in layers_of(network)
        for generator in layer._seed_generators
    ]


def has_seed_generator(layer: keras.Layer) -> bool:
    """Whether a layer draws random numbers itself."""
    return bool(layer._seed_generators)


# -- metrics -------------------------------------------------------------------------


def compiled_metrics(compiled, *structures) -> Iterator[tuple]:
    """Yields the metrics of each output, in Keras's order of the outputs.

    Args:
        compiled: Keras's object that holds all metrics of `compile`, built.
        structures: Values in the structure of the outputs.

    Yields:
        `(metrics, weighted_metrics, *values)` of an output.
    """
    columns = map(compiled._flatten_y, structures)
    both = compiled._flat_metrics, compiled._flat_weighted_metrics
    for unweighted, weighted, *values in zip(*both, *columns, strict=True):
        yield (
            *([] if each is None else each.metrics for each in (unweighted, weighted)),
            *values,
        )


def averaged_function(metric):
    """Returns the function of labels and predictions that a metric averages.

    It is `None` for metrics of another kind.
    """
    if not isinstance(metric, keras.metrics.MeanMetricWrapper):
        return None
    return functools.partial(metric._fn, **metric._fn_kwargs)


def metrics_result(results: dict) -> dict:
    """Returns results of metrics as Keras's `get_metrics_result` would.

    Early versions make Python's numbers of them there, later ones where logs are given
    to the user.
    """
    converts_later = hasattr(_tensorflow_trainer, "pythonify_logs")
    return results if converts_later else python_utils.pythonify_logs(results)


def set_lower_is_better(metric: keras.Metric) -> None:
    """Tells `EarlyStopping`, in `mode="auto"`, that a metric should fall."""
    metric._direction = "down"


# -- masks --------------------------------------------------------------------------


def mask_of(tensor):
    """Returns the mask that Keras's layers have given a tensor, or `None`."""
    return getattr(tensor, "_keras_mask", None)


def with_mask(tensor, mask):
    """Attaches a mask to a tensor, which Keras's metrics then respect."""
    if mask is not None:
        tensor._keras_mask = mask
    return tensor


# -- the graph of a functional network -----------------------------------------------


def is_functional(network) -> bool:
    """Whether a model is functional, and not Sequential."""
    return not isinstance(network, keras.Sequential) and hasattr(network, "operations")


def graph_of(network: keras.Model):
    """Returns the functional graph behind a functional or Sequential model."""
    is_sequential = isinstance(network, keras.Sequential)
    return network._functional if is_sequential else network


def nodes_in_order(graph) -> Iterator:
    """Yields the calls of a graph's layers, each after those it depends on."""
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            if node.operation is not None and not node.is_input:
                yield node


def num_uses(layer: keras.Layer) -> int:
    """How many times a layer has been called to build graphs."""
    return len(layer._inbound_nodes)


def inputs_of_graph(graph, inputs) -> list:
    """Returns the tensors of inputs in the form that a graph takes.

    They are matched by name and converted, and a missing axis is added.
    """
    return graph._standardize_inputs(inputs)


def outputs_of_graph(graph, tensors: list):
    """Packs flat outputs into the structure that the graph returns."""
    return keras.tree.pack_sequence_as(graph._outputs_struct, tensors)


def run_through_graph(graph, inputs, operation_fn):
    """Runs a graph with `operation_fn(layer)` in place of every layer."""
    return graph._run_through_graph(inputs, operation_fn=operation_fn)


def inputs_in_graphs(layer: keras.Layer) -> list:
    """Returns the symbolic tensors that a layer takes in the graphs it is part of."""
    return [tensor for node in layer._inbound_nodes for tensor in node.input_tensors]


def outermost_layer() -> keras.Layer | None:
    """Returns the layer or model whose call is running, with others inside it."""
    context = global_state.get_global_attribute("current_call_ctx")
    return None if context is None else context.entry_layer


def origin_of(tensor):
    """Returns the operation that a symbolic tensor comes from, and its inputs.

    Without an origin, these are `None` and empty.
    """
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return None, []
    node = history.operation._inbound_nodes[history.node_index]
    return history.operation, node.input_tensors


def index_in_origin(tensor) -> int:
    """Returns which of its operation's outputs a symbolic tensor is."""
    return tensor._keras_history.tensor_index


def inputs_by_name(network: keras.Layer, inputs):
    """Returns a dictionary of inputs in the order in which a network declares them.

    Keras flattens an `OrderedDict` in its own order, and could confuse columns.
    """
    declared = getattr(network, "_inputs_struct", None)
    if not isinstance(inputs, dict):
        return inputs
    if not isinstance(declared, dict) or set(declared) - set(inputs):
        # Keras flattens plain dictionaries in the sorted order of their names.
        return dict(inputs)
    kind = OrderedDict if isinstance(declared, OrderedDict) else dict
    return kind((name, inputs[name]) for name in declared)


def flat_inputs(network: keras.Layer, inputs) -> list:
    """Returns the inputs that a network takes, in the order in which it declares them.

    A dictionary may be in another order, and may have columns that it does not take.
    """
    declared = getattr(graph_of(network), "_inputs_struct", None)
    if isinstance(inputs, dict) and not isinstance(declared, dict | type(None)):
        names = [origin_of(tensor)[0].name for tensor in keras.tree.flatten(declared)]
        if set(names) <= set(inputs):
            return [inputs[name] for name in names]
    return keras.tree.flatten(inputs_by_name(network, inputs))


def takes_training(operation) -> bool:
    """Whether the `call` of a layer has the argument `training`."""
    return getattr(operation, "_call_has_training_arg", False)


# -- batches -------------------------------------------------------------------------

#: Rows of a batch if no number is given.
DEFAULT_BATCH_SIZE = 32


def batches_for_prediction(x, batch_size, steps, strategy) -> TFEpochIterator:
    """Returns the iterator over data that Keras's own `predict` uses."""
    return TFEpochIterator(
        x=x,
        batch_size=batch_size,
        steps_per_epoch=steps,
        shuffle=False,
        distribute_strategy=strategy,
        steps_per_execution=1,
    )


def spans_processes(strategy) -> bool:
    """Whether a strategy spreads over several processes."""
    return _collective_all_reduce_multi_worker(strategy)


def joined_over_replicas(values, strategy):
    """Joins the results of a strategy's replicas on the axis of rows."""
    return reduce_per_replica(values, strategy, reduction="concat")


def joined_over_batches(values: list):
    """Joins batches on the axis of rows; ragged where their other axes differ."""
    return potentially_ragged_concat(values)


def as_tensor(values):
    """Returns a tensor of an array of any library, sparse if the array is sparse."""
    if values is None or tf.is_tensor(values):
        return values
    if is_scipy_sparse(values):
        return tf.sparse.reorder(scipy_sparse_to_tf_sparse(values))
    return tf.convert_to_tensor(np.asarray(values))


def as_array(values):
    """Returns a NumPy array of a tensor; sparse and ragged ones stay as they are."""
    return convert_to_np_if_not_ragged(values)
