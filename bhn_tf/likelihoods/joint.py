"""The likelihood of several outputs: the sum of one log-likelihood each."""

import math
import numbers

import keras
import tensorflow as tf

from bhn_tf.likelihoods.likelihood import Likelihood
from bhn_tf.likelihoods.state import parts_with_state


@keras.saving.register_keras_serializable("bhn_tf")
class Joint(Likelihood, keras.layers.Layer):
    """Independent outputs given the network: `log p(y|x, g) = Σ_k log p_k(y_k|x, g)`.

    A model with several outputs makes one from the list or dictionary that it is
    given. Labels and predictions have the outputs' structure; labels may also be a
    dictionary by output name.

    Args:
        parts: Likelihoods, in the order of the outputs (by key for a dictionary).
        names: Names of the outputs, in that order; `None` until a network gives them.
        weights: Weight of each output in the objective if `compile` gives none;
            `None` for 1 each.

    Weights of rows or elements are an array for all outputs, or a list or dictionary by
    output name, in which `None` or a missing name means 1. Masks are listed in the
    order of the outputs.

    Raises:
        ValueError: If outputs share a likelihood that training or the targets change.
    """

    def __init__(self, parts, names=None, weights=None, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.parts = list(parts)
        _refuse_shared_state(self.parts)
        self.names = None if names is None else list(names)
        self._own_weights = list(weights or [1.0] * len(self.parts))
        self.built = True

    @property
    def output_names(self):
        return tuple(self.names or ())

    def parts_of_outputs(self):
        return self.parts

    def with_parts(self, parts) -> "Joint":
        """Returns a `Joint` of the same outputs with other parts.

        Each model needs its own, since the parts are put in that model's order.
        """
        return Joint(
            parts,
            self.names,
            self._own_weights,
            name=self.name,
            trainable=self.trainable,
        )

    def arrange(self, names, endings) -> None:
        """Puts the parts, resolved, in the order of a network's outputs.

        This changes the layer in place: Keras saves what a model held first, and a
        second layer with another order would get the weights of the first.

        Args:
            names: Names of the outputs, in their order.
            endings: `(activation, reason)` of each; see `Likelihood.resolved`.

        Raises:
            ValueError: If there is not one likelihood for each output.
        """
        if len(self.parts) != len(names) or set(self.names or names) != set(names):
            found = self.names or f"{len(self.parts)} likelihoods"
            raise ValueError(
                f"The network has the outputs {names}, and `likelihood` has {found}: "
                "give one for each output, as a list or a dictionary by name."
            )
        given = list(self.names or names)
        order = [given.index(name) for name in names]
        arranged = [
            self.parts[index].resolved(*ending)
            for index, ending in zip(order, endings, strict=True)
        ]
        # Tracked anew: their variables, and the optimizer's, have the order in which
        # Keras tracks the parts, and a loaded model tracks them as they are saved.
        self.parts.clear()
        self.parts.extend(arranged)
        self._own_weights = [self._own_weights[index] for index in order]
        self.names = list(names)

    def build_for_outputs(self, raw_shape):
        for part, shape in zip(self.parts, raw_shape, strict=True):
            part.build_for_outputs(shape)

    def loss_weights_by_output(self, given):
        if given is None:
            given = self._own_weights
        if isinstance(given, dict):
            unknown = set(given) - set(self.names)
            if unknown:
                raise ValueError(
                    f"`loss_weights` has {sorted(unknown)}, and the outputs are "
                    f"{self.names}."
                )
            given = [given.get(name, 1.0) for name in self.names]
        if len(given) != len(self.parts):
            raise ValueError(
                f"`loss_weights` has {len(given)} values for the outputs "
                f"{self.names}: give one for each."
            )
        for name, weight in zip(self.names, given, strict=True):
            if not (isinstance(weight, numbers.Real) and 0 <= weight < math.inf):
                raise ValueError(
                    f"`loss_weights` has {weight!r} for {name!r}. Give finite numbers "
                    "of at least 0: a negative weight would drive the likelihood of "
                    "that output down without end."
                )
        return [float(weight) for weight in given]

    def flatten(self, structure) -> list:
        """Lists a value for each output, from the outputs' structure or by name.

        Raises:
            ValueError: If there is not one value for each output.
        """
        if isinstance(structure, dict) and set(structure) == set(self.names):
            return [structure[name] for name in self.names]
        values = keras.tree.flatten(structure)
        if isinstance(structure, dict) and len(values) == len(structure):
            raise ValueError(
                f"The network has the outputs {self.names}; got {sorted(structure)} "
                "(labels, say). Give one for each, by these names."
            )
        if len(values) != len(self.names):
            raise ValueError(
                f"The network has the outputs {self.names}; got {len(values)} values "
                "(labels, say). Give one for each, as a list or by name."
            )
        return values

    def _labels(self, y) -> list:
        labels = self.flatten(y)
        missing = [
            n for n, part in zip(self.names, labels, strict=True) if part is None
        ]
        if missing:
            raise ValueError(
                f"The outputs {missing} have no labels (`None`): give some for each of "
                f"{self.names}. Where they are not known, any will do with a "
                "`sample_weight` of 0 for that output."
            )
        return labels

    def weights_of_outputs(self, weight) -> list:
        if isinstance(weight, dict):
            unknown = set(weight) - set(self.names)
            if unknown:
                raise ValueError(
                    f"`sample_weight` has {sorted(unknown)}, and the outputs are "
                    f"{self.names}."
                )
            return [weight.get(name) for name in self.names]
        if isinstance(weight, list | tuple):
            return self.flatten(weight)
        return [weight] * len(self.parts)

    def weights_as_labels(self, weight, y):
        if not isinstance(weight, dict | list | tuple):
            return weight
        weights = self.weights_of_outputs(weight)
        if isinstance(y, dict) and set(y) == set(self.names):
            return dict(zip(self.names, weights, strict=True))
        return keras.tree.pack_sequence_as(y, weights)

    def _masks(self, mask) -> list:
        return [None] * len(self.parts) if mask is None else self.flatten(mask)

    def _each(self, function, *columns):
        """Applies `function(part, ...)` to each output, in a list."""
        return [
            function(part, *values)
            for part, *values in zip(self.parts, *columns, strict=True)
        ]

    def _log_probs(self, function, y, raw, weight, mask):
        return self._each(
            function,
            self._labels(y),
            self.flatten(raw),
            self.weights_of_outputs(weight),
            self._masks(mask),
        )

    def named_log_probs(self, y, raw, weight=None, mask=None):
        """`log_prob` of each output by name, [B] each, without `loss_weights`."""
        log_probs = self._log_probs(
            lambda part, *values: part.log_prob(*values), y, raw, weight, mask
        )
        return dict(zip(self.names, log_probs, strict=True))

    def log_prob(self, y, raw, weight=None, mask=None):
        return tf.add_n(list(self.named_log_probs(y, raw, weight, mask).values()))

    def measured_log_prob(self, y, raw, weight=None, mask=None):
        return tf.add_n(
            self._log_probs(
                lambda part, *values: part.measured_log_prob(*values),
                y,
                raw,
                weight,
                mask,
            )
        )

    def as_outputs(self, y, outputs):
        return keras.tree.pack_sequence_as(outputs, self.flatten(y))

    def mean(self, raw):
        means = self._each(lambda part, values: part.mean(values), self.flatten(raw))
        return keras.tree.pack_sequence_as(raw, means)

    def summarize(self, raws, mask=None):
        """The summary of each output by its likelihood, in the outputs' structure."""
        summaries = self._each(
            lambda part, *values: part.summarize(*values),
            self.flatten(raws),
            self._masks(mask),
        )
        if isinstance(raws, dict):
            return dict(zip(self.names, summaries, strict=True))
        return type(raws)(summaries)

    @property
    def has_interval(self):
        return any(part.has_interval for part in self.parts)

    def interval(self, raws, level):
        """Lower and upper bounds, a list each, of the outputs that have intervals."""
        if not self.has_interval:
            return super().interval(raws, level)
        bounds = [
            part.interval(values, level)
            for part, values in zip(self.parts, self.flatten(raws), strict=True)
            if part.has_interval
        ]
        lower, upper = zip(*bounds, strict=True)
        return list(lower), list(upper)

    def valid_labels(self, y, raw_shape, weight=None, mask=None):
        valid = self._each(
            lambda part, *values: part.valid_labels(*values),
            self._labels(y),
            raw_shape,
            self.weights_of_outputs(weight),
            self._masks(mask),
        )
        return tf.reduce_all(tf.stack(valid))

    def check_labels(self, y, raw_shape, weight=None, mask=None):
        self._each(
            lambda part, *values: part.check_labels(*values),
            self._labels(y),
            raw_shape,
            self.weights_of_outputs(weight),
            self._masks(mask),
        )

    def label_advice(self, raw_shape):
        return " ".join(
            f"For output {name!r}: {part.label_advice(shape)}"
            for name, part, shape in zip(self.names, self.parts, raw_shape, strict=True)
        )

    def get_config(self):
        config = super().get_config()
        del config["reduction"]
        serialize = keras.saving.serialize_keras_object
        return {
            **config,
            "parts": [serialize(part) for part in self.parts],
            "names": self.names,
            "weights": self._own_weights,
        }

    @classmethod
    def from_config(cls, config):
        deserialize = keras.saving.deserialize_keras_object
        config = {**config, "parts": [deserialize(p) for p in config["parts"]]}
        return cls(**config)


def _refuse_shared_state(parts) -> None:
    having = [part for each in parts for part in parts_with_state(each)]
    for index, part in enumerate(having):
        if any(part is earlier for earlier in having[:index]):
            raise ValueError(
                f"Several outputs have one likelihood, {part.name!r}, and would share "
                "the noise, or the units of the targets, that it learns. Give a new "
                "instance to each output."
            )
