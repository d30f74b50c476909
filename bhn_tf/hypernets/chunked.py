"""A hypernet for very many values: a flow with the same conditioners for all chunks."""

import keras
import numpy as np

from bhn_tf.arguments import check_count
from bhn_tf.flows import (
    Coupling,
    DrivenAutoregressive,
    DrivenCoupling,
    FlowStep,
    InverseAutoregressive,
    Leading,
    chunk_sizes,
    conditioner_options,
    orders_within,
)
from bhn_tf.hypernets.flow import Flow

_LAYERS = {
    "realnvp": (Coupling, DrivenCoupling),
    "iaf": (InverseAutoregressive, DrivenAutoregressive),
}


@keras.saving.register_keras_serializable("bhn_tf")
class Chunked(Flow):
    """A flow over chunks of g that share one conditioner per layer, for large D.

    The paper closes with the idea of one hypernet that outputs different subsets of
    the parameters. Here the first chunk g_0 has its own flow and drives the others,
    which share one flow: it is given g_0 and a learned embedding of the chunk's number,
    so that the density is exact,

        q(g) = q(g_0) Π_k q(g_k | g_0)

    Chunks depend on one another through the first. With at most `chunk_size` values it
    is the plain flow. A plain flow's weights grow with D: for 26,560 values a RealNVP
    of 8 layers has 64 million, this hypernet 0.9 million.

    Args:
        flow: "realnvp" or "iaf".
        chunk_size: Largest number of values of a chunk.
        num_layers: L, the number of layers of each of the two flows.
        hidden_units: Hidden layers of each conditioner.
        embedding_size: Size of the embedding of a chunk's number.
        layer_sizes: Sizes of groups of values, in the order of g. A group is kept in
            one chunk if it fits. `None`: the values of each layer of the model; outside
            of a model, all D values are cut evenly.
        initial_stddev: Initial standard deviation of every value.
        initial_mean: Initial mean; `None` for the primary's scales.
        max_log_scale: Bound of each layer's log-scale; see `RealNVP`.
        permutation_seed: Seed of the fixed orders within chunks.
        max_shift: Bound of each layer's shift; `None` for none.
        weight_norm: Whether the weights of the conditioners are normalised.
        initial_scale: The scale of each conditioner's last layer at first; see
            `RealNVP`.

    Example:
    ```python
    hypernet = bhn_tf.hypernets.Chunked(flow="realnvp", chunk_size=128)
    model = bhn_tf.BayesianHypernet(primary, hypernet=hypernet)
    ```
    """

    def __init__(
        self,
        flow: str = "realnvp",
        chunk_size: int = 256,
        num_layers: int = 4,
        hidden_units=(200,),
        embedding_size: int = 16,
        layer_sizes=None,
        **kwargs,
    ):
        super().__init__(num_layers, hidden_units, **kwargs)
        if flow not in _LAYERS:
            raise ValueError(
                f"Expected `flow` to be one of {sorted(_LAYERS)}, got {flow!r}."
            )
        self.flow = flow
        self.chunk_size = check_count("chunk_size", chunk_size, minimum=1)
        self.embedding_size = check_count("embedding_size", embedding_size, minimum=1)
        self.layer_sizes = None if layer_sizes is None else list(map(int, layer_sizes))

    @property
    def layer_class(self):
        """The class of the layers of the first chunk."""
        return _LAYERS[self.flow][0]

    def take_layer_sizes(self, sizes):
        if self.layer_sizes is None:
            self.layer_sizes = list(map(int, sizes))

    def make_flow_steps(self, event_size):
        sizes = chunk_sizes(self._part_sizes(event_size), self.chunk_size)
        # With one entry there is nothing to condition on.
        of_first = super().make_flow_steps(sizes[0]) if sizes[0] > 1 else []
        if len(sizes) == 1:
            return of_first
        steps: list[FlowStep] = [
            Leading(step, sizes[0], name=f"first_{step.name}") for step in of_first
        ]
        driven_class = _LAYERS[self.flow][1]
        width = max(sizes[1:])
        orders = orders_within(
            width,
            self.num_layers,
            driven_class.num_untransformed(width),
            self.permutation_seed,
        )
        for index, order in enumerate(orders):
            steps.append(
                driven_class(
                    sizes,
                    order,
                    self.embedding_size,
                    **conditioner_options(self),
                    name=f"driven_{index}",
                )
            )
        return steps

    def _part_sizes(self, event_size):
        if self.layer_sizes is None:
            return [event_size]
        if np.sum(self.layer_sizes) != event_size or min(self.layer_sizes) < 0:
            raise ValueError(
                f"`layer_sizes` of the hypernet {self.name!r} are those of "
                f"{np.sum(self.layer_sizes)} values, but the network has "
                f"D = {event_size}. Give a new instance, whose `layer_sizes=None` "
                "takes them from the network."
            )
        return self.layer_sizes

    def get_config(self):
        return {
            **super().get_config(),
            "flow": self.flow,
            "chunk_size": self.chunk_size,
            "embedding_size": self.embedding_size,
            "layer_sizes": self.layer_sizes,
        }
