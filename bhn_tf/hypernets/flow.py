"""One flow over all generated values, of coupling or autoregressive layers."""

import keras
import numpy as np

from bhn_tf.arguments import check_amount, check_count
from bhn_tf.flows import (
    ConditionedStep,
    Coupling,
    FlowStep,
    InverseAutoregressive,
    Permutation,
    conditioner_options,
    permutations,
)
from bhn_tf.hypernets.hypernet import Hypernet


class Flow(Hypernet):
    """Base of RealNVP and IAF: L layers with fixed permutations between them."""

    def __init__(
        self,
        num_layers: int = 8,
        hidden_units=(200,),
        initial_stddev: float = 0.1,
        initial_mean=None,
        max_log_scale: float = 0.5,
        permutation_seed: int = 0,
        max_shift: float | None = 2.0,
        weight_norm: bool = True,
        initial_scale: float = 0.01,
        **kwargs,
    ):
        super().__init__(initial_stddev, initial_mean, **kwargs)
        if np.ndim(hidden_units) != 1 or not all(map(_is_size, hidden_units)):
            raise ValueError(
                "Expected `hidden_units` to be positive sizes of hidden layers, "
                f"such as (200,), got {hidden_units!r}."
            )
        if not 0 < max_log_scale < np.inf:
            raise ValueError(
                "Expected `max_log_scale` to be positive and finite, "
                f"got {max_log_scale!r}."
            )
        if max_shift is not None and not 0 < max_shift < np.inf:
            raise ValueError(
                "Expected `max_shift` to be positive and finite, or `None` for shifts "
                f"without a bound, got {max_shift!r}."
            )
        self.num_layers = check_count("num_layers", num_layers, minimum=0)
        self.hidden_units = tuple(map(int, hidden_units))
        self.max_log_scale = float(max_log_scale)
        self.permutation_seed = check_count(
            "permutation_seed", permutation_seed, minimum=0
        )
        self.max_shift = None if max_shift is None else float(max_shift)
        self.weight_norm = bool(weight_norm)
        self.initial_scale = check_amount("initial_scale", initial_scale)

    #: The class of the L layers.
    layer_class: type[ConditionedStep]

    def make_flow_steps(self, event_size):
        between = permutations(
            event_size,
            self.num_layers,
            self.layer_class.num_untransformed(event_size),
            self.permutation_seed,
        )
        steps: list[FlowStep] = []
        for index in range(self.num_layers):
            if index > 0:
                steps.append(
                    Permutation(between[index - 1], name=f"permutation_{index}")
                )
            steps.append(
                self.layer_class(**conditioner_options(self), name=f"flow_{index}")
            )
        return steps

    def get_config(self):
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "permutation_seed": self.permutation_seed,
            **conditioner_options(self),
            "hidden_units": list(self.hidden_units),
        }

    @classmethod
    def from_config(cls, config):
        """Keeps the shifts of version 0.1's flows unbounded, as they were."""
        return cls(**{"max_shift": None, **config})


def _is_size(units) -> bool:
    return isinstance(units, int | np.integer) and int(units) >= 1


@keras.saving.register_keras_serializable("bhn_tf")
class RealNVP(Flow):
    """Coupling layers (Dinh et al. 2016): cheap in both directions.

    Args:
        num_layers: L, the number of coupling layers.
        hidden_units: Hidden layers of each conditioner.
        initial_stddev: Initial standard deviation of every value.
        initial_mean: Initial mean; `None` for the primary's scales.
        max_log_scale: Bound of each layer's log-scale. With `max_shift` it limits how
            far out rare draws lie, which steadies the KL.
        permutation_seed: Seed of the fixed permutations between the layers; equal
            seeds give equal permutations, so that weights fit a second instance.
        max_shift: Bound of each layer's shift; `None` for none.
        weight_norm: Whether the weights of the conditioners are normalised, which
            stabilises training (paper, "Efficient Parametrization and Training").
        initial_scale: The scale of each conditioner's last layer at first: a small one
            starts close to a Gaussian of independent values.

    Example:
    ```python
    hypernet = bhn_tf.hypernets.RealNVP(num_layers=4, hidden_units=(100,))
    model = bhn_tf.BayesianHypernet(primary, hypernet=hypernet)
    ```
    """

    layer_class = Coupling


@keras.saving.register_keras_serializable("bhn_tf")
class IAF(Flow):
    """Inverse autoregressive flow (Kingma et al. 2016) with MADE conditioners.

    In each layer every value depends on all values before it. Drawing, with the
    density of the draws, takes one pass; the density of any other point takes D passes.

    Args:
        num_layers: L, the number of autoregressive layers.
        hidden_units: Hidden layers of each MADE.
        initial_stddev: Initial standard deviation of every value.
        initial_mean: Initial mean; `None` for the primary's scales.
        max_log_scale: Bound of each layer's log-scale. With `max_shift` it limits how
            far out rare draws lie, which steadies the KL.
        permutation_seed: Seed of the fixed permutations between the layers.
        max_shift: Bound of each layer's shift; `None` for none.
        weight_norm: Whether the weights of the MADEs are normalised.
        initial_scale: The scale of each MADE's last layer at first; see `RealNVP`.

    Example:
    ```python
    model = bhn_tf.BayesianHypernet(primary, hypernet="iaf")
    ```
    """

    layer_class = InverseAutoregressive
