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

from bhn_tf import keras_adapter
from bhn_tf.arguments import check_amount, check_count, fit_float32
from bhn_tf.flows import ElementwiseAffine, FlowStep
from bhn_tf.hypernets.own_steps import check_built_steps, checked_steps
from bhn_tf.random import stateless_seed


class Hypernet(keras.layers.Layer):
    """Base of the hypernets; float32 under every dtype policy.

    To write your own, override `make_flow_steps`, never `build`, which adds the
    element-wise affine map after the steps. `docs/extending.md` shows a custom step.

    Args:
        initial_stddev: Initial σ of every entry of g.
        initial_mean: Initial μ, a number or D numbers. `None` means the primary
            network's scales when it becomes Bayesian, or zero outside a model.

    Example:
    ```python
    from bhn_tf.flows import Coupling, Permutation


    @keras.saving.register_keras_serializable("my_project")
    class Twofold(bhn_tf.hypernets.Hypernet):
        def make_flow_steps(self, event_size):
            halves = [Coupling(name="first"), Coupling(name="second")]
            reverse = Permutation(range(event_size)[::-1], name="reverse")
            return [halves[0], reverse, halves[1], reverse]


    model = bhn_tf.BayesianHypernet(primary, Twofold())
    ```
    """

    def __init__(self, initial_stddev: float = 0.1, initial_mean=None, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.initial_stddev = check_amount("initial_stddev", initial_stddev)
        self.initial_mean = None
        if initial_mean is not None:
            mean = np.asarray(initial_mean)
            is_number = mean.dtype.kind in "iuf"
            if not is_number or not fit_float32(mean):
                raise ValueError(
                    "Expected `initial_mean` to be finite numbers, "
                    f"got {initial_mean!r}."
                )
            self.initial_mean = mean.tolist()

    def make_flow_steps(self, event_size: int) -> list[FlowStep]:
        """Returns the steps before the element-wise affine map; for subclasses.

        Args:
            event_size: D, at least 2.

        Returns:
            Unbuilt steps, applied in this order. If they are close to the identity and
            map 0 to 0, training starts at μ.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no `make_flow_steps(event_size)`: return the "
            "list of `bhn_tf.flows.FlowStep` that come before the affine map."
        )

    def take_layer_sizes(self, sizes: list[int]) -> None:
        """Receives, before `build`, how many of the D values each layer takes.

        Args:
            sizes: In the order of g; their sum is D.
        """

    def build(self, input_shape):
        """Creates the weights for noise of shape [..., D]."""
        event_size = input_shape[-1]
        shape = np.shape(self.initial_mean)
        if shape not in ((), (1,), (event_size,)):
            raise ValueError(
                f"`initial_mean` has the shape {shape}, but the network has "
                f"D = {event_size} generated values. Give one number, "
                "or one for each value."
            )
        self.event_size = event_size
        mean = 0.0 if self.initial_mean is None else self.initial_mean
        self.affine = ElementwiseAffine(mean, self.initial_stddev, name="affine")
        # With fewer than two entries there is nothing to condition on.
        steps = self.make_flow_steps(event_size) if event_size > 1 else []
        self.flow_steps = checked_steps(steps, type(self).__name__)
        for step in self._steps:
            # One that is used twice has its weights by now.
            if not step.built:
                step.build((None, event_size))
        check_built_steps(self.flow_steps, event_size, self)

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
        if not hasattr(self, "affine"):
            raise ValueError(
                f"`{type(self).__name__}.build` has made no affine map. Leave `build` "
                "to `Hypernet`, and override `make_flow_steps(event_size)`."
            )

    def start_at(self, values) -> None:
        """Sets μ to the values of a network, unless `initial_mean` was given."""
        self._require_built()
        if self.initial_mean is None:
            self.affine.mean.assign(values)

    @property
    def distribution(self) -> tfd.TransformedDistribution:
        """q(g) as a fresh TFP distribution with event shape [D]."""
        self._require_built()
        bijectors = [step.bijector for step in reversed(self._steps)]
        distribution = tfd.TransformedDistribution(
            self._base_distribution(), tfb.Chain(bijectors)
        )
        # Where TFP finds variables; those of Keras's layers it does not see.
        distribution.weights = [weight.value for weight in self.weights]
        return distribution

    def _base_distribution(self):
        return tfd.Sample(tfd.Normal(0.0, 1.0), sample_shape=[self.event_size])

    def sample_and_log_prob(self, num_samples: int = 1, seed=None):
        """Draws from q and also returns the log-density of each draw.

        The result equals that of `distribution.experimental_sample_and_log_prob`, but
        each conditioner is evaluated only once.

        Args:
            num_samples: S, an integer or an integer scalar tensor.
            seed: `None`, a non-negative integer or an int32 tensor of two.

        Returns:
            g [S, D] and log q(g) [S] in nats, both float32.

        Raises:
            ValueError: If the hypernet has no weights yet, `num_samples` is no integer
                of at least 1 or `seed` is none of these.

        Example:
        ```python
        hypernet = bhn_tf.hypernets.RealNVP()
        hypernet.build((None, 3))
        g, log_prob = hypernet.sample_and_log_prob(5, seed=1)
        ```
        """
        self._require_built()
        if not tf.is_tensor(num_samples):
            check_count("num_samples", num_samples, minimum=1)
        # "auto_select" takes the same algorithm, but XLA on a CPU draws far faster if
        # it is named.
        noise = tf.random.stateless_normal(
            [num_samples, self.event_size], stateless_seed(seed), alg="philox"
        )
        return self.transform(noise)

    def transform(self, noise):
        """Returns h(ε) and log q(h(ε)) for noise ε of shape [..., D]."""
        self._require_built()
        noise = tf.cast(noise, tf.float32)
        if not noise.shape[-1:].is_compatible_with([self.event_size]):
            raise ValueError(
                f"Expected noise of shape [..., {self.event_size}] for D = "
                f"{self.event_size} values, got {noise.shape}."
            )
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

    def refuse_larger(self, num_saved: int) -> None:
        """Refuses a file of a hypernet with more steps, which Keras would leave out.

        Args:
            num_saved: How many flow steps have weights in the file.

        Raises:
            ValueError: If this hypernet has fewer.
        """
        # A step that is used twice is in a file once.
        num_steps = len({id(step) for step in self.flow_steps if step.weights})
        if num_saved > num_steps:
            raise ValueError(
                f"The file is of another hypernet: it has the weights of {num_saved} "
                f"flow steps, and the hypernet {self.name!r} has {num_steps}. Give "
                "the model a hypernet made with the arguments of the one saved."
            )

    def get_build_config(self):
        config, parts = super().get_build_config(), self._parts()
        frozen = [i for i, part in enumerate(parts) if not part.trainable]
        return {**config, "frozen": frozen} if config and frozen else config

    def build_from_config(self, config):
        """Builds the hypernet, and freezes those of its parts that were frozen."""
        super().build_from_config(config)
        if "frozen" in config:
            # What a layer has inside follows the layer, and may differ from it.
            for index, part in enumerate(self._parts()):
                part.trainable = index not in config["frozen"]

    def _parts(self) -> list:
        """Everything that may be frozen by itself: layers, and then weights."""
        return [*keras_adapter.layers_of(self), *self.weights]

    def get_config(self):
        return {
            **super().get_config(),
            "initial_stddev": self.initial_stddev,
            "initial_mean": self.initial_mean,
        }
