"""The base of every model here: a likelihood, and networks to be drawn.

A subclass says how networks are drawn and what one of them answers; training on the
likelihood, evaluation over several draws and prediction are the same for all.
"""

import contextlib

import keras
import tensorflow as tf

from bhn_tf import likelihoods
from bhn_tf.arguments import check_count
from bhn_tf.data_feeds.checks import (
    CheckedPyDataset,
    batch_spec,
    check_arrays,
    checked_dataset,
    checked_generator,
    refuse_empty,
)
from bhn_tf.data_feeds.num_examples import num_rows
from bhn_tf.models.fitting import Fitting
from bhn_tf.models.prediction import Prediction
from bhn_tf.models.shared_prefix import network_of_draws
from bhn_tf.models.trackers import mean_tracker
from bhn_tf.models.training import Training
from bhn_tf.networks.outputs import (
    declared_outputs,
    output_activations,
    output_names,
)
from bhn_tf.serving.export import Serving

# Layers that make something of integers themselves.
_TAKES_INTEGERS = (
    keras.layers.Rescaling,
    keras.layers.Normalization,
    keras.layers.Embedding,
    keras.layers.CategoryEncoding,
)


class PredictiveModel(Fitting, Training, Prediction, Serving, keras.Model):
    """A Keras model that predicts with an average over draws of its network.

    Args:
        likelihood: p(y|x): "categorical", "bernoulli", "gaussian" or an instance
            from `bhn_tf.likelihoods`.
    """

    def __init__(self, likelihood, **kwargs):
        # Inputs and draws keep their precision: layers cast what they take.
        super().__init__(**{**kwargs, "autocast": False})
        self.likelihood = likelihoods.get(likelihood)
        self._draws = None
        self._raw_spec = None
        self._input_shape = None
        with self._own_scope():
            self._interval_level = tf.Variable(0.9, trainable=False)
            self._draws_kl = tf.Variable(0.0, trainable=False)

    # -- to be provided -------------------------------------------------------------

    def _draw(self, num_samples, seed):
        """S draws [S, ...], and log q - log p of each [S], whose mean is the KL.

        Without samples, the draw at the centre, [1, ...].
        """
        raise NotImplementedError

    def _network(self, x, draw, training):
        """Raw outputs of the network that one draw describes, [B, ...]."""
        raise NotImplementedError

    def _is_drawn(self, layer) -> bool:
        """Whether a layer differs from draw to draw."""
        return False

    def _values_of(self, draw) -> dict:
        """What a draw gives the layers; see `layers.generated`."""
        return {}

    def _networks(self) -> list[keras.Model]:
        """The networks inside, with outputs of the same kind."""
        raise NotImplementedError

    # -- draws ----------------------------------------------------------------------

    def _network_of_draws(self, x, training):
        """Maps a draw to the raw outputs for `x`, [B, ...]."""
        if training:
            return lambda draw: self._network(x, draw, training)
        (network,) = self._networks()
        return network_of_draws(network, x, self._is_drawn, self._values_of)

    def _over_draws(self, function, x, draws, training, structure):
        """Stacks what `function` makes of the raw outputs of every draw.

        Args:
            function: Maps raw outputs and the network's own losses (weight and
                activity regularisation) to tensors of the result dtype.
            draws: [S, ...]; one at a time, so that memory does not grow with S.
            structure: Anything of the structure of the results.

        Returns:
            The results, each with a leading axis of S.
        """

        raw_outputs = self._network_of_draws(x, training)

        def of_one(draw):
            return function(raw_outputs(draw), self._networks()[0].losses)

        if draws.shape[0] == 1:
            return keras.tree.map_structure(lambda t: t[None], of_one(draws[0]))
        signature = keras.tree.map_structure(lambda _: self._result_dtype, structure)
        return tf.map_fn(of_one, draws, fn_output_signature=signature)

    def _set_draws(self, num_samples, seed):
        """Makes the draws of a call. They live in a variable of any S, so that the
        compiled functions need no second trace."""
        check_count("num_samples", num_samples, minimum=0)
        draws, self._log_ratios_of_draws = self._draw(num_samples, seed)
        if self._draws is None:
            with self._own_scope():
                self._draws = tf.Variable(
                    draws, trainable=False, shape=[None, *draws.shape[1:]]
                )
        self._draws.assign(draws)
        self._draws_kl.assign(tf.reduce_mean(self._log_ratios_of_draws))

    @contextlib.contextmanager
    def _answering(self, answer, x, num_samples, seed):
        """Prepares a prediction: one compiled function for each kind of answer."""
        self._refuse_no_rows(x)
        self._build_from_data(x)
        self._set_draws(num_samples, seed)
        self._answer = answer
        self.predict_function = self._predict_functions.get(answer)
        try:
            yield
        except UnboundLocalError as error:
            # What Keras does where a data set has no batch.
            raise ValueError("The data set yields no batch to predict.") from error
        finally:
            self._predict_functions[answer] = self.predict_function
            self.predict_function = None

    # -- building -------------------------------------------------------------------

    def _own_scope(self):
        """The scope of the strategy under which the model was made."""
        if self._distribute_strategy is None:
            return contextlib.nullcontext()
        return self._distribute_strategy.scope()

    def build(self, input_shape=None):
        """Builds the networks for inputs of `input_shape`, rows first, and the rest."""
        specs = keras.tree.map_shape_structure(keras.KerasTensor, input_shape)
        self._build_from_spec(specs)

    def _build_from_spec(self, spec):
        # Out of the graph, where the first batch of a step builds the model.
        with tf.init_scope(), self._own_scope():
            outputs = [network(spec) for network in self._networks()]
            self._raw_spec = outputs[0]
            if not self.built:
                self._input_shape = keras.tree.map_structure(
                    lambda leaf: leaf.shape, spec
                )
                self._finish_building()

    def _build_from_built_networks(self):
        """Builds the rest where the networks were given with their weights."""
        networks = self._networks()
        if all(network.built for network in networks):
            self._raw_spec = declared_outputs(networks[0])
            with self._own_scope():
                self._finish_building()

    def _finish_building(self):
        """Called once the networks have their weights."""
        network = self._networks()[0]
        self.likelihood = likelihoods.fit_to_outputs(
            self.likelihood,
            output_names(network, self._raw_spec),
            output_activations(network, self._raw_spec),
        )
        self.likelihood.set_weights_of_outputs(self._loss_weights)
        self._output_nlls = {
            name: mean_tracker(f"{name}_nll") for name in self.likelihood.output_names
        }
        self.built = True

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, as metrics and labels may use them."""
        names = output_names(self._networks()[0], self._raw_spec)
        if names is None:
            raise AttributeError("A network with one output needs no name for it.")
        return names

    @property
    def _raw_structure(self):
        return keras.tree.map_structure(lambda _: 0, self._raw_spec)

    @property
    def _raw_shapes(self):
        """The shape of the raw outputs, or a list of them; `None` if not known."""
        if self._raw_spec is None:
            return None
        shapes = [tuple(spec.shape) for spec in keras.tree.flatten(self._raw_spec)]
        return shapes if keras.tree.is_nested(self._raw_spec) else shapes[0]

    def _build_from_data(self, x):
        if self._distribute_strategy is None and tf.distribute.has_strategy():
            if tf.distribute.in_cross_replica_context():
                raise ValueError(
                    "The model was made outside of the strategy's scope, so its "
                    "weights exist once. Make and compile it inside "
                    "`with strategy.scope():`."
                )
        if not self.built or self._raw_spec is None:
            spec = _input_spec(x)
            if spec is not None:
                self._build_from_spec(spec)

    def get_build_config(self):
        return {"input_shape": self._input_shape} if self._input_shape else None

    def build_from_config(self, config):
        self.build(config["input_shape"])

    # -- data -----------------------------------------------------------------------

    def _checked(self, x, y, sample_weight):
        """Returns `x`, checked at once or, for what yields batches, as they come."""
        self._refuse_unscaled_images(x)
        if num_rows(x) is not None:
            check_arrays(x, y, sample_weight, self._check_labels)
        elif isinstance(x, tf.data.Dataset):
            refuse_empty(x)
            return checked_dataset(
                x,
                lambda labels: self.likelihood.valid_labels(labels, self._raw_shapes),
                self.likelihood.label_advice(self._raw_shapes),
            )
        elif isinstance(x, keras.utils.PyDataset):
            return CheckedPyDataset(x, self._check_labels)
        elif hasattr(x, "__next__"):
            return checked_generator(x, self._check_labels)
        return x

    def _checked_validation_data(self, validation_data):
        if isinstance(validation_data, tf.data.Dataset | keras.utils.PyDataset):
            return self._checked(validation_data, None, None)
        self._checked(*keras.utils.unpack_x_y_sample_weight(validation_data))
        return validation_data

    def _check_labels(self, y):
        if self._raw_spec is not None:
            self.likelihood.check_labels(y, self._raw_shapes)

    def _refuse_unscaled_images(self, x):
        """Keras would take the 0 ... 255 of an image for the numbers they are."""
        spec = batch_spec(x)
        if spec is None or any(
            isinstance(layer, _TAKES_INTEGERS)
            for network in self._networks()
            for layer in network._flatten_layers()
        ):
            return
        if any(leaf.dtype == "uint8" for leaf in keras.tree.flatten(spec[0])):
            raise ValueError(
                "The inputs are of dtype uint8, and nothing in the network scales "
                "them. Give `x.astype('float32') / 255`, or begin the network with "
                "`keras.layers.Rescaling(1 / 255)`."
            )

    def _refuse_no_rows(self, x):
        self._refuse_unscaled_images(x)
        if num_rows(x) is not None:
            check_arrays(x, None, None, self._check_labels, allow_nan_inputs=True)
        elif isinstance(x, tf.data.Dataset | keras.utils.PyDataset):
            refuse_empty(x)

    def _mean_like(self, y):
        """A predicted mean of the shape that labels `y` are compared with."""
        rows = keras.tree.flatten(y)[0].shape[0]
        raw = keras.tree.map_structure(
            lambda spec: tf.zeros([rows, *(size or 1 for size in spec.shape[1:])]),
            self._raw_spec,
        )
        return self.likelihood.mean(raw)


def _input_spec(x):
    """The structure of symbolic inputs for data, or `None` where they do not say."""
    spec = batch_spec(x)
    if spec is None:
        return None
    return keras.tree.map_structure(
        lambda leaf: keras.KerasTensor(
            (None, *leaf.shape[1:]), keras.backend.standardize_dtype(leaf.dtype)
        ),
        spec[0],
    )
