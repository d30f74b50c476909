"""`compile`, `fit`, `evaluate`, and the steps behind them."""

import contextlib
import functools

import keras
import tensorflow as tf

from bhn_tf import keras_adapter, tensorflow_adapter
from bhn_tf.arguments import check_count, check_given_counts
from bhn_tf.data_feeds import (
    NO_BATCH_LEFT,
    feed_of,
    readable_data_errors,
    unpacked_validation,
)
from bhn_tf.likelihoods import Likelihood
from bhn_tf.models import replicas, training_options, workers
from bhn_tf.models.batch_scores import Batch, score_batch
from bhn_tf.models.draws import Posterior
from bhn_tf.models.evaluations import Evaluations
from bhn_tf.models.functions_by_rank import FunctionsByRank, ranks_of
from bhn_tf.models.measures import Measures
from bhn_tf.models.objective import MaximumLikelihood
from bhn_tf.models.raw_outputs import RawOutputs
from bhn_tf.models.targets import require_units


class Training(keras.Model):
    """Part of `PredictiveModel`: minimises its objective, and evaluates it.

    Data are checked and counted before any work; the training loop is Keras's.
    """

    # Attributes of `PredictiveModel`.
    posterior: Posterior
    objective: MaximumLikelihood
    likelihood: Likelihood
    raw_outputs: RawOutputs | None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.train_samples, self.per_example_noise = 1, False
        self._loss_weights = None
        self._functions_by_rank = FunctionsByRank()
        self._validation_ranks = None
        self._measures = Measures()
        #: Runs one evaluation at a time, since variables hold its draws and sums.
        self._evaluations = Evaluations()

    # -- compile --------------------------------------------------------------------

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        *,
        metrics=None,
        weighted_metrics=None,
        loss_weights=None,
        eval_samples: int = 8,
        **kwargs,
    ):
        """Configures training, as in Keras; the likelihood is the loss.

        Args:
            optimizer: As in Keras; `None` to evaluate only.
            loss: Refused: the loss is the likelihood.
            metrics: As in Keras; they get labels and predicted means. The first batch
                refuses those with the name of a term in the logs, such as `nll`.
            weighted_metrics: As in Keras.
            loss_weights: Weight of each output's log-likelihood, as in Keras. They
                change only `loss` and `nll`, not what is measured.
            eval_samples: S of `evaluate` and of validation; 0 for the centre.
            **kwargs: `run_eagerly`, `steps_per_execution`, `jit_compile`,
                `auto_scale_loss`, as in Keras.

        Raises:
            ValueError: If a value makes no sense or `loss` is given.
        """
        training_options.refuse_loss(loss, type(self).__name__)
        training_options.refuse_metrics_of_censored(metrics, self.likelihood)
        training_options.refuse_metrics_of_censored(weighted_metrics, self.likelihood)
        eval_samples = check_count("eval_samples", eval_samples, minimum=0)
        training_options.refuse_what_strategies_lack(
            self.distribute_strategy, optimizer, kwargs
        )
        if self.built:
            # Refuses wrong ones here rather than in the middle of a step.
            self.likelihood.loss_weights_by_output(loss_weights)
        super().compile(
            optimizer=optimizer,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            loss_weights=loss_weights,
            **kwargs,
        )
        # Keras's wrappers read this to see whether a model can be trained.
        self.loss = "nll"
        self._loss_weights = loss_weights
        self.eval_samples = eval_samples
        self._functions_by_rank = FunctionsByRank()
        self._measures.forget_coding()
        self._forget_compiled_answers()
        if self.built:
            self._set_up_objective()
        # A loaded model has the optimizer's slots, so a saved one should have them too.
        self._build_optimizer()

    def _set_up_objective(self):
        """Called when the likelihood knows the outputs, and by `compile`."""
        self.objective.loss_weights = self.likelihood.loss_weights_by_output(
            self._loss_weights
        )
        self._measures.make_trackers(self.objective, self.likelihood.output_names)

    def _build_optimizer(self):
        # A step that creates the optimizer's variables would be traced twice.
        if self.built and self.optimizer is not None and not self.optimizer.built:
            with self._own_scope():
                replicas.refuse_weights_of_elsewhere(
                    self.trainable_variables, self._distribute_strategy
                )
                self.optimizer.build(self.trainable_variables)

    def _require_optimizer(self, method_name):
        self._assert_compile_called(method_name)
        training_options.require_optimizer(self.optimizer, method_name)

    def _require_optimizer_of_weights(self):
        """Refuses weights that were thawed since `compile`, or are another model's."""
        weights = self.trainable_variables
        unknown = keras_adapter.not_trained_by(self.optimizer, weights)
        if unknown:
            raise ValueError(
                f"The optimizer was not made for the weights {unknown}, which were "
                "frozen when the model was compiled, or it belongs to another model: "
                "call `compile` with a new optimizer after `trainable` has changed."
            )

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config.pop("loss", None)
            config["eval_samples"] = self.eval_samples
            places = keras_adapter.without_weight_decay(self.optimizer, self.weights)
            if places:
                # Keras's configuration of an optimizer leaves them out.
                config["without_weight_decay"] = places
        return config

    def compile_from_config(self, config):
        config = keras.saving.deserialize_keras_object(config)
        places = config.pop("without_weight_decay", [])
        training_options.leave_out_of_weight_decay(
            config.get("optimizer"), places, self.weights
        )
        training_options.leave_out_metrics_of_censored(config, self.likelihood)
        self.compile(**config)

    # -- steps ----------------------------------------------------------------------

    @tensorflow_adapter.custom_gradients_go_with_their_graph()
    def train_step(self, data):
        """One step of stochastic gradient descent on the objective."""
        # A loop of one's own may begin with it, without `fit`.
        with tf.init_scope():
            self._require_told()
        # Each network of an ensemble learns as if it were alone.
        num_networks = len(self.posterior.networks)
        batch, scores, terms, gradients = self.objective.gradients(
            functools.partial(self._score_for_training, data),
            self.trainable_variables,
            lambda loss: self.optimizer.scale_loss(loss * num_networks),
        )
        gradients = replicas.held_by_first(gradients, self.optimizer)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self._logs(batch, scores, terms, is_evaluation=False)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Not available; the error names what to do in a `train_step` of one's own."""
        raise ValueError(
            f"{type(self).__name__} has no `compute_loss`: its loss, the bound or the "
            "negative log-likelihood, is made of draws of networks, and not of "
            "predictions. In a `train_step` of your own, call "
            "`logs = super().train_step(data)` and change the logs that it returns."
        )

    def _score_for_training(self, data):
        batch = Batch.of(data)
        noise = self.per_example_noise
        draws = self.posterior.draw_for_training(
            self.train_samples,
            batch.num_rows if noise else None,
            None if isinstance(noise, bool) else noise,
        )
        return batch, draws, self._scores(batch, draws.values, training=True)

    @tensorflow_adapter.custom_gradients_go_with_their_graph()
    def test_step(self, data):
        """Scores a batch under the draws made by `evaluate`."""
        batch, draws = Batch.of(data), self._evaluations.draws
        scores = self._scores(batch, draws.values, training=False)
        terms = self.objective.terms(scores, batch, draws, training=False)
        return self._logs(batch, scores, terms, is_evaluation=True)

    def _scores(self, batch, values, training):
        return score_batch(
            self.posterior, self.likelihood, self.raw_outputs, batch, values, training
        )

    def _logs(self, batch, scores, terms, *, is_evaluation):
        """Updates the trackers and compiled metrics, and returns the logs."""
        self._measures.update(
            self, self._compile_metrics, batch, scores, terms, is_evaluation
        )
        with self._evaluations.reporting(is_evaluation):
            logs = self.get_metrics_result()
        return workers.logs_of_step(logs, self.distribute_strategy)

    # -- logs -----------------------------------------------------------------------

    @property
    def metrics(self):
        """The loss, the compiled metrics, those of layers, and the loss's terms."""
        own = [metric for metric in super().metrics if metric is not self._loss_tracker]
        is_evaluation = self._evaluations.is_reporting
        return self._measures.metrics(own, self.posterior.networks, is_evaluation)

    def get_metrics_result(self):
        return keras_adapter.metrics_result(self._results())

    def _results(self):
        is_evaluation = self._evaluations.is_reporting
        return self._measures.results(
            self.metrics, self._compile_metrics, is_evaluation
        )

    @property
    def metrics_names(self):
        """Names of the values in the list that `evaluate` returns, in its order."""
        with self._evaluations.reporting(True):
            return list(self._results())

    def _flatten_metrics_in_order(self, logs):
        values = [logs[name] for name in self.metrics_names if name in logs]
        return values[0] if len(values) == 1 else values

    # -- fit and evaluate -----------------------------------------------------------

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        arguments = training_options.arguments_of_fit(self, *args, **kwargs)
        self._require_optimizer("fit")
        training_options.check_counts_of_fit(arguments)
        given = feed_of(arguments["x"], arguments["y"], arguments["sample_weight"])
        if arguments["steps_per_epoch"]:
            steps = arguments["steps_per_epoch"] * arguments["epochs"]
            given.num_trained_batches = steps
        self._build_from_feed(given)
        self._begin_call()
        arguments["validation_split"] = training_options.validation_split_of(
            arguments["validation_split"], arguments["validation_data"]
        )
        self._check_class_weight(arguments["class_weight"])
        with readable_data_errors():
            feed = self._checked(given)
            self._learn_from_feed(given, arguments["validation_split"])
            # Keras warns if told to shuffle data that have an order of their own.
            arguments["shuffle"] = feed.can_be_shuffled and arguments["shuffle"]
            arguments.update(x=feed.x, y=feed.y, sample_weight=feed.sample_weight)
            arguments = workers.training_arguments(
                arguments, feed, self.distribute_strategy
            )
            # Those of a split are the training data's own.
            self._validation_ranks = ranks_of(feed)
            if arguments["validation_data"] is not None:
                arguments["validation_data"] = self._checked_validation_data(
                    arguments["validation_data"]
                )
            self._functions_by_rank.take(self, "train_function", ranks_of(feed))
            self._build_optimizer()
            with (
                self._fitting(),
                self.objective.settings_of_fit(),
                self._evaluations.beside_training(),
                workers.lost_workers_named(self.distribute_strategy),
            ):
                self._require_optimizer_of_weights()
                history = super().fit(**arguments)
        if history.epoch and "loss" not in history.history:
            raise ValueError(NO_BATCH_LEFT)
        return history

    def _fitting(self):
        """The context in which `fit` runs."""
        return contextlib.nullcontext()

    def _check_class_weight(self, class_weight):
        training_options.check_class_weight(
            class_weight, self.likelihood, self.raw_outputs
        )

    def _learn_from_feed(self, feed, validation_split):
        """Learns what the data show before training, such as N."""

    def _checked_validation_data(self, validation_data):
        feed = feed_of(*unpacked_validation(validation_data))
        checked = self._checked(feed)
        self._validation_ranks = ranks_of(checked)
        if feed.num_rows is None:
            return workers.shared_out(checked.x, self.distribute_strategy)
        return checked.x, checked.y, checked.sample_weight

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        steps=None,
        callbacks=None,
        return_dict=False,
        *,
        num_samples: int | None = None,
        seed: int | None = None,
        **kwargs,
    ):
        """Scores data over S draws, the same for all rows.

        Args:
            x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict:
                As in Keras.
            num_samples: S; `None` for `eval_samples` of `compile`, 0 for the centre.
            seed: A non-negative integer for the same draws every time.

        Returns:
            As in Keras; `metrics_names` has the order of a list. `nll` is the mean
            over draws and rows, the term of the bound; `predictive_nll`, -log of the
            mean probability, is the one to monitor (with `mode="min"`, since Keras
            knows the direction only of compiled metrics).

        Raises:
            ValueError: If the data are empty, not finite, or have labels without a
                meaning.
        """
        self._assert_compile_called("evaluate")
        check_given_counts(batch_size=batch_size, steps=steps)
        # Within `fit`, validation data have been checked and made into batches.
        is_within_fit = kwargs.get("_use_cached_eval_dataset", False)
        feed = None if is_within_fit else feed_of(x, y, sample_weight)
        with readable_data_errors():
            if feed is not None:
                self._build_from_feed(feed)
                self._begin_call()
                feed = self._checked(feed)
                x, y, sample_weight = feed.x, feed.y, feed.sample_weight
                x = workers.shared_out(x, self.distribute_strategy)
            with self._evaluation(num_samples, seed, feed):
                return super().evaluate(
                    x=x,
                    y=y,
                    batch_size=batch_size,
                    verbose=verbose,
                    sample_weight=sample_weight,
                    steps=steps,
                    callbacks=callbacks,
                    return_dict=return_dict,
                    **kwargs,
                )

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(
        self, x, y=None, sample_weight=None, class_weight=None, return_dict=False
    ):
        self._require_optimizer("train_on_batch")
        tensorflow_adapter.require_threads()
        feed = feed_of(x, y, sample_weight)
        self._build_from_feed(feed)
        self._check_class_weight(class_weight)
        self._require_told()
        self._remember_dtypes(feed)
        feed = self._checked(feed).as_tensors()
        self._functions_by_rank.take(self, "train_function", ranks_of(feed))
        self._build_optimizer()
        self._require_optimizer_of_weights()
        with workers.lost_workers_named(self.distribute_strategy):
            return super().train_on_batch(
                feed.x, feed.y, feed.sample_weight, class_weight, return_dict
            )

    def test_on_batch(
        self,
        x,
        y=None,
        sample_weight=None,
        return_dict=False,
        *,
        num_samples: int | None = None,
        seed: int | None = None,
    ):
        """Scores one batch; the arguments are those of `evaluate`."""
        self._assert_compile_called("test_on_batch")
        tensorflow_adapter.require_threads()
        feed = feed_of(x, y, sample_weight)
        self._build_from_feed(feed)
        feed = self._checked(feed).as_tensors()
        with self._evaluation(num_samples, seed, feed):
            return super().test_on_batch(
                feed.x, feed.y, feed.sample_weight, return_dict
            )

    @contextlib.contextmanager
    def _evaluation(self, num_samples, seed, feed):
        """Makes the draws of an evaluation, whose metrics are then reported."""
        self._require_told()
        num_samples = self.eval_samples if num_samples is None else num_samples
        check_count("num_samples", num_samples, minimum=0)
        seed = workers.agreed_seed(self.distribute_strategy, seed)
        draws = self.posterior.draw(num_samples, seed)
        with self._own_scope():
            self._evaluations.make_room_for(draws)
        # Within `fit`, Keras expects to find the validation's sums in the metrics.
        is_validation = feed is None
        metrics = [] if is_validation else self._metrics_of_evaluation()
        ranks = self._validation_ranks if is_validation else ranks_of(feed)
        lost_named = workers.lost_workers_named(self.distribute_strategy)
        with self._evaluations.one(draws, metrics), lost_named:
            self._functions_by_rank.take(self, "test_function", ranks)
            yield
            if self._measures.trackers(True).num_rows == 0:
                raise ValueError(
                    "The data yielded no row, so there is nothing to report."
                )

    def _require_told(self):
        """Refuses to go on without N and units, which `fit` learns from its data."""
        self.objective.require_num_examples()
        require_units(self.likelihood)

    def _metrics_of_evaluation(self):
        """Metrics in which a running evaluation or training may be summing."""
        with self._evaluations.reporting(True):
            return self.metrics

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds compiled metrics ahead of the replicas.

        To learn the shapes, Keras averages the batches of all replicas, which fails if
        the first batch does not divide evenly; that of one replica is enough.
        """
        metrics = self._compile_metrics
        if self._distribute_strategy is None or metrics is None or metrics.built:
            return
        if iterator is not None:
            _, _, batches = next(iter(iterator))
            data_batch = next(batches)
        first = keras.tree.map_structure(
            lambda leaf: self.distribute_strategy.experimental_local_results(leaf)[0],
            data_batch,
        )
        with self._own_scope():
            self._measures.build_compiled(self, metrics, first)
