"""The only package that uses names of Keras that are not public.

Keras has no public way to walk through the layers of a model, to see the graph of a
functional one, to run several layers as one call, or to iterate over data as `fit`
does. Each function here says what it reaches for; the rest of the library uses these
functions and public names only. Only the base class of the models also asks its own
base, `keras.Model`, for strategy, compiled metrics and whether `compile` was called.
"""

# The cell of a convolutional LSTM.
from keras.src.layers.rnn.conv_lstm import ConvLSTMCell

from bhn_tf.keras_adapter.batches import (
    DEFAULT_BATCH_SIZE,
    as_array,
    as_tensor,
    batches_for_prediction,
    joined_over_batches,
    joined_over_replicas,
    spans_processes,
)
from bhn_tf.keras_adapter.calls import (
    is_rematerialized,
    mask_of,
    one_call_of,
    outermost_layer,
    own_losses,
    weight_losses,
    with_mask,
)
from bhn_tf.keras_adapter.configurations import (
    arguments_left_out,
    functions_of,
    num_parts_in_file,
    unsaved_arguments_of,
    with_objects,
)
from bhn_tf.keras_adapter.graphs import (
    calls_of,
    flat_inputs,
    graph_of,
    index_in_origin,
    inputs_by_name,
    inputs_in_graphs,
    inputs_of_graph,
    is_functional,
    layers_as_keras_flattens,
    names_as_flattened,
    nodes_in_order,
    num_uses,
    origin_of,
    outputs_of_graph,
    outputs_out_of_order,
    run_through_graph,
)
from bhn_tf.keras_adapter.layers import (
    causal_padding_of,
    exchange_layer,
    freeze_parts_of_frozen,
    has_seed_generator,
    kernel_of,
    layers_inside,
    layers_of,
    noise_shape_of,
    own_attributes,
    takes_training,
    tensorflow_variables,
)
from bhn_tf.keras_adapter.metrics import (
    averaged_function,
    compiled_metrics,
    metrics_result,
    set_lower_is_better,
    update_without_weights,
)
from bhn_tf.keras_adapter.optimizers import (
    exclude_from_weight_decay,
    has_spent_schedules,
    not_trained_by,
    optimizers_inside,
    without_weight_decay,
)
from bhn_tf.keras_adapter.state import (
    is_synchronized,
    learned_beside_variables,
    metric_variables,
    metrics_inside,
    moving_variables,
    seed_variables,
    statistics_of_rows,
)

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "ConvLSTMCell",
    "arguments_left_out",
    "as_array",
    "as_tensor",
    "averaged_function",
    "batches_for_prediction",
    "calls_of",
    "causal_padding_of",
    "compiled_metrics",
    "exchange_layer",
    "exclude_from_weight_decay",
    "flat_inputs",
    "freeze_parts_of_frozen",
    "functions_of",
    "graph_of",
    "has_seed_generator",
    "has_spent_schedules",
    "index_in_origin",
    "inputs_by_name",
    "inputs_in_graphs",
    "inputs_of_graph",
    "is_functional",
    "is_rematerialized",
    "is_synchronized",
    "joined_over_batches",
    "joined_over_replicas",
    "kernel_of",
    "layers_as_keras_flattens",
    "layers_inside",
    "layers_of",
    "learned_beside_variables",
    "mask_of",
    "metric_variables",
    "metrics_inside",
    "metrics_result",
    "moving_variables",
    "names_as_flattened",
    "nodes_in_order",
    "noise_shape_of",
    "not_trained_by",
    "num_parts_in_file",
    "num_uses",
    "one_call_of",
    "optimizers_inside",
    "origin_of",
    "outermost_layer",
    "outputs_of_graph",
    "outputs_out_of_order",
    "own_attributes",
    "own_losses",
    "run_through_graph",
    "seed_variables",
    "set_lower_is_better",
    "spans_processes",
    "statistics_of_rows",
    "takes_training",
    "tensorflow_variables",
    "unsaved_arguments_of",
    "update_without_weights",
    "weight_losses",
    "with_mask",
    "with_objects",
    "without_weight_decay",
]
