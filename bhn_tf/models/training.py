"""Training and evaluation: the steps, their logs, and what `compile` takes."""

import contextlib
import functools
import inspect

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.models.data_checks import readable_data_errors
from bhn_tf.models.trackers import Derived, mean_tracker


class Training:
    """Mixin of `PredictiveModel`: minimises `nll + complexity + regularization`.

    Everything is a mean over examples: `nll` is the mean of -log p(y|x, g), and the
    complexity, nothing here, is a Bayesian model's KL for each example.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._nll = mean_tracker("nll")
        self._predictive_nll = mean_tracker("predictive_nll")
        self._regularization = mean_tracker("regularization")
        self._has_regularization = False
        self._evaluating = False

    #: Networks that train side by side; each learns as if it were alone.
    _num_trained_networks = 1

    # -- to be provided --------------------------------------------------------------

    def _training_draws(self, rows):
        """Draws for one training step, [S, ...], and their KL, a scalar in nats."""
        raise NotImplementedError

    def _complexity(self, kl):
        """The share of each example in the KL."""
        return tf.zeros_like(kl)

    def _track_draws(self, kl, rows):
        """Feeds the trackers of the draws."""

    def _learn_num_examples(self, x, validation_split, verbose):
        """Learns N from the training data, where it matters."""

    # -- compile ---------------------------------------------------------------------

    def compile(
        self,
        optimizer="rmsprop",
        metrics=None,
        weighted_metrics=None,
        loss_weights=None,
        *,
        eval_samples: int = 8,
        **kwargs,
    ):
        """Configures training, as in Keras; the likelihood is the loss.

        Args:
            optimizer: As in Keras.
            metrics: As in Keras; they get labels and predicted means.
            weighted_metrics: As in Keras.
            loss_weights: As in Keras, for several outputs.
            eval_samples: S of `evaluate` and of validation; 0 for the centre.
            **kwargs: `run_eagerly`, `steps_per_execution`, `jit_compile`,
                `auto_scale_loss`, as in Keras.

        Raises:
            ValueError: If a value makes no sense or `loss` is given.
        """
        if kwargs.pop("loss", None) is not None:
            raise ValueError(
                "The loss is the likelihood, a density: leave out `loss` and choose "
                f"with `{type(self).__name__}(..., likelihood=...)`; see "
                "`bhn_tf.likelihoods`."
            )
        check_count("eval_samples", eval_samples, minimum=0)
        self._refuse_under_replicas(optimizer, kwargs.get("jit_compile"))
        super().compile(
            optimizer=optimizer,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            loss_weights=loss_weights,
            **kwargs,
        )
        self.eval_samples = eval_samples
        self._compile_arguments = {"eval_samples": eval_samples}
        self._predict_functions = {}
        self._loss_tracker = Derived("loss", self._logged_loss)

    def _refuse_under_replicas(self, optimizer, jit_compile):
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return
        if jit_compile is True:
            raise ValueError(
                "`jit_compile=True` fails on several replicas in TensorFlow (XLA "
                "cannot compile their collective operations). Leave it at 'auto'."
            )
        if getattr(optimizer, "gradient_accumulation_steps", None):
            raise ValueError(
                "`gradient_accumulation_steps` fails on several replicas in Keras "
                "(it updates conditionally in replica context). Use larger batches."
            )

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config.pop("loss", None)
            config.update(self._compile_arguments)
        return config

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    # -- steps -----------------------------------------------------------------------

    def train_step(self, data):
        """One step of stochastic gradient descent on the objective."""
        x, y, sample_weight = _unpack(data)
        rows = tf.shape(keras.tree.flatten(x)[0])[0]
        with tf.GradientTape() as tape:
            draws, kl = self._training_draws(rows)
            log_probs, means, regularization = self._score_draws(
                x, y, draws, training=True
            )
            nll = _weighted(-tf.reduce_mean(log_probs, axis=0), sample_weight)
            regularization = tf.reduce_mean(regularization)
            # Gradients are summed over replicas: rows count once each, terms of the
            # whole model are divided among them.
            num_replicas = self.distribute_strategy.num_replicas_in_sync
            shared = self._complexity(kl) + regularization
            loss = tf.reduce_sum(nll) / self._global_rows(rows, nll.dtype)
            loss += tf.cast(shared, loss.dtype) / num_replicas
            scaled_loss = self.optimizer.scale_loss(loss * self._num_trained_networks)
        gradients = tape.gradient(scaled_loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self._track(nll, kl, regularization, rows)
        y_pred = tf.reduce_mean(means, axis=0)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def test_step(self, data):
        """Scores a batch under the draws that `evaluate` has made."""
        x, y, sample_weight = _unpack(data)
        rows = tf.shape(keras.tree.flatten(x)[0])[0]
        log_probs, means, regularization = self._score_draws(
            x, y, self._draws.value(), training=False
        )
        nll = _weighted(-tf.reduce_mean(log_probs, axis=0), sample_weight)
        predictive = -self.likelihood.predictive_log_prob(log_probs)
        self._predictive_nll.update_state(_weighted(predictive, sample_weight))
        self._track(nll, self._draws_kl.value(), tf.reduce_mean(regularization), rows)
        y_pred = tf.reduce_mean(means, axis=0)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _score_draws(self, x, y, draws, training):
        """What a step needs of every draw: log p of each row [S, B], the mean of y
        [S, B, ...], and the primary's own losses [S]."""

        def score(raw, losses):
            self._has_regularization |= bool(losses)
            values = (
                self.likelihood.log_prob(y, raw),
                self.likelihood.mean(raw),
                tf.add_n([tf.cast(loss, tf.float32) for loss in losses] or [0.0]),
            )
            return keras.tree.map_structure(self._as_result, values)

        return self._over_draws(score, x, draws, training, num_results=3)

    def _as_result(self, values):
        """Casts to the dtype of results: at least float32."""
        return tf.cast(values, self._result_dtype)

    @property
    def _result_dtype(self):
        return tf.float64 if self.compute_dtype == "float64" else tf.float32

    def _global_rows(self, rows, dtype):
        if self.distribute_strategy.num_replicas_in_sync > 1:
            replica = tf.distribute.get_replica_context()
            rows = replica.all_reduce(tf.distribute.ReduceOp.SUM, rows)
        return tf.cast(rows, dtype)

    # -- logs --------------------------------------------------------------------------

    def _track(self, nll, kl, regularization, rows):
        """Feeds the trackers one value a row: epochs are means over examples, and a
        replica without rows adds nothing."""
        self._nll.update_state(nll)
        self._regularization.update_state(tf.fill([rows], regularization))
        self._track_draws(kl, rows)

    def _logged_loss(self):
        loss = self._nll.result() + self._logged_complexity()
        if self._has_regularization:
            loss += self._regularization.result()
        return loss

    def _logged_complexity(self):
        return 0.0

    def get_metrics_result(self):
        logs = super().get_metrics_result()
        if not self._has_regularization:
            logs.pop("regularization", None)
        if not self._evaluating:
            logs.pop("predictive_nll", None)
        return logs

    # -- entry points --------------------------------------------------------------------

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        bound = inspect.signature(keras.Model.fit).bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = {**bound.arguments}
        del arguments["self"]
        self._assert_compile_called("fit")
        self._build_from_data(arguments["x"])
        arguments["x"] = self._checked(
            arguments["x"], arguments["y"], arguments["sample_weight"]
        )
        if arguments["validation_data"] is not None:
            arguments["validation_data"] = self._checked_validation_data(
                arguments["validation_data"]
            )
        with readable_data_errors():
            self._learn_num_examples(
                arguments["x"], arguments["validation_split"], arguments["verbose"]
            )
            self._build_optimizer()
            return super().fit(**arguments)

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
            As in Keras. `nll` is the mean over draws and rows, the term of the
            bound; `predictive_nll` is -log of the mean probability, what to monitor.

        Raises:
            ValueError: If the data are empty, not finite, or have labels without a
                meaning.
        """
        self._assert_compile_called("evaluate")
        # Within `fit`, validation data have been checked and made into batches.
        if not kwargs.get("_use_cached_eval_dataset"):
            self._build_from_data(x)
            x = self._checked(x, y, sample_weight)
        with self._evaluation(num_samples, seed), readable_data_errors():
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
    def train_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        self._assert_compile_called("train_on_batch")
        self._build_from_data(x)
        self._checked(x, y, sample_weight)
        self._build_optimizer()
        return super().train_on_batch(x, y, sample_weight, *args, **kwargs)

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
        self._build_from_data(x)
        self._checked(x, y, sample_weight)
        with self._evaluation(num_samples, seed):
            return super().test_on_batch(x, y, sample_weight, return_dict)

    @contextlib.contextmanager
    def _evaluation(self, num_samples, seed):
        """Makes the draws of an evaluation and lets its logs show."""
        self._set_draws(self.eval_samples if num_samples is None else num_samples, seed)
        self._evaluating = True
        try:
            yield
        finally:
            self._evaluating = False
        if float(self._nll.count) == 0:
            raise ValueError("The data yielded no row, so there is nothing to report.")

    def _build_optimizer(self):
        # A step that creates the optimizer's variables would be traced twice.
        if self.built and not self.optimizer.built:
            with self._own_scope():
                self.optimizer.build(self.trainable_variables)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds compiled metrics ahead of the replicas.

        Keras averages the batches of all replicas to learn their shapes, which fails
        where the first batch does not divide evenly; the first replica's will do.
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
        x, y, _ = keras.utils.unpack_x_y_sample_weight(first)
        with self._own_scope():
            self._build_from_data(x)
            metrics.build(y, self._mean_like(y))


def _unpack(data):
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if y is None:
        raise ValueError(
            "Training and evaluation need labels: give `y`, or a data set of "
            "`(x, y)` or `(x, y, sample_weight)` batches."
        )
    return x, y, sample_weight


def _weighted(values, sample_weight):
    """Multiplies values [B] by weights [B] or [B, 1]; the mean stays over rows."""
    if sample_weight is None:
        return values
    sample_weight = tf.cast(sample_weight, values.dtype)
    if sample_weight.shape.rank == 2 and sample_weight.shape[1] == 1:
        sample_weight = sample_weight[:, 0]
    if sample_weight.shape.rank != 1:
        raise ValueError(
            "Expected one sample weight for each row, [B] or [B, 1], got shape "
            f"{sample_weight.shape}."
        )
    return values * sample_weight


def check_count(name: str, value, minimum: int) -> None:
    """Raises `ValueError` unless `value` is an integer of at least `minimum`."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < minimum:
        raise ValueError(
            f"Expected `{name}` to be an integer of at least {minimum}, got {value!r}."
        )
