"""Normalising flows: Keras layers in, TFP bijectors out."""

from bhn_tf.flows.chunk_layout import chunk_sizes, orders_within
from bhn_tf.flows.chunks import DrivenAutoregressive, DrivenCoupling, Leading
from bhn_tf.flows.conditioners import (
    MADE,
    CouplingConditioner,
    conditioner_options,
    made_masks,
)
from bhn_tf.flows.permutations import permutations
from bhn_tf.flows.steps import (
    ConditionedStep,
    Coupling,
    ElementwiseAffine,
    FlowStep,
    InverseAutoregressive,
    Permutation,
)

__all__ = [
    "MADE",
    "ConditionedStep",
    "Coupling",
    "CouplingConditioner",
    "DrivenAutoregressive",
    "DrivenCoupling",
    "ElementwiseAffine",
    "FlowStep",
    "InverseAutoregressive",
    "Leading",
    "Permutation",
    "chunk_sizes",
    "conditioner_options",
    "made_masks",
    "orders_within",
    "permutations",
]
