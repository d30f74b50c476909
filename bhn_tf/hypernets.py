"""Hypernets: the approximate posterior q(g) as an invertible network of noise.

`g = h(ε)`, `ε ~ N(0, I_D)`, and `log q(g) = log N(ε; 0, I) - log|det ∂h/∂ε|` (paper,
section "Bayesian Hypernets"). h ends with an element-wise affine map; the flow steps
before it start close to the identity and return zero at zero, so that h(0) = μ at
the start.
"""

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from bhn_tf.flows import (
    Coupling,
    ElementwiseAffine,
    FlowStep,
    InverseAutoregressive,
    Permutation,
    permutations,
)
from bhn_tf.random import stateless_seed


class Hypernet(keras.layers.Layer):
    """Base of the hypernets; float32 under every dtype policy.

    Args:
        initial_stddev: Initial σ of every entry of g.
        initial_mean: Initial μ, a number or D numbers. `None` stands for the scales
            that the primary network has when it becomes Bayesian, and for zero
            outside a model.
    """

    def __init__(self, initial_stddev: float = 0.1, initial_mean=None, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})
        if not initial_stddev > 0 or not np.isfinite(initial_stddev):
            raise ValueError(
                "Expected `initial_stddev` to be a positive number, "
                f"got {initial_stddev!r}."
            )
        self.initial_stddev = float(initial_stddev)
        self.initial_mean = (
            None if initial_mean is None else np.asarray(initial_mean).tolist()
        )

    def _flow_steps(self, event_size: int) -> list[FlowStep]:
        """The steps before the element-wise affine map."""
        raise NotImplementedError

    def build(self, input_shape):
        """Creates the weights for noise of shape [..., D]."""
        event_size = input_shape[-1]
        if np.size(self.initial_mean) not in (1, event_size):
            raise ValueError(
                f"`initial_mean` has {np.size(self.initial_mean)} entries, but the "
                f"network has D = {event_size} generated values. Give one number, "
                "or one for each value."
            )
        self.event_size = event_size
        mean = 0.0 if self.initial_mean is None else self.initial_mean
        self.affine = ElementwiseAffine(mean, self.initial_stddev, name="affine")
        # A flow over fewer than two entries has nothing to condition on.
        self.flow_steps = self._flow_steps(event_size) if event_size > 1 else []
        for step in self._steps:
            step.build((None, event_size))

    @property
    def _steps(self) -> list[FlowStep]:
        return [*self.flow_steps, self.affine]

    def _require_built(self):
        if not self.built:
            raise ValueError(
                f"The hypernet {self.name!r} has no weights yet. Wrap it in a "
                "`BayesianHypernet` with a built primary, or call "
                "`build((None, event_size))`."
            )

    @property
    def distribution(self) -> tfd.TransformedDistribution:
        """q(g) as a fresh TFP distribution with event shape [D]."""
        self._require_built()
        bijectors = [step.bijector for step in reversed(self._steps)]
        return tfd.TransformedDistribution(
            self._base_distribution(), tfb.Chain(bijectors)
        )

    def _base_distribution(self):
        return tfd.Sample(tfd.Normal(0.0, 1.0), sample_shape=[self.event_size])

    def sample_and_log_prob(self, num_samples: int = 1, seed=None):
        """Draws from q and returns the density of each draw beside it.

        The result equals that of `distribution.experimental_sample_and_log_prob`,
        with each conditioner evaluated once.

        Args:
            num_samples: S, an integer or an integer scalar tensor.
            seed: `None`, a non-negative integer or an int32 pair.

        Returns:
            g [S, D] and log q(g) [S] in nats, both float32.

        Example:
        ```python
        hypernet = bhn_tf.hypernets.RealNVP()
        hypernet.build((None, 3))
        g, log_prob = hypernet.sample_and_log_prob(5, seed=1)
        ```
        """
        self._require_built()
        # The algorithm that "auto_select" takes as well, only that XLA on a CPU draws
        # far faster where it is told.
        noise = tf.random.stateless_normal(
            [num_samples, self.event_size], stateless_seed(seed), alg="philox"
        )
        return self.transform(noise)

    def transform(self, noise):
        """Returns h(ε) and log q(h(ε)) for noise ε of shape [..., D]."""
        self._require_built()
        log_prob = self._base_distribution().log_prob(noise)
        values = noise
        for step in self._steps:
            values, log_det = step(values)
            log_prob -= log_det
        return values, log_prob

    def call(self, noise):
        """Returns g = h(ε) of the shape of the noise, [..., D]."""
        return self.transform(noise)[0]

    def center(self) -> tf.Tensor:
        """Returns h(0), the draw without noise, [D]."""
        self._require_built()
        return self(tf.zeros([self.event_size]))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "initial_stddev": self.initial_stddev,
            "initial_mean": self.initial_mean,
        }


@keras.saving.register_keras_serializable("bhn_tf")
class MeanField(Hypernet):
    """Independent Gaussians: a hypernet without flow layers (L = 0).

    Over whole kernels and biases this is Bayes by Backprop (Blundell et al. 2015).

    Args:
        initial_stddev: Initial standard deviation of every value.
        initial_mean: Initial mean; `None` for the scales the primary has.

    Example:
    ```python
    model = bhn_tf.BayesianHypernet(primary, hypernet=bhn_tf.hypernets.MeanField())
    ```
    """

    def _flow_steps(self, event_size):
        return []


