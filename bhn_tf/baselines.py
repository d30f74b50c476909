"""Baselines to compare a Bayesian hypernetwork with, under the same interface.

Each baseline is a Keras model with `fit`, `evaluate`, `save` and the `predict*` calls
of `BayesianHypernet`; the loss is the likelihood alone.
"""

import collections

import keras
import numpy as np

from bhn_tf import keras_adapter
from bhn_tf.conversion import from_keras
from bhn_tf.hypernets import MeanField
from bhn_tf.layers.dropout import DRAWABLE
from bhn_tf.models.baseline_posteriors import DropoutPosterior, MemberPosterior
from bhn_tf.models.bayesian_hypernet import BayesianHypernet
from bhn_tf.models.draws import PointPosterior
from bhn_tf.models.predictive_model import PredictiveModel
from bhn_tf.models.refused_networks import require_network
from bhn_tf.networks.copying import (
    carry_state,
    copy_network,
    fresh_layer,
    is_graph,
)
from bhn_tf.networks.outputs import require_one_kind
from bhn_tf.networks.paths import layer_paths
from bhn_tf.networks.shared_layers import serialized
from bhn_tf.user_warnings import warn_user


@keras.saving.register_keras_serializable("bhn_tf")
class DeepEnsemble(PredictiveModel):
    """Networks trained side by side from different initial weights.

    Lakshminarayanan et al., "Simple and Scalable Predictive Uncertainty Estimation
    using Deep Ensembles" (2017). The members see the same batches, and each learns as
    if it were alone, except under an optimizer's `global_clipnorm`, which clips all
    their gradients together (`clipnorm` and `clipvalue` clip each weight's).

    Args:
        models: Different Keras models, or one, with the same kind of inputs and
            outputs. They are used as they are, not copied.
        likelihood: p(y|x): what `bhn_tf.likelihoods.get` takes, a name, an instance,
            or one for each of several outputs.
        **kwargs: `normalize_targets=True`, as in `BayesianHypernet`, and arguments of
            `keras.Model`: `name`, `dtype`.

    The members are the draws: `num_samples` and `seed` are ignored.

    Example:
    ```python
    model = bhn_tf.baselines.DeepEnsemble([make_network() for _ in range(5)])
    model.compile("adam")
    model.fit(x, y)
    model.predict_uncertainty(x)["mutual_information"]
    ```
    """

    def __init__(self, models, likelihood="categorical", **kwargs):
        super().__init__(likelihood, **kwargs)
        # One model alone is an ensemble of one.
        self.members = list(models) if np.iterable(models) else [models]
        if not self.members:
            raise ValueError("Expected at least one model in `models`, got none.")
        for index, member in enumerate(self.members):
            require_network(f"models[{index}]", member)
        if len({id(member) for member in self.members}) < len(self.members):
            raise ValueError(
                "The `models` of an ensemble hold one model several times: it would "
                "take all of their steps, and there would be no spread. Make each "
                "anew, `[make_network() for _ in range(5)]`."
            )
        shared = _shared_layers(self.members)
        if shared:
            warn_user(
                f"The `models` of an ensemble share the layers {shared}: these learn "
                "from all members, so that the spread is too small, and the saved "
                "ensemble may not load. Make each model with layers of its own."
            )
        self.posterior = MemberPosterior(self.members)
        self._build_from_built_networks()

    posterior: MemberPosterior

    def _check_outputs(self, outputs):
        require_one_kind(self.members, outputs)

    def call(self, x, training=None, seed: int | None = None):
        """Returns the raw outputs of one member, drawn by a seed."""
        return self.posterior.outputs_of_one(x, seed, training)

    def get_config(self):
        return {**super().get_config(), "models": list(map(serialized, self.members))}


@keras.saving.register_keras_serializable("bhn_tf")
class Deterministic(PredictiveModel):
    """One network without noise: maximum likelihood.

    Args:
        model: A Keras model. It is used as it is, not copied.
        likelihood: p(y|x): what `bhn_tf.likelihoods.get` takes, a name, an instance,
            or one for each of several outputs.
        **kwargs: `normalize_targets=True`, as in `BayesianHypernet`, and arguments of
            `keras.Model`: `name`, `dtype`.

    There is only one draw: `num_samples` and `seed` are ignored.

    Example:
    ```python
    model = bhn_tf.baselines.Deterministic(network)
    model.compile("adam", metrics=["accuracy"])
    model.fit(x, y)
    ```
    """

    def __init__(self, model, likelihood="categorical", **kwargs):
        super().__init__(likelihood, **kwargs)
        require_network("model", model)
        # A list, as in files of version 0.1.
        self.members = [model]
        self.posterior = PointPosterior(self.members)
        self._build_from_built_networks()

    def get_config(self):
        return {**super().get_config(), "model": serialized(self.members[0])}


