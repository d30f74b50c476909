"""The likelihood given by a user's function of raw outputs."""

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from bhn_tf import keras_adapter
from bhn_tf.likelihoods.distributional import Distributional
from bhn_tf.likelihoods.likelihood import at_least_float32, match_targets
from bhn_tf.likelihoods.support import common_support, kept_possible
from bhn_tf.user_warnings import warn_unless_registered

tfd = tfp.distributions


@keras.saving.register_keras_serializable("bhn_tf")
class Distribution(Distributional):
    """Any TFP distribution that a function makes from the raw outputs.

    Its batch shape begins with the axes of the raw outputs, rows first; batch and event
    shape together are the labels' shape. Standard deviations need the distribution's
    mean and variance; intervals also need its CDF.

    Args:
        function: `function(raw)` returns a `tfd.Distribution` for raw outputs
            [B, ..., C] or, for several draws, [S, B, ..., C]: index the last axis as
            `raw[..., :1]`. A saved model can be loaded only if the function is
            registered (`@keras.saving.register_keras_serializable()`); a warning says
            so if it is not. It has no variables of its own, which would be neither
            trained nor saved: what is learned comes from the network, as outputs or as
            its weights.
        is_discrete: Whether labels, and so the bounds of intervals, are whole numbers.
        reduction: "sum" or "mean" over the axes of an example.

    Example:
    ```python
    @keras.saving.register_keras_serializable("my_project")
    def gumbel(raw):
        return tfd.Gumbel(raw[..., :1], tf.nn.softplus(raw[..., 1:]))


    likelihood = bhn_tf.likelihoods.Distribution(gumbel)
    likelihood.element_shape((None, 2))  # (None, 1)
    ```
    """

    def __init__(
        self, function, is_discrete: bool = False, reduction: str = "sum", **kwargs
    ):
        if not callable(function):
            raise ValueError(
                "Expected a function of raw outputs that returns a distribution of "
                f"TFP, got {function!r}."
            )
        super().__init__({}, reduction=reduction, **kwargs)
        warn_unless_registered(function)
        self.function = function
        self.is_discrete = is_discrete
        self._shapes: dict = {}
        self._ids_of_weights: frozenset[int] = frozenset()

    def may_read(self, network) -> None:
        """Tells that the function may read weights of a network, which trains them.

        A model calls it when built.

        Args:
            network: A Keras model.
        """
        weights = keras_adapter.tensorflow_variables(network)
        self._ids_of_weights |= {id(each) for each in weights}

    def distribution(self, raw):
        distribution = self.function(at_least_float32(raw))
        if not isinstance(distribution, tfd.Distribution):
            raise ValueError(
                f"The function {self.function!r} returned {distribution!r}: expected a "
                "distribution of `tensorflow_probability.distributions`."
            )
        return distribution

    def _batch_and_event_shape(self, raw_shape):
        """The distribution's shapes for a raw shape, found by tracing the function."""
        key = tuple(raw_shape)
        if key not in self._shapes:
            found = []

            def trace(raw):
                with tf.variable_creator_scope(self._refuse_made):
                    found.append(self.distribution(raw))
                return raw

            spec = tf.TensorSpec(key, tf.float32)
            traced = tf.function(trace, autograph=False).get_concrete_function(spec)
            (distribution,) = found
            # A parameter that is a variable is read only when it is needed.
            self._refuse_read((*traced.graph.variables, *distribution.variables))
            shapes = distribution.batch_shape, distribution.event_shape
            self._shapes[key] = tuple(tuple(shape) for shape in shapes)
        return self._shapes[key]

    def _refuse_made(self, next_creator, **kwargs):
        raise ValueError(self._of_lost_variables("makes variables"))

    def _refuse_read(self, variables):
        own = {id(each) for each in keras_adapter.tensorflow_variables(self)}
        known = own | self._ids_of_weights
        foreign = [each.name for each in variables if id(each) not in known]
        if foreign:
            raise ValueError(self._of_lost_variables(f"reads the variables {foreign}"))

    def _of_lost_variables(self, what) -> str:
        return (
            f"The function {self.function!r} {what}, which are no weights of the "
            "model: they would be neither trained nor saved. Let the network output "
            "what is to be learned: by more units of its last layer, or by a layer of "
            "your own that appends a weight, the same for all rows."
        )

    def element_shape(self, raw_shape):
        return self._batch_and_event_shape(raw_shape)[0]

    def coded_labels(self, y, raw_shape):
        batch, event = self._batch_and_event_shape(raw_shape)
        return match_targets(y, batch + event)

    def valid_elements(self, y, raw_shape):
        y = tf.cast(y, tf.float32)
        valid = tf.math.is_finite(y)
        if self.is_discrete:
            valid = valid & (y == tf.floor(y))
        _, event = self._batch_and_event_shape(raw_shape)
        if event:
            return tf.reduce_all(valid, axis=list(range(-len(event), 0)))
        # Eagerly, since a data set cannot hold all that the function may.
        with tf.init_scope():
            rows = _various_rows(raw_shape[1:])
            is_possible = common_support(self.distribution(rows))
        return valid & is_possible(y)

    def neutral_outputs(self, raw, counted, element_shape):
        # The function may make any element of any outputs on the last axis, so these
        # are replaced where none of their elements counts.
        last = range(raw.shape.rank - 1, len(element_shape))
        counted = tf.reduce_any(counted, axis=list(last))
        missing = raw.shape.rank - counted.shape.rank
        return tf.where(
            counted[(..., *[None] * missing)], raw, tf.constant(0.5, raw.dtype)
        )

    def neutral_label(self, raw):
        return tf.stop_gradient(self.distribution(raw).sample(seed=(0, 0)))

    def interval(self, raws, level):
        try:
            return super().interval(raws, level)
        except NotImplementedError as error:
            raise _LacksFunction(
                "`predict_interval` needs a distribution with mean, variance and CDF, "
                f"and this one lacks one of them: {error}."
            ) from error

    def log_tails(self, y, raw):
        try:
            return super().log_tails(y, raw)
        except NotImplementedError as error:
            raise _LacksFunction(
                "The score 'quantile' is made of a cumulative distribution function, "
                f"and this distribution has none ({error}). Use 'normalized' or "
                "'absolute'."
            ) from error

    def possible(self, bounds, raws):
        return kept_possible(bounds, self.distribution(raws))

    def label_advice(self, raw_shape):
        kind = "whole" if self.is_discrete else "finite"
        return f"give a {kind} number for each output, one the distribution can take."

    def get_config(self):
        config = super().get_config()
        del config["heteroscedastic"]
        function = keras.saving.serialize_keras_object(self.function)
        return {**config, "function": function, "is_discrete": self.is_discrete}

    @classmethod
    def from_config(cls, config):
        function = keras.saving.deserialize_keras_object(config["function"])
        return super().from_config({**config, "function": function})


class _LacksFunction(ValueError, NotImplementedError):
    """A distribution of TFP lacks what an answer is made of, such as a CDF."""


def _various_rows(shape) -> tf.Tensor:
    """Raw outputs of different rows, harmless as logits, probabilities and numbers."""
    rows = tf.reshape([0.25, 0.5, 0.75], [3, *[1] * len(shape)])
    return tf.tile(rows, [1, *[size or 1 for size in shape]])
