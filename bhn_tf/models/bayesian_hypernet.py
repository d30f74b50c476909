"""The Bayesian hypernetwork as a Keras model."""

import contextlib

import keras
import numpy as np

from bhn_tf import hypernets, keras_adapter
from bhn_tf.arguments import check_amount, check_count
from bhn_tf.data_feeds import feed_of, labelled_rows
from bhn_tf.layers.random_layer import scales_inputs
from bhn_tf.models import data_initialization, hypernet_config, seed_states, workers
from bhn_tf.models.bound import Bound, Elbo
from bhn_tf.models.hypernet_posterior import HypernetPosterior
from bhn_tf.models.noise import NoiseState
from bhn_tf.models.predictive_model import PredictiveModel
from bhn_tf.models.random_parts import lines_of_random_parts
from bhn_tf.models.refused_networks import (
    refuse_rematerialization,
    refuse_synchronization_over_draws,
    require_network,
)
from bhn_tf.models.scales import checked_scales, network_with_scales
from bhn_tf.models.targets import require_units, set_noise_to_targets


@keras.saving.register_keras_serializable("bhn_tf")
class BayesianHypernet(PredictiveModel):
    """A network whose weight-normalisation scales are drawn by a hypernet.

    The hypernet h maps noise to all D generated values of the primary network at once,
    `g = h(ε)`, and both are trained on the evidence lower bound (paper, section
    "Bayesian Hypernets"): each step minimises, for each example,

        nll + kl_weight · KL / N,    KL = log q(g) - log p(g)

    at one joint draw, with N the number of training examples.

    Args:
        primary: Any Keras model that contains layers of `bhn_tf.layers`. It is used
            as it is, not copied: two models of one primary would train the same
            weights. While it is inside, the hypernet provides its generated values.
        hypernet: "realnvp", "iaf", "chunked", "mean_field", or an instance from
            `bhn_tf.hypernets`; its weights are made for this network's D.
        likelihood: p(y|x, g): "categorical", "bernoulli", "gaussian", another name
            that `bhn_tf.likelihoods.get` knows, or an instance; for several outputs a
            list, or a dictionary by output name.
        prior_stddev: Standard deviation of the Gaussian prior p(g). "learned" trains
            it on the bound (empirical Bayes), starting at 1; "learned_per_layer"
            trains one for each layer. `summary` and `model.prior` show it.
        prior_loc: Mean of the prior, a number or D numbers; `None` is zero. "trained",
            for fine-tuning, means the primary's values when the model is built, and
            `prior_stddev` is then relative to them: `bhn_tf.priors.Trained`.
            "unit_inputs" is 1 for the input scales of `random="rank_one"` and 0 for
            all else: inputs that never vary keep their noise.
        num_examples: N; with `None`, each `fit` takes it from its data.
        seed: Seed of the training noise; `None` for a new one.
        prior: Another prior in place of the Gaussian: a TFP distribution over one
            number, such as `tfd.Laplace(0.0, 1.0)`, or over D; or `priors.Trained`.
            It excludes `prior_stddev` and `prior_loc`.
        **kwargs: `normalize_targets=True` for a regression whose targets are far from
            0 and 1: the network works in their standard units, and the model answers
            in those of y. Others are those of `keras.Model`: `name`, `dtype`.

    Attributes:
        conversion_report: What `bhn_tf.from_keras` made random and why; `None` for
            other models.

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

    posterior: HypernetPosterior
    objective: Bound

    def __init__(
        self,
        primary,
        hypernet="realnvp",
        likelihood="categorical",
        prior_stddev: float | str = 1.0,
        prior_loc=None,
        num_examples: int | None = None,
        seed: int | None = None,
        prior=None,
        **kwargs,
    ):
        super().__init__(likelihood, **kwargs)
        require_network("primary", primary)
        with self._own_scope():
            self.objective = Bound(prior_stddev, prior_loc, prior, num_examples)
        self.primary = primary
        self.hypernet = hypernets.get(hypernet)
        # An attribute, so that Keras trains and saves it.
        self.learned_prior_stddev = self.objective.prior_settings.learned
        self.noise = NoiseState(seed, name="noise")
        self.posterior = HypernetPosterior(primary, self.hypernet, self.noise)
        self._is_initialized = False
        self.conversion_report = None
        self._build_from_built_networks()

    def _finish_building(self):
        layers = keras_adapter.layers_of(self.primary)
        refuse_rematerialization(layers)
        self.posterior.take_over(layers)
        self.objective.set_values(
            self.posterior.initial_values,
            [layer.num_random for layer in self.posterior.layers],
            [scales_inputs(variable) for variable in self.posterior.variables],
        )
        super()._finish_building()
        self.posterior.own_hypernet()

    def _begin_call(self):
        super()._begin_call()
        self.posterior.warn_of_unread_values()

    @contextlib.contextmanager
    def _fitting(self):
        self.posterior.refuse_changed_network()
        if self.train_samples > 1 and self.distribute_strategy.num_replicas_in_sync > 1:
            refuse_synchronization_over_draws(keras_adapter.layers_of(self.primary))
        try:
            yield
        finally:
            self.posterior.note_unread_values()

    # -- numbers of the bound -------------------------------------------------------

    @property
    def num_random(self) -> int:
        """D, the number of generated values."""
        if self.posterior.num_random is None:
            self._require_built()
        return self.posterior.num_random

    @property
    def num_examples(self) -> int | None:
        """N, the number of training examples, or `None` while it is not known."""
        return self.objective.examples.value

    @num_examples.setter
    def num_examples(self, value: int):
        self.objective.examples.give(value)

    def __setattr__(self, name, value):
        if name == "num_examples":
            # Keras skips setting an attribute to its present value; but setting N to
            # what `fit` has counted must mark it as given.
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def kl_weight(self) -> float:
        """The annealing weight of the KL; 1 is the evidence lower bound.

        A value that a callback sets within `fit` holds until `fit` ends.
        """
        return self.objective.kl_weight

    @kl_weight.setter
    def kl_weight(self, value: float):
        self.objective.kl_weight = value

    @property
    def prior(self):
        """p(g) as a TFP distribution with event shape [D]."""
        self._require_built()
        return self.objective.prior

    @property
    def prior_stddev(self) -> float | str:
        """Standard deviation of the Gaussian prior; relative for `prior_loc="trained"`.

        It may be set between two calls of `fit`, for a search over priors, and nothing
        is compiled again. Learned values are in `model.prior.stddev()`, [D].
        """
        return self.objective.prior_settings.stddev

    @prior_stddev.setter
    def prior_stddev(self, value: float):
        self.objective.prior_settings.stddev = value

    @property
    def prior_loc(self):
        """Mean of the prior as it was given; `None` is zero."""
        return self.objective.prior_settings.loc

    def elbo(
        self,
        x,
        y=None,
        num_samples: int = 100,
        batch_size=None,
        seed: int | None = None,
    ) -> Elbo:
        """Estimates the evidence lower bound of data, for comparing hypernets.

        `E_q[Σ_n log p(y_n|x_n, g) - log q(g) + log p(g)]`: a lower bound on the log
        evidence if (x, y) are the training data. The KL has its full weight.

        Args:
            x, y: Arrays of inputs and labels, all N of them.
            num_samples: S, draws of g.
            batch_size: Rows scored at a time.
            seed: A non-negative integer for the same draws every time.

        Returns:
            `Elbo(mean, standard_error)` in nats.

        Example:
        ```python
        bound = model.elbo(x, y, num_samples=200)
        print(f"{bound.mean:.1f} ± {bound.standard_error:.1f} nats")
        ```
        """
        check_count("num_samples", num_samples, minimum=2)
        labelled_rows(x, y, "elbo(x, y)", "the sum is over all of them, each once")
        self.check_data(x, y)
        require_units(self.likelihood)
        seed = workers.agreed_seed(self.distribute_strategy, seed)
        draws = self.posterior.draw(num_samples, seed)
        log_probs = self._log_probs(x, y, batch_size, draws)
        return self.objective.estimate(log_probs, draws)

    # -- training -------------------------------------------------------------------

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        *,
        kl_weight: float = 1.0,
        train_samples: int = 1,
        per_example_noise: bool | int = False,
        same_noise_on_replicas: bool = False,
        **kwargs,
    ):
        """Configures training as in Keras, with the options of the bound.

        Args:
            optimizer: As in Keras; `None` to evaluate only.
            loss: Refused: the loss is the likelihood.
            kl_weight: Weight of the KL; see `bhn_tf.callbacks.KLAnnealing`.
            train_samples: Draws of g for each training step.
            per_example_noise: Whether every row of a batch has its own draw. An
                integer K of at least 2 shares K draws among the rows of a batch, for
                gradients with little more noise at a lower cost.
            same_noise_on_replicas: Whether the replicas of a strategy share the draws
                of a step, so that it equals a step on one device; by default each
                replica makes its own, for less noisy gradients.
            **kwargs: `metrics`, `weighted_metrics`, `loss_weights`, `run_eagerly`,
                `steps_per_execution`, `jit_compile`, `auto_scale_loss`, as in Keras,
                and `eval_samples`, the S of `evaluate` and of validation (8; 0 for
                the centre).

        Raises:
            ValueError: If a value makes no sense or `loss` is given.
        """
        kl_weight = check_amount("kl_weight", kl_weight, may_be_zero=True)
        train_samples = check_count("train_samples", train_samples, minimum=1)
        if not isinstance(per_example_noise, bool):
            per_example_noise = check_count(
                "per_example_noise", per_example_noise, minimum=2
            )
        if self.built:
            self.posterior.refuse_changed_network()
        super().compile(optimizer, loss, **kwargs)
        self.kl_weight = kl_weight
        self.train_samples = train_samples
        self.per_example_noise = per_example_noise
        self.noise.is_shared = bool(same_noise_on_replicas)

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config.update(
                kl_weight=self.objective.settled_kl_weight,
                train_samples=self.train_samples,
                per_example_noise=self.per_example_noise,
                same_noise_on_replicas=self.noise.is_shared,
            )
        return config

    def _learn_from_feed(self, feed, validation_split):
        super()._learn_from_feed(feed, validation_split)
        self.objective.examples.learn(feed, validation_split)

    def initialize_from_data(self, x, y=None) -> bool:
        """Sets scales and biases so that pre-activations are standardised over `x`.

        Layers are set in the order of the network: with scale 1 and bias 0 the
        pre-activations of an output have a mean m and a standard deviation s over the
        rows of `x`, without what Keras's masks call padding; scale becomes 1/s and bias
        -m/s. Scales that a hypernet generates are set in the mean of its last affine
        map. An output that does not vary over `x` (constant data, a single row) keeps
        its scale and bias, and so does a recurrent layer. With `y`, the noise of a
        regression starts at the standard deviation of its targets if it is learned or
        given by the network; fixed noise stays.

        This happens once: a model that has been initialised, even before it was saved,
        is left alone.

        Args:
            x: A batch of inputs, a few hundred rows.
            y: Its labels, or `None`.

        Returns:
            Whether anything was done.

        Raises:
            ValueError: If `x` is empty or not finite, or labels have no meaning.

        Example:
        ```python
        model.initialize_from_data(x[:500], y[:500])
        model.fit(x, y)
        ```
        """
        feed = feed_of(x, y)
        self.check_data(feed.x, feed.y)
        feed = feed.as_tensors()
        if self._is_initialized:
            return False
        data_initialization.standardize_layers(self.posterior, feed.x)
        if feed.y is not None:
            set_noise_to_targets(self.likelihood, feed, self._padding_if_any)
        self._is_initialized = True
        return True

    # -- networks -------------------------------------------------------------------

    def call(self, x, scales=None, training=None):
        """Returns the raw outputs of one network.

        Args:
            x: Inputs, rows first.
            scales: g of shape [D] for all rows, or [B, D] with a draw for each row;
                `None` draws one.
            training: For the primary's own layers (dropout, batch normalisation); it
                does not affect sampling.

        Returns:
            Raw outputs [B, ...] in the primary's dtype.

        Raises:
            ValueError: If `scales` does not fit the network.
        """
        if scales is not None:
            scales = checked_scales(scales, x, self.posterior)
        else:
            scales = self.posterior.draw_one()
        return self.posterior.outputs(x, scales, training)

    def sample_scales(self, num_samples: int, seed: int | None = None) -> np.ndarray:
        """Returns draws of all generated values.

        Args:
            num_samples: S.
            seed: A non-negative integer for the same draws every time. With equal
                `num_samples` and seed, `predict` and `evaluate` make the same ones.

        Returns:
            Array [S, D], float32.

        Example:
        ```python
        np.corrcoef(model.sample_scales(1000).T)  # the posterior's dependencies
        ```
        """
        check_count("num_samples", num_samples, minimum=1)
        self._require_built()
        if not self.num_random:
            return np.zeros([num_samples, 0], "float32")
        return self.posterior.draw(num_samples, seed).values.numpy()

    def draw(self, seed: int | None = None, scales=None) -> keras.Model:
        """Returns one plausible network, an ordinary deterministic Keras model.

        For a model from `bhn_tf.from_keras` it consists of Keras's own layers, like
        the original, with g folded into their kernels: it can be saved, loaded and
        exported without this library. A network written with `bhn_tf.layers` keeps
        those layers.

        Args:
            seed: A non-negative integer for the same draw every time.
            scales: g of shape [D], instead of a new draw.

        Returns:
            A copy of the primary with the draw in its weights, independent of this
            model.

        Raises:
            ValueError: If the model has no weights yet, `seed` is negative or no
                integer, or `scales` has another shape.

        Example:
        ```python
        network = model.draw(seed=1)
        network.predict(x)  # raw outputs
        ```
        """
        self._require_built()
        if scales is None:
            scales = self.sample_scales(1, seed)[0]
        is_converted = self.conversion_report is not None
        return network_with_scales(self.posterior, scales, is_folded=is_converted)

    def summary(self, *args, print_fn=None, **kwargs):
        """Prints the Keras summary, D, the hypernet's share and what is random."""
        super().summary(*args, print_fn=print_fn, **kwargs)
        if not self.built:
            return
        for line in lines_of_random_parts(self):
            (print_fn or print)(line)

    # -- saving ---------------------------------------------------------------------

    def get_config(self):
        return {**super().get_config(), **hypernet_config.config_of(self)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return hypernet_config.model_of(cls, config, custom_objects)

    def save_own_variables(self, store):
        """Saves, beside the weights, what training has found out."""
        super().save_own_variables(store)
        self.objective.save_to(store)
        store["is_initialized_from_data"] = np.int64(self._is_initialized)

    def load_own_variables(self, store):
        # Version 0.1 saved N, the weight of the KL and the flag as weights 0 to 2.
        is_old = {"0", "1", "2"} <= set(store.keys())
        flag = store["2" if is_old else "is_initialized_from_data"]
        self._is_initialized = bool(np.asarray(flag))
        self.objective.load_from(store)
        seed_states.load_seeds(self.posterior.networks, store)
        if self.built and self.num_random:
            steps = keras_adapter.num_parts_in_file(store, "hypernet/flow_steps")
            self.hypernet.refuse_larger(steps)
