"""Steps of a flow: Keras layers that own weights and describe a TFP bijector.

Called with x [..., D], a step returns `(y, log|det dy/dx|)` and evaluates its
conditioner once. `step.bijector` is the same map as a fresh TFP bijector, for
everything that TFP does with bijectors. TFP evaluates a conditioner twice, for the
value and for the Jacobian, which is why drawing does not go through it.
"""

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from bhn_tf.flows.conditioners import (
    MADE,
    CouplingConditioner,
    conditioner_options,
)


class FlowStep(keras.layers.Layer):
    """Base of the steps: float32 under every dtype policy.

    A custom step makes its weights in `build` and returns a TFP bijector of them as
    `bijector`; see `docs/extending.md`.
    """

    def __init__(self, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})

    @property
    def bijector(self) -> tfb.Bijector:
        """The step as a fresh TFP bijector on vectors of D entries."""
        raise NotImplementedError(
            f"{type(self).__name__} has no `bijector`: return one of "
            "`tensorflow_probability.bijectors`, made of the step's weights."
        )

    def call(self, inputs):
        """Returns y [..., D] and log|det dy/dx| [...] for x [..., D]."""
        bijector = self.bijector
        if not isinstance(bijector, tfb.Bijector):
            raise TypeError(
                f"`bijector` of {type(self).__name__} has to be a property that is a "
                f"bijector of `tensorflow_probability.bijectors`, got {bijector!r}."
            )
        log_det = bijector.forward_log_det_jacobian(inputs, event_ndims=1)
        return bijector.forward(inputs), log_det


class ConditionedStep(FlowStep):
    """A step whose shift and log-scale come from a conditioner.

    Args:
        hidden_units: Sizes of the conditioner's hidden layers.
        max_log_scale: Bound of the log-scale.
        max_shift: Bound of the shift, or `None`.
        weight_norm: Whether the conditioner's weights are normalised.
        initial_scale: The scale of its last layer at first.
        **kwargs: See `keras.layers.Layer`.
    """

    def __init__(
        self,
        hidden_units=(200,),
        max_log_scale=0.5,
        max_shift=2.0,
        weight_norm=True,
        initial_scale=0.01,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_units = hidden_units
        self.max_log_scale = max_log_scale
        self.max_shift = max_shift
        self.weight_norm = weight_norm
        self.initial_scale = initial_scale

    @property
    def conditioner_options(self) -> dict:
        """The arguments of the conditioner."""
        return conditioner_options(self)

    @staticmethod
    def num_untransformed(event_size: int) -> int:
        """How many leading entries pass through."""
        raise NotImplementedError


@keras.saving.register_keras_serializable("bhn_tf")
class Coupling(ConditionedStep):
    """A coupling layer of RealNVP (Dinh et al. 2016).

    The first ⌊D/2⌋ entries pass through and decide how the others are scaled and
    shifted: `y₂ = x₂ ⊙ exp(s(x₁)) + t(x₁)`.
    """

    @staticmethod
    def num_untransformed(event_size):
        return event_size // 2

    def build(self, input_shape):
        event_size = input_shape[-1]
        self.num_masked = self.num_untransformed(event_size)
        self.conditioner = CouplingConditioner(
            event_size - self.num_masked,
            **self.conditioner_options,
            name="conditioner",
        )
        self.conditioner.build((None, self.num_masked))

    def call(self, inputs):
        passed, transformed = (
            inputs[..., : self.num_masked],
            inputs[..., self.num_masked :],
        )
        shift, log_scale = self.conditioner(passed)
        outputs = tf.concat([passed, transformed * tf.exp(log_scale) + shift], axis=-1)
        return outputs, tf.reduce_sum(log_scale, axis=-1)

    @property
    def bijector(self):
        return tfb.RealNVP(
            num_masked=self.num_masked,
            shift_and_log_scale_fn=lambda passed, _: self.conditioner(passed),
        )


@keras.saving.register_keras_serializable("bhn_tf")
class InverseAutoregressive(ConditionedStep):
    """A step of an inverse autoregressive flow (Kingma et al. 2016).

    `y_i = (x_i - t_i(x_{<i})) exp(-s_i(x_{<i}))`: the inverse of a masked
    autoregressive flow. Its fast direction is that of drawing.
    """

    @staticmethod
    def num_untransformed(event_size):
        return 1

    def build(self, input_shape):
        self.conditioner = MADE(**self.conditioner_options, name="conditioner")
        self.conditioner.build(input_shape)

    def call(self, inputs):
        shift, log_scale = self.conditioner(inputs)
        outputs = (inputs - shift) * tf.exp(-log_scale)
        return outputs, -tf.reduce_sum(log_scale, axis=-1)

    @property
    def bijector(self):
        return tfb.Invert(tfb.MaskedAutoregressiveFlow(self.conditioner))


@keras.saving.register_keras_serializable("bhn_tf")
class Permutation(FlowStep):
    """Reorders the entries by a fixed permutation [D]: `y = x[..., permutation]`."""

    def __init__(self, permutation, **kwargs):
        super().__init__(**kwargs)
        given = np.asarray(permutation)
        if given.ndim != 1 or not np.array_equal(np.sort(given), np.arange(given.size)):
            raise ValueError(
                "Expected `permutation` to be each of 0, 1, ..., D - 1 once, in any "
                f"order, got {given.tolist()}: the density would be wrong."
            )
        self.permutation = given.astype("int32")

    def build(self, input_shape):
        if input_shape[-1] not in (None, self.permutation.size):
            raise ValueError(
                f"The permutation of {self.name!r} is of {self.permutation.size} "
                f"entries, and the flow is over D = {input_shape[-1]}."
            )

    def call(self, inputs):
        outputs = tf.gather(inputs, self.permutation, axis=-1)
        return outputs, tf.zeros(tf.shape(inputs)[:-1])

    @property
    def bijector(self):
        return tfb.Permute(self.permutation)

    def get_config(self):
        return {**super().get_config(), "permutation": self.permutation.tolist()}


@keras.saving.register_keras_serializable("bhn_tf")
class ElementwiseAffine(FlowStep):
    """The last step of every hypernet: `y = μ + σ ⊙ x`.

    Args:
        mean: Initial μ, a number or an array [D].
        stddev: Initial σ, a positive number.
    """

    def __init__(self, mean, stddev, **kwargs):
        super().__init__(**kwargs)
        self.initial_mean = mean
        self.initial_stddev = stddev

    def build(self, input_shape):
        event_shape = (input_shape[-1],)
        mean = np.broadcast_to(np.asarray(self.initial_mean, "float32"), event_shape)
        self.mean = self.add_weight(
            name="mean",
            shape=event_shape,
            initializer=lambda shape, dtype=None: tf.constant(mean, dtype),
        )
        self.log_stddev = self.add_weight(
            name="log_stddev",
            shape=event_shape,
            initializer=keras.initializers.Constant(np.log(self.initial_stddev)),
        )

    def call(self, inputs):
        outputs = self.mean + tf.exp(self.log_stddev) * inputs
        log_det = tf.reduce_sum(self.log_stddev)
        return outputs, tf.fill(tf.shape(inputs)[:-1], log_det)

    @property
    def bijector(self):
        # Variables, not their present values: a bijector that is kept follows the
        # training of the step in all of its parts.
        return tfb.Chain(
            [
                tfb.Shift(self.mean.value),
                tfb.Scale(log_scale=self.log_stddev.value),
            ]
        )

    def get_config(self):
        mean, stddev = np.asarray(self.initial_mean), float(self.initial_stddev)
        return {**super().get_config(), "mean": mean.tolist(), "stddev": stddev}
