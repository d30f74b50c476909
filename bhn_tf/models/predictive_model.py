"""The base of all models of this library: a likelihood, and networks to be drawn.

A model owns four parts, each of which can be read and tried alone: its *posterior*
draws networks, its *likelihood* scores their outputs, its *objective* is minimised in
training, and its *answers* combine many draws. This file builds, checks and saves
them.
"""

import contextlib
import functools
import threading

import keras
import tensorflow as tf

from bhn_tf import keras_adapter, likelihoods, tensorflow_adapter
from bhn_tf.data_feeds import BatchChecks, feed_of, of_one_output
from bhn_tf.likelihoods.state import layers_in, parts_with_state
from bhn_tf.models import ownership, seed_states, workers
from bhn_tf.models.draws import Posterior
from bhn_tf.models.objective import MaximumLikelihood
from bhn_tf.models.prediction import Prediction
from bhn_tf.models.raw_outputs import RawOutputs
from bhn_tf.models.refused_data import refuse_unfit_inputs
from bhn_tf.models.refused_networks import (
    refuse_models_inside,
    refuse_outputs_out_of_order,
    warn_of_limits_without_effect,
    warn_of_shared_layers,
    warn_of_steps_without_effect,
)
from bhn_tf.models.targets import (
    adapt_to_targets,
    require_units_of_all_rows,
    warn_of_units,
)
from bhn_tf.models.training import Training
from bhn_tf.networks.outputs import (
    declared_outputs,
    output_activations,
    output_names,
)
from bhn_tf.serving.export import export_version

# Rows for which padding is computed at a time.
_ROWS_AT_ONCE = 1024


