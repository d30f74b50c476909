"""The Bayesian hypernetwork as a Keras model."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf import hypernets, priors
from bhn_tf.arguments import asks_for_center
from bhn_tf.layers.generated import generated_values
from bhn_tf.models.bound import BoundedModel
from bhn_tf.models.data_initialization import DataInitialization
from bhn_tf.models.noise import NoiseState
from bhn_tf.models.posterior_draws import PosteriorDraws


@keras.saving.register_keras_serializable("bhn_tf")
class BayesianHypernet(PosteriorDraws, DataInitialization, BoundedModel):
    """A network whose weight-normalisation scales are drawn by a hypernet.

    The hypernet h maps noise to all D generated values of the primary network at once,
    `g = h(ε)`, and both are trained on the evidence lower bound (paper, section
    "Bayesian Hypernets"): each step minimises, for each example,

        nll + kl_weight · KL / N,    KL = log q(g) - log p(g)

    at one joint draw, with N the number of training examples.

    Args:
        primary: Any Keras model that contains layers of `bhn_tf.layers`. It is used
            as it is, not copied; while it is inside, the hypernet provides the
            generated weights.
        hypernet: "realnvp", "iaf", "mean_field", or an instance from
            `bhn_tf.hypernets`; its weights are made for this network's D.
        likelihood: p(y|x, g): "categorical", "bernoulli", "gaussian" or an instance
            from `bhn_tf.likelihoods`.
        prior_stddev: Standard deviation of the Gaussian prior p(g).
        prior_loc: Mean of the prior, a number or D numbers; `None` is zero.
        prior: Another prior in place of the Gaussian: a TFP distribution over one
            number, such as `tfd.Laplace(0.0, 1.0)`, or over D.
        num_examples: N. `None`: each `fit` learns it from its data.
        seed: Seed of the training noise; `None` for a new one.

    Example:
    ```python
    primary = keras.Sequential([
        keras.layers.Input((784,)),
        bhn_tf.layers.WeightNormDense(100, activation="relu"),
        bhn_tf.layers.WeightNormDense(10),
    ])
    model = bhn_tf.BayesianHypernet(primary)
    model.compile("adam", metrics=["accuracy"])
    model.fit(x, y, epochs=10)
    probabilities = model.predict(x_new, num_samples=100)
    ```
    """

    def __init__(
        self,
        primary,
        hypernet="realnvp",
        likelihood="categorical",
        prior_stddev: float = 1.0,
        prior_loc=None,
        prior=None,
        num_examples: int | None = None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(
            likelihood, prior_stddev, prior_loc, prior, num_examples, **kwargs
        )
        if not isinstance(primary, keras.layers.Layer):
            raise TypeError(
                f"Expected `primary` to be a Keras model, got {type(primary).__name__}."
            )
        self.primary = primary
        self.hypernet = hypernets.get(hypernet)
        self.noise = NoiseState(seed, name="noise")
        self._is_initialized = self._state("is_initialized_from_data", "int64", 0)
        #: What `bhn_tf.from_keras` made random and why; `None` for other models.
        self.conversion_report = None
        self._build_from_built_networks()

    @property
    def num_random(self) -> int:
        """D, the number of generated values."""
        self._require_built()
        return self._offsets[-1]

    # -- building -------------------------------------------------------------------

    def _networks(self):
        return [self.primary]

    def _finish_building(self):
        super()._finish_building()
        self._generated = []
        for layer in self.primary._flatten_layers():
            if hasattr(layer, "generated_weights"):
                layer.hand_over()
                self._generated += layer.generated_weights
        sizes = [int(np.prod(variable.shape)) for variable in self._generated]
        self._offsets = [0, *np.cumsum(sizes).tolist()]
        if self.num_random:
            self._build_hypernet()

    def _build_hypernet(self):
        # Refuses a prior that is not over D values.
        _ = self.prior
        is_new = not self.hypernet.built
        if is_new:
            self.hypernet.build((None, self.num_random))
        elif self.hypernet.event_size != self.num_random:
            raise ValueError(
                f"The given hypernet generates {self.hypernet.event_size} values, and "
                f"the network has {self.num_random}. Give a new instance."
            )
        if is_new and self.hypernet.initial_mean is None:
            values = [keras.ops.convert_to_numpy(v).ravel() for v in self._generated]
            self.hypernet.affine.mean.assign(np.concatenate(values))

    def _require_built(self):
        if not self.built:
            raise ValueError(
                "The model has no weights yet: call `build(input_shape)`, `fit`, or "
                "the model on a batch."
            )

    # -- draws ----------------------------------------------------------------------

    def _slices(self, scales) -> dict[int, tf.Tensor]:
        """Cuts g [D] or [B, D] into the values of the generated variables."""
        leading = [-1] if scales.shape.rank == 2 else []
        return {
            id(variable): tf.reshape(
                scales[..., start:stop], leading + list(variable.shape)
            )
            for variable, start, stop in zip(
                self._generated, self._offsets[:-1], self._offsets[1:], strict=True
            )
        }

    def call(self, x, scales=None, training=None):
        """Returns the raw outputs of one network.

        Args:
            x: Inputs, rows first.
            scales: g of shape [D] for all rows or [B, D], one draw for each row;
                `None` draws one.
            training: For the primary's own layers (dropout, batch normalisation); it
                never switches sampling.

        Returns:
            Raw outputs [B, ...] in the primary's dtype.
        """
        if not self.num_random:
            return self.primary(x)
        if scales is None:
            scales = self.hypernet.sample_and_log_prob(1, self.noise.next_seed())[0][0]
        else:
            scales = self._checked_scales(scales, x)
        with generated_values(self._slices(scales)):
            return self.primary(x)

    def _checked_scales(self, scales, x):
        scales = tf.cast(scales, tf.float32)
        rows = keras.tree.flatten(x)[0].shape[0]
        if scales.shape.rank not in (1, 2) or scales.shape[-1] != self.num_random:
            raise ValueError(
                f"Expected `scales` of shape [{self.num_random}] for all rows or "
                f"[{rows}, {self.num_random}] with a draw for each, got {scales.shape}."
            )
        if scales.shape.rank == 2:
            self._require_scales_per_row()
            if None not in (rows, scales.shape[0]) and rows != scales.shape[0]:
                raise ValueError(
                    f"`scales` has {scales.shape[0]} draws, and `x` has {rows} rows: "
                    "give one for each row, or one for all of shape "
                    f"[{self.num_random}]."
                )
        return scales

    def _require_scales_per_row(self):
        for layer in self.primary._flatten_layers():
            if not getattr(layer, "supports_scales_per_row", True):
                raise ValueError(
                    "`scales` of shape [B, D] would need a kernel for each row in "
                    f"layer {layer.name!r}, which generates its kernel. Use one draw "
                    "for all rows, or `random='scale'`."
                )

    def _network(self, x, draw, training):
        return self(x, scales=draw, training=training)

    def _is_drawn(self, layer):
        return getattr(layer, "num_random", 0) > 0

    def _values_of(self, draw):
        return self._slices(draw)

    def _draw(self, num_samples, seed):
        self._require_built()
        if not self.num_random:
            return tf.zeros([1, 0]), tf.zeros([1])
        if asks_for_center(num_samples):
            values, log_prob = self.hypernet.transform(tf.zeros([1, self.num_random]))
        else:
            values, log_prob = self.hypernet.sample_and_log_prob(num_samples, seed)
        return values, self._log_ratios(values, log_prob)

    def _training_draws(self, rows):
        if not self.num_random:
            return tf.zeros([1, 0]), tf.zeros([])
        num_samples = self.train_samples * (rows if self.per_example_noise else 1)
        values, log_prob = self.hypernet.sample_and_log_prob(
            num_samples, self.noise.next_seed()
        )
        # A replica without rows has no draws of its own.
        ratios = self._log_ratios(values, log_prob)
        count = tf.cast(tf.size(ratios), tf.float32)
        kl = tf.math.divide_no_nan(tf.reduce_sum(ratios), count)
        if self.per_example_noise:
            values = tf.reshape(values, [self.train_samples, rows, self.num_random])
        return values, kl

    # -- saving ---------------------------------------------------------------------

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "primary": serialize(self.primary),
            "hypernet": serialize(self.hypernet),
            "likelihood": serialize(self.likelihood),
            "prior_stddev": self.prior_stddev,
            "prior_loc": self.prior_loc,
            "prior": priors.serialize(self._given_prior),
            "num_examples": self.num_examples if self._num_examples_is_given else None,
            "seed": self.noise.seed,
            "conversion_report": serialize(self.conversion_report),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for name in ("primary", "hypernet", "likelihood", "conversion_report"):
            config[name] = keras.saving.deserialize_keras_object(
                config.get(name), custom_objects=custom_objects
            )
        report = config.pop("conversion_report")
        model = cls(**config)
        model.conversion_report = report
        return model
