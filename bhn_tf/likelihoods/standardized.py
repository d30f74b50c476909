"""A regression whose network works in standard units and answers in the data's."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_resolution
from bhn_tf.likelihoods.elements import align
from bhn_tf.likelihoods.likelihood import Likelihood, at_least_float32


@keras.saving.register_keras_serializable("bhn_tf")
class Standardized(Likelihood, keras.layers.Layer):
    """A likelihood of `(y - loc) / scale`, with labels and answers in y's own units.

    Networks start with outputs near 0 and noise near 1, but targets may run from 25 to
    346. The mean and standard deviation of the training targets, kept as untrained
    weights, reconcile both. The log-probability is that of y itself:
    `log p((y - loc) / scale) - log(scale)`.

    Args:
        likelihood: Likelihood of the standardised targets, such as `Gaussian()`; its
            `stddev` is in standard units.
        num_outputs: Number C of target columns, each with its own `loc` and `scale`;
            `None` to take it from the network or from the first `adapt`.

    Raises:
        ValueError: If the likelihood is not one of real numbers with a unit.

    Example:
        >>> from bhn_tf.likelihoods import Gaussian, Standardized
        >>> likelihood = Standardized(Gaussian())
        >>> likelihood.adapt([[10.0], [30.0]])
        >>> likelihood.mean([[0.0], [1.0]]).numpy().tolist()
        [[20.0], [30.0]]
    """

    def __init__(self, likelihood, num_outputs=None, **kwargs):
        if not getattr(likelihood, "has_unit", False):
            raise ValueError(
                "Expected a likelihood of real numbers in a unit, such as "
                f"`bhn_tf.likelihoods.Gaussian()`, got {likelihood!r}."
            )
        super().__init__(likelihood.reduction, **{**kwargs, "dtype": "float32"})
        self.likelihood = likelihood
        self.num_outputs = None
        if num_outputs is not None:
            self._make_weights(num_outputs)

    # -- state ------------------------------------------------------------------------

    def _make_weights(self, num_outputs):
        self.num_outputs = int(num_outputs)
        self.loc = self.add_weight(
            name="loc", shape=(self.num_outputs,), initializer="zeros", trainable=False
        )
        self.scale = self.add_weight(
            name="scale", shape=(self.num_outputs,), initializer="ones", trainable=False
        )
        self.was_adapted = self.add_weight(
            name="was_adapted", shape=(), initializer="zeros", trainable=False
        )
        self.built = True

    def build(self, raw_shape):
        self.build_for_outputs(raw_shape)

    def build_for_outputs(self, raw_shape):
        outputs = self.likelihood.element_shape(raw_shape)[-1]
        if self.num_outputs is None:
            self._make_weights(outputs)
        elif self.num_outputs != outputs:
            # One column would silently broadcast against several.
            raise ValueError(
                f"The network has {outputs} outputs, and `Standardized` was made for "
                f"targets of {self.num_outputs} columns."
            )

    @property
    def is_set_by_data(self) -> bool:
        """Always: `fit` adapts it to the targets."""
        return True

    @property
    def is_adapted(self) -> bool:
        """Whether `adapt` was called, even if before saving."""
        return self.num_outputs is not None and bool(
            keras.ops.convert_to_numpy(self.was_adapted)
        )

    def adapt(self, y, weight=None) -> None:
        """Takes `loc` and `scale` from targets; to be called once, before training.

        Args:
            y: Training targets, [N, ..., C], or [N] for a single output. A column
                that does not vary gets the scale 1.
            weight: Weights of rows or elements; targets of weight 0 may be anything.

        Raises:
            ValueError: If the number of columns differs, or a target that counts is
                not finite, or float32 hardly tells the targets apart.
        """
        y = np.asarray(y, "float64")
        if y.ndim == 1 or (self.num_outputs == 1 and y.shape[-1] != 1):
            y = y[..., None]
        if self.num_outputs not in (None, y.shape[-1]):
            raise ValueError(
                f"Targets of shape {y.shape} have {y.shape[-1]} columns, and the "
                f"likelihood has {self.num_outputs}: give one for each output."
            )
        weight = np.ones(1) if weight is None else align(weight, y.shape, "weight")
        weight = np.broadcast_to(weight, y.shape).reshape(-1, y.shape[-1])
        y = np.ma.masked_where(weight == 0, y.reshape(-1, y.shape[-1]))
        if not np.isfinite(y.compressed()).all():
            raise ValueError(
                "The targets hold NaN or infinite values: leave these rows out, or "
                "give them the weight 0."
            )
        check_resolution("y", y)
        loc = np.ma.filled(np.ma.average(y, axis=0, weights=weight), 0.0)
        variance = np.ma.average((y - loc) ** 2, axis=0, weights=weight)
        variance = np.ma.filled(variance, 0.0)
        scale = np.sqrt(variance)
        # A spread that float32 cannot resolve counts as none.
        varies = scale > np.finfo("float32").eps * np.abs(loc)
        if self.num_outputs is None:
            self._make_weights(y.shape[-1])
        self.loc.assign(loc)
        self.scale.assign(np.where(varies, scale, 1.0))
        self.was_adapted.assign(1.0)

    def _loc_and_scale(self, dtype):
        if self.num_outputs is None:
            raise ValueError(
                "`Standardized` does not know the targets yet: call `adapt(y)` with "
                "those of the training first."
            )
        return tf.cast(self.loc, dtype), tf.cast(self.scale, dtype)

    def _in_units(self, values):
        loc, scale = self._loc_and_scale(values.dtype)
        return loc + scale * values

    @property
    def outputs_per_target(self) -> int:
        """Number of raw outputs for each target."""
        return getattr(self.likelihood, "outputs_per_target", 1)

    # -- what a likelihood offers -----------------------------------------------------

    def element_shape(self, raw_shape):
        return self.likelihood.element_shape(raw_shape)

    def coded_labels(self, y, raw_shape):
        return self.likelihood.coded_labels(y, raw_shape)

    def valid_elements(self, y, raw_shape):
        return self.likelihood.valid_elements(y, raw_shape)

    def label_advice(self, raw_shape):
        return self.likelihood.label_advice(raw_shape)

    def element_log_prob(self, y, raw):
        raw = at_least_float32(raw)
        loc, scale = self._loc_and_scale(raw.dtype)
        y = tf.cast(self.coded_labels(y, raw.shape), raw.dtype)
        log_prob = self.likelihood.element_log_prob((y - loc) / scale, raw)
        return log_prob - tf.math.log(scale)

    def log_tails(self, y, raw):
        raw = at_least_float32(raw)
        loc, scale = self._loc_and_scale(raw.dtype)
        return self.likelihood.log_tails((tf.cast(y, raw.dtype) - loc) / scale, raw)

    def mean(self, raw):
        return self._in_units(self.likelihood.mean(raw))

    def summarize(self, raws, mask=None):
        """The wrapped likelihood's summary, in the units of y."""
        summary = dict(self.likelihood.summarize(raws, mask))
        mean = summary.pop("mean")
        _, scale = self._loc_and_scale(mean.dtype)
        stds = {name: scale * std for name, std in summary.items()}
        return {"mean": self._in_units(mean), **stds}

    def interval(self, raws, level):
        low, high = self.likelihood.interval(raws, level)
        return self._in_units(low), self._in_units(high)

    def get_config(self):
        config = super().get_config()
        del config["reduction"]
        return {
            **config,
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
            "num_outputs": self.num_outputs,
        }

    @classmethod
    def from_config(cls, config):
        likelihood = keras.saving.deserialize_keras_object(config["likelihood"])
        return cls(**{**config, "likelihood": likelihood})