class PredictiveModel(Training, Prediction):
    """A Keras model that predicts with an average over draws of its network.

    A subclass's constructor sets `posterior` and then calls
    `_build_from_built_networks`.

    Args:
        likelihood: p(y|x): what `bhn_tf.likelihoods.get` takes, a name, an instance,
            or one for each of several outputs.
        normalize_targets: Whether the network works in the standard units of the
            training targets (`likelihoods.Standardized`), for every output that has
            units; the model answers in the units of y.
        fed_dtypes: Dtypes of the data that the model was trained on. A saved model
            keeps them, and a served model takes inputs of these dtypes.
        **kwargs: Those of `keras.Model`: `name`, `dtype`.

    Attributes:
        posterior: A `draws.Posterior`.
        objective: An `objective.MaximumLikelihood`, or a `bound.Bound`.
        raw_outputs: Describes what the networks return; `None` until built.
    """

    posterior: Posterior
    objective: MaximumLikelihood

    def __init__(
        self, likelihood, normalize_targets: bool = False, fed_dtypes=None, **kwargs
    ):
        # Inputs and draws keep their precision; each layer casts its own inputs.
        super().__init__(**{**kwargs, "autocast": False})
        likelihood = likelihoods.get(likelihood)
        if isinstance(likelihood, likelihoods.Joint):
            likelihood = likelihood.with_parts(likelihood.parts)
        if normalize_targets:
            likelihood = likelihoods.in_standard_units(likelihood)
        # Set only once: Keras keeps tracking, and saving, an attribute's old value.
        self.likelihood = likelihood
        self.objective = MaximumLikelihood()
        self.raw_outputs: RawOutputs | None = None
        self._input_shape = None
        self._fed_dtypes = fed_dtypes
        self._building = threading.RLock()

    def call(self, x, training=None):
        """Returns the raw outputs of the network without noise."""
        values = self.posterior.draw(0, None).values[0]
        return self.posterior.outputs(x, values, training)

    # -- building -------------------------------------------------------------------

    def _own_scope(self):
        """The scope of the strategy in which the model was made."""
        if self._distribute_strategy is None:
            return contextlib.nullcontext()
        return self._distribute_strategy.scope()

    def build(self, input_shape=None):
        """Builds networks and other parts for inputs of a shape, rows first."""
        specs = keras.tree.map_shape_structure(keras.KerasTensor, input_shape)
        self._build_from_spec(specs)

    def _build_from_spec(self, spec):
        # Outside the step's graph, if its first batch builds the model.
        with tf.init_scope(), self._own_scope():
            outputs = [
                network(keras_adapter.inputs_by_name(network, spec))
                for network in self.posterior.networks
            ]
            self._check_outputs(outputs)
            self.raw_outputs = RawOutputs(outputs[0], self.compute_dtype)
            if not self.built:
                self._input_shape = keras.tree.map_structure(
                    lambda leaf: leaf.shape, spec
                )
                self._finish_building()

    def _build_from_built_networks(self):
        """Builds the other parts if the networks came with their weights."""
        networks = self.posterior.networks
        refuse_models_inside(networks)
        if all(network.built for network in networks):
            outputs = [declared_outputs(network) for network in networks]
            self._check_outputs(outputs)
            if outputs[0] is not None:
                self.raw_outputs = RawOutputs(outputs[0], self.compute_dtype)
            with self._own_scope():
                self._finish_building()

    def _check_outputs(self, outputs):
        """Called with the symbolic outputs of every network; `None` where unknown."""

    def _finish_building(self):
        """Called when the networks have got their weights."""
        warn_of_shared_layers(self.posterior.networks)
        warn_of_limits_without_effect(self.posterior.networks)
        warn_of_steps_without_effect(self.posterior.networks)
        network = self.posterior.network
        spec = None if self.raw_outputs is None else self.raw_outputs.spec
        self.likelihood = likelihoods.fit_to_outputs(
            self.likelihood,
            output_names(network, spec),
            output_activations(network, spec),
        )
        for part in layers_in(self.likelihood):
            if isinstance(part, likelihoods.Distribution):
                for each in self.posterior.networks:
                    part.may_read(each)
        for part in parts_with_state(self.likelihood):
            ownership.refuse_part_of_another(
                part, self, "likelihood", "noise, or the units of its targets"
            )
        if self.raw_outputs is not None:
            self.likelihood.build_for_outputs(self.raw_outputs.shapes)
        self._set_up_objective()
        for part in parts_with_state(self.likelihood):
            ownership.claim(part, self)
        self.built = True
        if self.compiled:
            self._build_optimizer()

    def _begin_call(self):
        """Called at the start of `fit`, `evaluate` and `predict*`."""
        tensorflow_adapter.require_threads()

    def freeze_what_was_built(self) -> None:
        """Freezes the parts that frozen layers created when they were built.

        When a file is loaded, a layer is frozen before it has parts.
        """
        for layer in keras_adapter.layers_of(self):
            keras_adapter.freeze_parts_of_frozen(layer)

    def _build_from_feed(self, feed):
        is_outside = self._distribute_strategy is None
        is_within = tf.distribute.has_strategy()
        if is_outside and is_within and tf.distribute.in_cross_replica_context():
            raise ValueError(
                "The model was made outside of the strategy's scope, so its weights "
                "exist once. Make and compile it inside `with strategy.scope():`."
            )
        # Several threads may make the first call at once.
        with self._building:
            if not self.built or self.raw_outputs is None:
                x, _, _ = feed.spec()
                self._build_from_spec(
                    keras.tree.map_structure(
                        lambda leaf: (
                            None
                            if leaf is None
                            else keras.KerasTensor((None, *leaf.shape[1:]), leaf.dtype)
                        ),
                        x,
                    )
                )

    def compute_output_shape(self, input_shape):
        """Returns the shape of the raw outputs, for Keras's wrappers.

        Args:
            input_shape: Shape of the inputs, rows first, in their structure.

        Raises:
            ValueError: If the model has no weights yet.

        Example:
        ```python
        model.compute_output_shape((None, 784))
        ```
        """
        self._require_built()
        specs = keras.tree.map_shape_structure(keras.KerasTensor, input_shape)
        outputs = self.compute_output_spec(specs)
        return keras.tree.map_structure(lambda leaf: leaf.shape, outputs)

    def compute_output_spec(self, *args, **kwargs):
        # Traces `call`; a Keras layer would use `compute_output_shape` instead.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def _require_built(self):
        if not self.built:
            raise ValueError(
                "The model has no weights yet: call `build(input_shape)`, `fit`, or "
                "the model on a batch."
            )

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, as metrics and labels may use them."""
        spec = None if self.raw_outputs is None else self.raw_outputs.spec
        names = output_names(self.posterior.network, spec)
        if names is None:
            raise AttributeError("A network with one output needs no name for it.")
        return names

    @property
    def outputs(self):
        """Not available; the error names what to use instead."""
        raise AttributeError(
            f"{type(self).__name__} has no symbolic `outputs`: what it answers is made "
            "of many networks. SciKeras asks for them; for scikit-learn use "
            "`keras.wrappers.SKLearnClassifier` or `SKLearnRegressor`."
        )

    # -- data -----------------------------------------------------------------------

    def check_labels(self, y) -> None:
        """Refuses labels without a meaning, unless the model is not built yet.

        Args:
            y: Labels, rows first.

        Raises:
            ValueError: If one is out of range, not finite or of another shape.

        Example:
        ```python
        model.check_labels(y)
        ```
        """
        if self.raw_outputs is not None:
            self.likelihood.check_labels(of_one_output(y), self.raw_outputs.shapes)

    def check_data(self, x, y=None, sample_weight=None) -> None:
        """Refuses arrays on which training would silently fail; builds the model.

        Args:
            x, y, sample_weight: As in `fit`.

        Raises:
            ValueError: If they are empty, not finite, or have labels without a meaning.

        Example:
        ```python
        model.check_data(x, y)
        ```
        """
        feed = feed_of(x, y, sample_weight)
        self._build_from_feed(feed)
        self._checked(feed)

    def _checked(self, feed):
        """Returns the feed, checked now or, for batches, when they are read."""
        refuse_unfit_inputs(feed, self.posterior.networks)
        return feed.checked(self._checks())

    def _checks(self):
        outputs = self.raw_outputs
        if outputs is None:
            return BatchChecks(self.likelihood, None)
        mask = self._padding if outputs.num_masked else None
        return BatchChecks(self.likelihood, outputs.shapes, mask)

    def _padding(self, x):
        """Which elements of the outputs for `x` are not padding."""
        values = self.posterior.draw(0, None).values[0]
        raw = self.posterior.outputs(x, values, training=False)
        return self.raw_outputs.for_likelihood(self.raw_outputs.masks_of(raw))

    def _padding_of_rows(self, x):
        """Like `_padding`, for arrays with any number of rows."""
        x = keras.tree.lists_to_tuples(feed_of(x).as_tensors().x)
        batches = tf.data.Dataset.from_tensor_slices(x).batch(_ROWS_AT_ONCE)
        return keras.tree.map_structure(
            lambda *parts: None if parts[0] is None else tf.concat(parts, axis=0),
            *map(self._padding, batches),
        )

    @property
    def _padding_if_any(self):
        """The function that finds padding of arrays; `None` if no output has any."""
        return self._padding_of_rows if self.raw_outputs.num_masked else None

    def _remember_dtypes(self, feed):
        """Notes the dtypes fed, since a served model takes the same."""
        x, _, _ = feed.spec()
        self._fed_dtypes = keras.tree.map_structure(
            lambda leaf: None if leaf is None else leaf.dtype, x
        )

    def _learn_from_feed(self, feed, validation_split):
        self._remember_dtypes(feed)
        padding = self._padding_if_any
        if workers.reads_share(feed, self.distribute_strategy):
            require_units_of_all_rows(self.likelihood)
        adapt_to_targets(self.likelihood, feed, validation_split, padding)
        warn_of_units(self.likelihood, feed, padding)

    # -- saving and serving ---------------------------------------------------------

    @functools.wraps(keras.Model.save)
    def save(self, filepath, *args, **kwargs):
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                f"{str(filepath)!r} would be HDF5, which keeps the weights and loses "
                "what else training has found out, such as N. Save to `.keras`, or the "
                "weights alone with `save_weights('m.weights.h5')`."
            )
        # Before Keras has opened the file.
        refuse_outputs_out_of_order(self.posterior.networks)
        super().save(filepath, *args, **kwargs)

    def save_own_variables(self, store):
        """Saves also the seed states of dropout and other noise in the networks.

        Keras does not save them; resumed training would differ without them.
        """
        super().save_own_variables(store)
        seed_states.save_seeds(self.posterior.networks, store)

    def load_own_variables(self, store):
        super().load_own_variables(seed_states.without_seeds(store))
        seed_states.load_seeds(self.posterior.networks, store)

    def get_build_config(self):
        return {"input_shape": self._input_shape} if self._input_shape else None

    def build_from_config(self, config):
        self.build(config["input_shape"])

    def get_config(self):
        refuse_outputs_out_of_order(self.posterior.networks)
        config = super().get_config()
        config["likelihood"] = keras.saving.serialize_keras_object(self.likelihood)
        if self._fed_dtypes is not None:
            # Plain containers, since Keras wraps a model's in its own.
            config["fed_dtypes"] = keras.tree.map_structure(
                lambda dtype: dtype and str(dtype), self._fed_dtypes
            )
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = {
            name: keras.saving.deserialize_keras_object(value, custom_objects)
            if isinstance(value, dict | list) and name != "fed_dtypes"
            else value
            for name, value in config.items()
        }
        model = cls(**config)
        model.freeze_what_was_built()
        return model

    def export(
        self,
        directory,
        num_samples: int = 32,
        signatures=None,
        ensemble: bool = False,
        *,
        seed: int | None = None,
        metrics: dict | None = None,
    ) -> str:
        """Writes the next version of a SavedModel.

        It replaces Keras's `export(filepath)`, which would freeze one draw: here the
        graph draws anew for each request. Loading it needs only TensorFlow.

        - `serving_default(inputs)` → `mean` and every score of the likelihood, from
          `num_samples` draws;
        - `sample(inputs, num_samples, seed)`, two int32 scalars → `samples`
          [rows, S, C], the same for the same seed;
        - `deterministic(inputs)` → `mean` at the centre, without noise.

        Several inputs are arguments by name (a column "mean radius" as `mean_radius`;
        see `serving.names.served_names` for the rule), and the results of several
        outputs are `<output>_mean`, `<output>_mutual_information`, .... Unnamed inputs
        and outputs are `input_0`, `output_0`, .... Inputs have the dtype that the model
        was trained on: uint8 images and integer tokens keep theirs.

        Beside the graph, `assets.extra/` holds `model_card.json` and, if the package
        `tensorflow-serving-api` is installed, requests that warm up a server.

        Args:
            directory: Folder of versions. The model is written under the next free
                integer, and appears there only when it is complete.
            num_samples: S of `serving_default`.
            signatures: Names of the signatures to be written; `None` for all three.
                For a server that batches requests, leave out `sample`, since its two
                scalars have no rows to batch:
                `signatures=("serving_default", "deterministic")`.
            ensemble: Whether to make the S draws now and freeze them: the same input
                then always has the same answer, and the graph, without a hypernet, is
                smaller and faster. `sample(inputs)` then returns the frozen draws.
            seed: A non-negative integer for the same frozen draws every time.
            metrics: Numbers by name, for the model card: the model's quality.

        Returns:
            The path of the new version.

        Raises:
            ValueError: If the model has no weights yet, a signature is unknown, or
                `directory` is an address, such as "gs://bucket/models".

        Example:
        ```python
        path = model.export("saved_models/digits")
        served = tf.saved_model.load(path).signatures["serving_default"]
        served(inputs=tf.constant(x))["mutual_information"]
        ```
        """
        self._require_built()
        if self.raw_outputs is None:
            # A subclassed network that has not been called yet.
            _, shapes, _ = self.served_inputs
            self.build(shapes)
        return export_version(
            self, directory, num_samples, signatures, ensemble, seed, metrics
        )

    @property
    def served_inputs(self) -> tuple:
        """The network, the shapes it was built with, and the dtypes it was fed."""
        network = self.posterior.network
        shapes = self._input_shape
        if shapes is None:
            # A subclassed network that was built before it was given.
            shapes = (network.get_build_config() or {}).get("input_shape")
        return network, shapes, self._fed_dtypes