@keras.saving.register_keras_serializable("bhn_tf")
class MCDropout(PredictiveModel):
    """A network that also drops units when it predicts.

    Gal and Ghahramani, "Dropout as a Bayesian Approximation" (2016). A draw is one
    mask for each dropout layer, the same for all rows, so that a row's answer depends
    neither on its neighbours nor on the batch size. Without draws (`num_samples=0`)
    the prediction is that of ordinary dropout, which scales instead of dropping.
    `Dropout` and `SpatialDropout1D/2D/3D` are drawn, also in `TimeDistributed`, where
    all steps share a mask. Other training noise (in recurrent layers, attention,
    `AlphaDropout` or layers of your own) is switched off in predictions, and a warning
    names it.

    Args:
        model: A Sequential or functional model with dropout layers. It is copied, with
            its weights and with dropout that can be drawn; `model` itself is left as it
            is. A subclassed model is used as it is, and has to use
            `bhn_tf.layers.MonteCarloDropout`.
        likelihood: p(y|x): what `bhn_tf.likelihoods.get` takes, a name, an instance,
            or one for each of several outputs.
        **kwargs: `normalize_targets=True`, as in `BayesianHypernet`, and arguments of
            `keras.Model`: `name`, `dtype`.

    Example:
    ```python
    model = bhn_tf.baselines.MCDropout(network)
    model.compile("adam", metrics=["accuracy"])
    model.fit(x, y)
    model.predict(x, num_samples=100)
    ```
    """

    def __init__(self, model, likelihood="categorical", **kwargs):
        super().__init__(likelihood, **kwargs)
        require_network("model", model)
        self.network = _with_drawable_dropout(model)
        self.posterior = DropoutPosterior(self.network)
        if not self.posterior.dropout_layers:
            raise ValueError(
                f"{type(model).__name__} {model.name!r} has no dropout layer that can "
                "be drawn, so all draws would be the same. Add `keras.layers.Dropout`, "
                "or inside of a subclassed model or a layer of your own "
                "`bhn_tf.layers.MonteCarloDropout`."
            )
        resting = _noise_that_rests(self.network)
        if resting:
            warn_user(
                f"The noise of {resting} is there in training alone, and missing in "
                "the spread of predictions: what is drawn is that of dropout layers. "
                "Put `keras.layers.Dropout` in their place, inside of a layer of your "
                "own `bhn_tf.layers.MonteCarloDropout`.",
            )
        self._build_from_built_networks()

    def get_config(self):
        return {**super().get_config(), "model": serialized(self.network)}


def bayes_by_backprop(model, initial_stddev: float = 0.1, **kwargs) -> BayesianHypernet:
    """Independent Gaussians over every kernel and bias of a network.

    Blundell et al., "Weight Uncertainty in Neural Networks" (2015). It is
    `bhn_tf.from_keras` with `MeanField` and `random="kernel_and_bias"`: one draw holds
    for all rows of a batch, and the centre is the given network. Regularisers and
    constraints of its kernels and biases have no effect: the prior regularises them.

    Args:
        model: A Sequential or functional Keras model, built. A copy is made.
        initial_stddev: Initial standard deviation of every kernel entry and bias.
        **kwargs: Other arguments of `bhn_tf.from_keras`.

    Returns:
        A `BayesianHypernet`, not compiled.

    Raises:
        ValueError: As in `bhn_tf.from_keras`.

    Example:
    ```python
    model = bhn_tf.baselines.bayes_by_backprop(network)
    model.compile("adam")
    model.fit(x, y)
    ```
    """
    return from_keras(
        model, MeanField(initial_stddev), random="kernel_and_bias", **kwargs
    )


def _shared_layers(networks) -> list[str]:
    """Names of the layers, except for inputs, that several networks hold."""
    counts = collections.Counter(
        layer for each in networks for layer in keras_adapter.layers_of(each)
    )
    return [
        layer.name
        for layer, count in counts.items()
        if count > 1 and not isinstance(layer, keras.layers.InputLayer)
    ]


def _with_drawable_dropout(model):
    """Copies a model, replacing every dropout layer by one that can be drawn."""
    if not is_graph(model):
        return model

    def make(layer):
        target = DRAWABLE.get(type(layer))
        return target.from_config(layer.get_config()) if target else fresh_layer(layer)

    return copy_network(model, make, carry_state)[model]


def _noise_that_rests(network) -> list[str]:
    """Names of the layers that have noise in training but cannot be drawn."""
    amounts = ("rate", "stddev", "dropout", "recurrent_dropout")
    return [
        path
        for layer, path in layer_paths(network).items()
        if keras_adapter.has_seed_generator(layer)
        and not isinstance(layer, tuple(DRAWABLE.values()))
        and any(getattr(layer, amount, None) for amount in amounts)
    ]
