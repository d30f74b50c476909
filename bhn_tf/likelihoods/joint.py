"""The likelihood of several outputs: one likelihood each, added up."""

import keras
import tensorflow as tf

from bhn_tf.likelihoods.likelihood import Likelihood


@keras.saving.register_keras_serializable("bhn_tf")
class Joint(Likelihood, keras.layers.Layer):
    """Independent outputs given the network: `log p(y|x, g) = Σ_k log p_k(y_k|x, g)`.

    A model with several outputs makes one from the list or dictionary that it is
    given; labels and predictions have the outputs' own structure, and labels may also
    be a dictionary by output name.

    Args:
        parts: Likelihoods, in the order of the outputs (by key for a dictionary).
        names: Names of the outputs, in that order; `None` until a network gives them.
        weights: Weight of each output's log-likelihood; `None` for 1 each.
    """

    def __init__(self, parts, names=None, weights=None, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.parts = list(parts)
        self.names = None if names is None else list(names)
        self._own_weights = list(weights or [1.0] * len(self.parts))
        self.weights_of_outputs = self._own_weights
        self.built = True

    @property
    def output_names(self):
        return tuple(self.names or ())

    def arranged(self, names, endings) -> "Joint":
        """Returns the likelihood for a network's outputs, each part resolved.

        Args:
            names: Names of the outputs, in their order.
            endings: `(activation, reason)` of each; see `Likelihood.resolved`.

        Raises:
            ValueError: If there is not one likelihood for each output.
        """
        if len(self.parts) != len(names) or set(self.names or names) != set(names):
            given = self.names or f"{len(self.parts)} likelihoods"
            raise ValueError(
                f"The network has the outputs {names}, and `likelihood` has {given}: "
                "give one for each output, as a list or a dictionary by name."
            )
        by_name = dict(zip(self.names or names, self.parts, strict=True))
        parts = [
            by_name[name].resolved(*ending)
            for name, ending in zip(names, endings, strict=True)
        ]
        return Joint(parts, names, self._own_weights)

    def set_weights_of_outputs(self, weights):
        if weights is None:
            weights = self._own_weights
        if isinstance(weights, dict):
            unknown = set(weights) - set(self.names)
            if unknown:
                raise ValueError(
                    f"`loss_weights` has {sorted(unknown)}, and the outputs are "
                    f"{self.names}."
                )
            weights = [weights.get(name, 1.0) for name in self.names]
        if len(weights) != len(self.names):
            raise ValueError(
                f"`loss_weights` has {len(weights)} values for the outputs "
                f"{self.names}: give one for each."
            )
        self.weights_of_outputs = [float(weight) for weight in weights]

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

    def _each(self, function, *structures):
        """Applies `function(part, ...)` to each output, in a list."""
        columns = [self.flatten(structure) for structure in structures]
        return [
            function(part, *values)
            for part, *values in zip(self.parts, *columns, strict=True)
        ]

    def named_log_probs(self, y, raw):
        """log p of each output by name, [B] each, unweighted."""
        log_probs = self._each(lambda part, *pair: part.log_prob(*pair), y, raw)
        return dict(zip(self.names, log_probs, strict=True))

    def log_prob(self, y, raw):
        log_probs = self.named_log_probs(y, raw).values()
        return tf.add_n(
            [w * lp for w, lp in zip(self.weights_of_outputs, log_probs, strict=True)]
        )

    def unweighted_log_prob(self, y, raw):
        return tf.add_n(list(self.named_log_probs(y, raw).values()))

    def as_outputs(self, y, outputs):
        return keras.tree.pack_sequence_as(outputs, self.flatten(y))

    def mean(self, raw):
        means = self._each(lambda part, values: part.mean(values), raw)
        return keras.tree.pack_sequence_as(raw, means)

    def summarize(self, raws):
        """For each output what its likelihood gives, in the outputs' structure."""
        summaries = self._each(lambda part, values: part.summarize(values), raws)
        if isinstance(raws, dict):
            return dict(zip(self.names, summaries, strict=True))
        return type(raws)(summaries)

    def interval(self, raws, level):
        """Lower and upper bounds, each in the outputs' structure."""
        bounds = self._each(lambda part, values: part.interval(values, level), raws)
        lower, upper = zip(*bounds, strict=True)
        return (
            keras.tree.pack_sequence_as(raws, list(lower)),
            keras.tree.pack_sequence_as(raws, list(upper)),
        )

    def valid_labels(self, y, raw_shape):
        valid = [
            part.valid_labels(labels, shape)
            for part, labels, shape in zip(
                self.parts, self.flatten(y), raw_shape, strict=True
            )
        ]
        return tf.reduce_all(tf.stack(valid))

    def check_labels(self, y, raw_shape):
        for part, labels, shape in zip(
            self.parts, self.flatten(y), raw_shape, strict=True
        ):
            part.check_labels(labels, shape)

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
