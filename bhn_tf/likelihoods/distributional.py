"""The base of likelihoods that map every raw output to a TFP distribution."""

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from bhn_tf.likelihoods import tails
from bhn_tf.likelihoods.elements import nan_where_padded
from bhn_tf.likelihoods.likelihood import (
    Likelihood,
    at_least_float32,
    config_of_learned,
    match_targets,
)
from bhn_tf.likelihoods.quantiles import central_interval, moments
from bhn_tf.likelihoods.ranges import POSITIVE
from bhn_tf.likelihoods.support import kept_possible

# No count or unit needs more than e^30, and its square is within float32.
LARGEST_LOG = 30.0
# A vanishing spread has no density.
LEAST_SPREAD = 1e-6


def bounded(values, low=-LARGEST_LOG, high=LARGEST_LOG) -> tf.Tensor:
    """Values kept within bounds, with their own gradient.

    The exponential of an untrained network's output may overflow; with the gradient,
    values out of bounds can learn their way back.
    """
    clipped = tf.stop_gradient(tf.clip_by_value(values, low, high))
    # In this order the two unclipped terms cancel exactly, however large.
    return clipped + (values - tf.stop_gradient(values))


class Distributional(Likelihood, keras.layers.Layer):
    """Base of the likelihoods whose `distribution(raw)` is a TFP distribution.

    Log-probability, mean, standard deviations and intervals come from it. A subclass
    names its numbers (noise, degrees of freedom, ...): each is a weight, trained or
    not, on an unbounded scale.

    Args:
        numbers: Initial value and `Range` of each number by its name, which is also
            the name of a constructor argument.
        trainable: Whether the numbers that the network does not give are learned, one
            for all rows (maximum likelihood).
        heteroscedastic: Whether the network gives each row its own value of the number
            that `varying` names: raw outputs [B, ..., 2 C] then hold C outputs followed
            by C such values.
        reduction: "sum" or "mean" over the outputs.
    """

    #: Name of the number that may vary from row to row; `None` if there is none.
    varying: str | None = None

    #: Whether a log-probability may be a small difference of large numbers, which only
    #: float64 tells apart.
    needs_float64 = False

    def __init__(
        self,
        numbers: dict,
        trainable: bool = False,
        heteroscedastic: bool = False,
        reduction: str = "sum",
        **kwargs,
    ):
        values = {
            name: range_.check(name, value) for name, (value, range_) in numbers.items()
        }
        self._check_choices(list(numbers), trainable, heteroscedastic)
        super().__init__(reduction, **{**kwargs, "dtype": "float32"})
        self.heteroscedastic = heteroscedastic
        self._is_learned = trainable
        self._initial = values
        self._ranges = {name: range_ for name, (_, range_) in numbers.items()}
        for name, value in values.items():
            varies = heteroscedastic and name == self.varying
            # A weight made untrainable stays so, even if the whole model is frozen and
            # thawed.
            self._add_state(
                self._ranges[name].weight_name(name),
                self._ranges[name].to_weight(value),
                trainable and not varies,
            )
        self.built = True

    def _check_choices(self, names, trainable, heteroscedastic):
        if heteroscedastic and self.varying is None:
            raise ValueError(
                f"{type(self).__name__} has one raw output for each target, and no "
                "other number that could vary with the row: leave `heteroscedastic` "
                "out."
            )
        if trainable and heteroscedastic and names == [self.varying]:
            raise ValueError(
                f"`trainable` learns one `{self.varying}` (the noise level, say) for "
                "all rows, `heteroscedastic` lets the network give one for each row: "
                "choose one of them."
            )

    def _add_state(self, name, value, trainable):
        value = tf.convert_to_tensor(value, tf.float32)
        weight = self.add_weight(
            name=name,
            shape=value.shape,
            initializer=lambda shape, dtype: tf.cast(value, dtype),
            trainable=trainable,
        )
        setattr(self, name, weight)

    # -- to be provided -------------------------------------------------------------

    def distribution(self, raw) -> tfd.Distribution:
        """Returns p(y|x, g), with the batch shape of the elements.

        Args:
            raw: Raw outputs [B, ..., C], or [S, B, ..., C] of several draws; float32,
                or float64 (for counts). The distribution must have their dtype.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no `distribution(raw)`: return a distribution "
            "of `tensorflow_probability.distributions`."
        )

    def log_tails(self, y, raw):
        distribution = self.distribution(raw)
        y = tf.cast(y, distribution.dtype)
        return tails.log_tails(distribution, y, self.is_discrete)

    # -- for subclasses ---------------------------------------------------------------

    @property
    def outputs_per_target(self) -> int:
        """Number of raw outputs for each target."""
        return 2 if self.heteroscedastic else 1

    def parts(self, raw) -> list[tf.Tensor]:
        """Splits raw outputs into those of each kind, [B, ..., C] each."""
        raw = at_least_float32(raw)
        self.element_shape(raw.shape)
        return tf.split(raw, self.outputs_per_target, axis=-1)

    def number(self, name: str, dtype) -> tf.Tensor:
        """The current value of a number, a scalar."""
        range_ = self._ranges[name]
        weight = getattr(self, range_.weight_name(name))
        return tf.cast(range_.from_weight(tf.convert_to_tensor(weight)), dtype)

    def set_number(self, name: str, value: float) -> None:
        """Sets a number, which must be in its range."""
        range_ = self._ranges[name]
        weight = range_.to_weight(range_.check(name, value))
        getattr(self, range_.weight_name(name)).assign(weight)

    def spread(self, parts) -> tf.Tensor:
        """The positive number that `varying` names, common to all rows or per row."""
        number = self.number(str(self.varying), parts[0].dtype)
        if not self.heteroscedastic:
            return number
        return number * (tf.nn.softplus(parts[1]) + LEAST_SPREAD)

    def logarithm_and_spread(self, raw) -> tuple[tf.Tensor, tf.Tensor]:
        """The first raw output, a bounded logarithm, and the spread."""
        parts = self.parts(raw)
        return bounded(parts[0]), self.spread(parts)

    # -- what a likelihood offers -----------------------------------------------------

    def element_shape(self, raw_shape):
        each = self.outputs_per_target
        if each == 1:
            # Works also if only the data show the number of outputs.
            return tuple(raw_shape)
        if raw_shape[-1] is None:
            raise ValueError(
                f"A heteroscedastic {type(self).__name__} has to know how many raw "
                f"outputs the network has; they have the shape {tuple(raw_shape)}. "
                "Give the last axis a fixed size."
            )
        if raw_shape[-1] % each:
            raise ValueError(
                f"A heteroscedastic {type(self).__name__} needs "
                f"{'two' if each == 2 else each} raw outputs for each target; the "
                f"network has {raw_shape[-1]}."
            )
        return (*raw_shape[:-1], raw_shape[-1] // each)

    def coded_labels(self, y, raw_shape):
        return match_targets(y, self.element_shape(raw_shape))

    def valid_elements(self, y, raw_shape):
        y = tf.cast(y, tf.float32)
        if self.is_discrete:
            return tf.math.is_finite(y) & (y >= 0) & (y == tf.floor(y))
        return tf.math.is_finite(y)

    def element_log_prob(self, y, raw):
        raw = at_least_float32(raw)
        wide = tf.cast(raw, tf.float64) if self.needs_float64 else raw
        y = tf.cast(self.coded_labels(y, raw.shape), wide.dtype)
        return tf.cast(self.distribution(wide).log_prob(y), raw.dtype)

    def mean(self, raw):
        return self.distribution(raw).mean()

    def summarize(self, raws, mask=None):
        """Mean and standard deviations of the mixture of S distributions."""
        mean, epistemic, aleatoric = moments(self.distribution(raws))
        stds = {
            "std": tf.sqrt(epistemic + aleatoric),
            "epistemic_std": tf.sqrt(epistemic),
            "aleatoric_std": tf.sqrt(aleatoric),
        }
        padded = {name: nan_where_padded(std, mask) for name, std in stds.items()}
        return {"mean": mean, **padded}

    def interval(self, raws, level):
        """Central interval of the mixture, [B, ..., C] each, from its quantiles."""
        return central_interval(self.distribution(raws), level, self.is_discrete)

    def possible(self, bounds, raws):
        if self.is_discrete:
            # This comparison keeps NaN, and turns -0 into 0.
            return [tf.where(b <= 0, tf.zeros_like(b), b) for b in bounds]
        return kept_possible(bounds, self.distribution(raws))

    def label_advice(self, raw_shape):
        kind = "whole number from 0 on" if self.is_discrete else "finite number"
        return f"give a {kind} for each output."

    def get_config(self):
        return {
            **super().get_config(),
            **self._initial,
            **config_of_learned(self, self._is_learned),
            "heteroscedastic": self.heteroscedastic,
        }


class LocationScale(Distributional):
    """Base of distributions of real numbers in any unit around the raw output."""

    has_unit = True
    varying = "scale"

    #: Standard deviation when the number that `varying` names is 1.
    stddev_of_unit = 1.0

    @property
    def stddev(self) -> float:
        """Current standard deviation of the noise, in the units of y.

        With `heteroscedastic` it is the factor of the network's own numbers.
        """
        return float(self.number(str(self.varying), tf.float32)) * self.stddev_of_unit

    @property
    def is_noise_fixed(self) -> bool:
        """Whether the noise is neither learned nor given by the network."""
        return not (self._is_learned or self.heteroscedastic)

    @property
    def is_set_by_data(self) -> bool:
        """Whether a model may set the noise to the spread of its targets."""
        return not self.is_noise_fixed

    def set_stddev(self, stddev: float) -> None:
        """Sets the noise, for example to the spread of the data before training.

        Args:
            stddev: Standard deviation in the units of y; with `heteroscedastic` the
                factor of the network's own numbers.

        Raises:
            ValueError: If it is not a positive number.
        """
        stddev = POSITIVE.check("stddev", stddev)
        self.set_number(self.varying, stddev / self.stddev_of_unit)
