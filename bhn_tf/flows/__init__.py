"""Normalising flows: Keras layers in, TFP bijectors out."""

from bhn_tf.flows.conditioners import MADE, CouplingConditioner, made_masks
from bhn_tf.flows.permutations import permutations
from bhn_tf.flows.steps import (
    Coupling,
    ElementwiseAffine,
    FlowStep,
    InverseAutoregressive,
    Permutation,
)

__all__ = [
    "MADE",
    "Coupling",
    "CouplingConditioner",
    "ElementwiseAffine",
    "FlowStep",
    "InverseAutoregressive",
    "Permutation",
    "made_masks",
    "permutations",
]