class _Flow(Hypernet):
    """What RealNVP and IAF share: L layers with fixed permutations between them."""

    def __init__(
        self,
        num_layers: int = 8,
        hidden_units=(200,),
        initial_stddev: float = 0.1,
        initial_mean=None,
        max_log_scale: float = 0.5,
        permutation_seed: int = 0,
        max_shift: float | None = 2.0,
        **kwargs,
    ):
        super().__init__(initial_stddev, initial_mean, **kwargs)
        if num_layers < 0:
            raise ValueError(
                f"Expected `num_layers` to be at least 0, got {num_layers!r}."
            )
        if not all(units >= 1 for units in hidden_units):
            raise ValueError(
                "Expected `hidden_units` to be positive sizes of hidden layers, "
                f"such as (200,), got {hidden_units!r}."
            )
        if not max_log_scale > 0:
            raise ValueError(
                f"Expected `max_log_scale` to be positive, got {max_log_scale!r}."
            )
        if max_shift is not None and not max_shift > 0:
            raise ValueError(
                "Expected `max_shift` to be positive, or `None` for shifts without a "
                f"bound, got {max_shift!r}."
            )
        self.num_layers = num_layers
        self.hidden_units = tuple(hidden_units)
        self.max_log_scale = float(max_log_scale)
        self.permutation_seed = permutation_seed
        self.max_shift = None if max_shift is None else float(max_shift)

    def _layer(self, name: str) -> FlowStep:
        raise NotImplementedError

    def _num_untransformed(self, event_size: int) -> int:
        raise NotImplementedError

    def _flow_steps(self, event_size):
        between = permutations(
            event_size,
            self.num_layers,
            self._num_untransformed(event_size),
            self.permutation_seed,
        )
        steps = []
        for index in range(self.num_layers):
            if index > 0:
                steps.append(
                    Permutation(between[index - 1], name=f"permutation_{index}")
                )
            steps.append(self._layer(f"flow_{index}"))
        return steps

    def get_config(self):
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "hidden_units": list(self.hidden_units),
            "max_log_scale": self.max_log_scale,
            "permutation_seed": self.permutation_seed,
            "max_shift": self.max_shift,
        }

    @classmethod
    def from_config(cls, config):
        """Flows of version 0.1, whose shifts had no bound, stay as they were."""
        return cls(**{"max_shift": None, **config})


@keras.saving.register_keras_serializable("bhn_tf")
class RealNVP(_Flow):
    """Coupling layers (Dinh et al. 2016): cheap in both directions.

    Args:
        num_layers: L, the number of coupling layers.
        hidden_units: Hidden layers of each conditioner.
        initial_stddev: Initial standard deviation of every value.
        initial_mean: Initial mean; `None` for the scales the primary has.
        max_log_scale: Bound of each layer's log-scale: with `max_shift` it decides how
            far rare draws lie, and so how steady the KL is.
        permutation_seed: Seed of the fixed permutations between the layers; equal
            seeds give equal permutations, so that weights fit a second instance.
        max_shift: Bound of each layer's shift; `None` for none.

    Example:
    ```python
    hypernet = bhn_tf.hypernets.RealNVP(num_layers=4, hidden_units=(100,))
    model = bhn_tf.BayesianHypernet(primary, hypernet=hypernet)
    ```
    """

    def _layer(self, name):
        return Coupling(
            self.hidden_units, self.max_log_scale, self.max_shift, name=name
        )

    def _num_untransformed(self, event_size):
        return event_size // 2


@keras.saving.register_keras_serializable("bhn_tf")
class IAF(_Flow):
    """Inverse autoregressive flow (Kingma et al. 2016) with MADE conditioners.

    Each layer lets every value depend on all that come before it. Draws and their
    density take one pass; the density of a point from elsewhere takes D of them.

    Args:
        num_layers: L, the number of autoregressive layers.
        hidden_units: Hidden layers of each MADE.
        initial_stddev: Initial standard deviation of every value.
        initial_mean: Initial mean; `None` for the scales the primary has.
        max_log_scale: Bound of each layer's log-scale: with `max_shift` it decides how
            far rare draws lie, and so how steady the KL is.
        permutation_seed: Seed of the fixed permutations between the layers.
        max_shift: Bound of each layer's shift; `None` for none.

    Example:
    ```python
    model = bhn_tf.BayesianHypernet(primary, hypernet="iaf")
    ```
    """

    def _layer(self, name):
        return InverseAutoregressive(
            self.hidden_units, self.max_log_scale, self.max_shift, name=name
        )

    def _num_untransformed(self, event_size):
        return 1


_BY_NAME = {"mean_field": MeanField, "realnvp": RealNVP, "iaf": IAF}


def get(identifier) -> Hypernet:
    """Returns a hypernet for a name ("mean_field", "realnvp", "iaf") or an instance.

    Raises:
        ValueError: If the name is unknown or the object is no hypernet.
    """
    if isinstance(identifier, Hypernet):
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    raise ValueError(
        f"Expected `hypernet` to be one of {sorted(_BY_NAME)} or an instance such as "
        f"`bhn_tf.hypernets.RealNVP(num_layers=4)`, got {identifier!r}."
    )
