"""The functions of a served model."""

import keras
import tensorflow as tf

from bhn_tf import tensorflow_adapter
from bhn_tf.serving import names

#: Most draws that one request of `sample` may ask for.
MOST_SAMPLES = 10_000
#: Every signature, in the order of the documentation.
SIGNATURES = ("serving_default", "sample", "deterministic")


def check_signatures(signatures, known=SIGNATURES) -> tuple[str, ...]:
    """Returns the names of the signatures to be made.

    Args:
        signatures: Some of the known ones, or `None` for all.
        known: All existing names, in the order of the documentation.

    Raises:
        ValueError: If a name is unknown or there is none.
    """
    if signatures is None:
        return known
    asked = (signatures,) if isinstance(signatures, str) else tuple(signatures)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise ValueError(
            f"Expected `signatures` to be some of {list(known)}, got {signatures}."
        )
    return tuple(name for name in known if name in asked)


def fresh_seed() -> tf.Tensor:
    """A seed that differs from request to request and from process to process.

    `tf.random.uniform` would fix the global seed in the graph and replay the same
    sequence after every start of the server.
    """
    return tf.raw_ops.RandomUniformInt(
        shape=[2], minval=0, maxval=tf.int32.max, seed=0, seed2=0
    )


def _bounded(num_samples: tf.Tensor) -> tf.Tensor:
    """Refuses numbers of draws that make no sense, or endless work."""
    message = f"`num_samples` has to be an integer from 1 to {MOST_SAMPLES}."
    checks = [
        tf.debugging.Assert(num_samples >= 1, [message, num_samples]),
        tf.debugging.Assert(num_samples <= MOST_SAMPLES, [message, num_samples]),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(num_samples)


class Signatures:
    """Makes the functions of a served model.

    Args:
        model: A built `PredictiveModel`.
        specs: `tf.TensorSpec` of each input by name; see `names.input_specs`.
        structure: The structure in which the network takes them.
        num_samples: S of `serving_default`.
        frozen: `None`, or draws made once: a pair of the S draws [S, ...] and the one
            at the centre [1, ...].
    """

    def __init__(self, model, specs, structure, num_samples, frozen=None):
        self._model = model
        self._specs = specs
        self._structure = structure
        self._num_samples = num_samples
        self._frozen = frozen
        self._output_names = names.output_names(
            model.posterior.network, model.likelihood.output_names
        )

    def make(self, asked) -> dict:
        """Returns a `tf.function` for each requested signature."""
        return {name: getattr(self, f"_{name}")() for name in asked}

    def _serving_default(self):
        model = self._model

        def serving_default(**inputs):
            draws = self._draws(lambda: (self._num_samples, fresh_seed()))
            return self._by_name(model.answers.uncertainty(self._pack(inputs), draws))

        return self._function(serving_default)

    def _sample(self):
        model = self._model

        def samples_of(inputs, draws):
            samples = model.answers.samples(self._pack(inputs), draws)
            return self._by_name(samples, "samples")

        if self._frozen is not None:
            return self._function(
                lambda **inputs: samples_of(inputs, self._frozen[0]), "sample"
            )

        def sample(**arguments):
            num_samples = _bounded(arguments.pop("num_samples"))
            draws = model.posterior.draw(num_samples, arguments.pop("seed"))
            return samples_of(arguments, draws.values)

        taken = {"num_samples", "seed"} & set(self._specs)
        if taken:
            raise ValueError(
                f"The network has inputs named {sorted(taken)}, and `sample` takes "
                "scalars of these names. Rename the inputs, or leave the signature "
                'out: `signatures=("serving_default", "deterministic")`.'
            )

        return self._function(
            sample,
            num_samples=tf.TensorSpec([], tf.int32, name="num_samples"),
            seed=tf.TensorSpec([], tf.int32, name="seed"),
        )

    def _deterministic(self):
        model = self._model

        def deterministic(**inputs):
            if self._frozen is None:
                draws = model.posterior.draw(0, None).values
            else:
                draws = self._frozen[1]
            return self._by_name(model.answers.mean(self._pack(inputs), draws), "mean")

        return self._function(deterministic)

    def _function(self, function, name=None, **scalars):
        """A function of named arguments, traced for any number of rows."""
        function.__name__ = name or function.__name__
        function = tensorflow_adapter.custom_gradients_go_with_their_graph()(function)
        traced = tf.function(function, autograph=False)
        return traced.get_concrete_function(**self._specs, **scalars)

    def _draws(self, arguments):
        if self._frozen is not None:
            return self._frozen[0]
        return self._model.posterior.draw(*arguments()).values

    def _pack(self, inputs):
        """The named inputs in the structure of the network."""
        flat = [inputs[name] for name in self._specs]
        return keras.tree.pack_sequence_as(self._structure, flat)

    def _by_name(self, results, name=None) -> dict:
        """Flattens results; with several outputs, names begin with the output's name.

        Args:
            results: A value, or a dictionary of values, for each output.
            name: Name of a value that is not a dictionary.
        """
        likelihood_names = self._model.likelihood.output_names
        if not likelihood_names:
            return results if name is None else {name: results}
        if isinstance(results, dict):
            results = [results[output] for output in likelihood_names]
        flat: dict = {}
        for output, values in zip(self._output_names, results, strict=True):
            values = values if name is None else {name: values}
            named = {f"{output}_{key}": value for key, value in values.items()}
            taken = sorted(named.keys() & flat)
            if taken:
                raise ValueError(
                    f"Two of the outputs {list(self._output_names)} would be served as "
                    f"{taken}: rename one of them."
                )
            flat |= named
        return flat
