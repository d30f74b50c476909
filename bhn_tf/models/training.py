"""Training and evaluation: the steps, their logs, and what `compile` takes."""

import keras
import tensorflow as tf

from bhn_tf.arguments import check_count
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
        self._output_nlls = {}
        self._loss_weights = None
        self._has_regularization = False
        self._evaluating = False

    #: Networks that train side by side; each learns as if it were alone.
    _num_trained_networks = 1

    # -- to be provided -------------------------------------------------------------

    def _training_draws(self, rows):
        """Draws for one training step, [S, ...], and their KL, a scalar in nats."""
        raise NotImplementedError

    def _complexity(self, kl):
        """The share of each example in the KL."""
        return tf.zeros_like(kl)

    def _track_draws(self, kl, rows):
        """Feeds the trackers of the draws."""

    # -- compile --------------------------------------------------------------------

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
            loss_weights: Weight of each output's log-likelihood, as in Keras.
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
        self._loss_weights = loss_weights
        if self.built:
            self.likelihood.set_weights_of_outputs(loss_weights)
        self.eval_samples = eval_samples
        self._predict_functions = {}
        self._loss_tracker = Derived("loss", self._logged_loss)
        # A loaded model has its slots, so the model that is saved should have them too.
        self._build_optimizer()

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
            config["eval_samples"] = self.eval_samples
        return config

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))

    # -- steps ----------------------------------------------------------------------

    def train_step(self, data):
        """One step of stochastic gradient descent on the objective."""
        x, y, sample_weight = _unpack(data)
        rows = tf.shape(keras.tree.flatten(x)[0])[0]
        # Gradients are summed over replicas: rows count once each, terms of the whole
        # model are divided among the replicas that have rows.
        all_rows = self._sum_over_replicas(rows)
        num_active = self._sum_over_replicas(tf.cast(rows > 0, tf.int32))
        with tf.GradientTape() as tape:
            draws, kl = self._training_draws(rows)
            log_probs, means, regularization, named = self._score_draws(
                x, y, draws, training=True
            )
            nlls = self._nll_of_outputs(named, sample_weight)
            nll = self._nll_of_rows(log_probs, nlls, sample_weight)
            regularization = tf.reduce_mean(regularization)
            shared = tf.cast(self._complexity(kl), nll.dtype) + regularization
            loss = tf.reduce_sum(nll) / tf.cast(all_rows, nll.dtype)
            loss += shared / tf.cast(num_active, nll.dtype)
            scaled_loss = self.optimizer.scale_loss(loss * self._num_trained_networks)
        gradients = tape.gradient(scaled_loss, self.trainable_variables)
        gradients = self._zero_without_rows(gradients, rows)
        self.optimizer.apply(gradients, self.trainable_variables)
        self._track(nll, kl, regularization, rows)
        return self._logs(x, y, means, nlls, sample_weight)

    def test_step(self, data):
        """Scores a batch under the draws that `evaluate` has made."""
        x, y, sample_weight = _unpack(data)
        rows = tf.shape(keras.tree.flatten(x)[0])[0]
        log_probs, means, regularization, named = self._score_draws(
            x, y, self._draws.value(), training=False
        )
        nlls = self._nll_of_outputs(named, sample_weight)
        nll = self._nll_of_rows(log_probs, nlls, sample_weight)
        predictive = -self.likelihood.predictive_log_prob(log_probs)
        # The probability of all outputs at once: a row has the mean of their weights.
        row_weight = _mean_weight(sample_weight)
        self._predictive_nll.update_state(_weighted(predictive, row_weight))
        self._track(nll, self._draws_kl.value(), tf.reduce_mean(regularization), rows)
        return self._logs(x, y, means, nlls, sample_weight)

    def _logs(self, x, y, means, nlls, sample_weight):
        """Feeds the metrics of single outputs and those of `compile`."""
        for name, nll in nlls.items():
            self._output_nlls[name].update_state(nll)
        y_pred = keras.tree.map_structure(lambda t: tf.reduce_mean(t, axis=0), means)
        y = self.likelihood.as_outputs(y, y_pred)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _nll_of_outputs(self, named_log_probs, sample_weight):
        """-log p of each row, averaged over draws and weighted, [B], by the names of
        several outputs; rows may have a weight for each output."""
        weights = [sample_weight] * len(named_log_probs)
        if keras.tree.is_nested(sample_weight) and named_log_probs:
            weights = self.likelihood.flatten(sample_weight)
        return {
            name: _weighted(-tf.reduce_mean(log_probs, axis=0), weight)
            for (name, log_probs), weight in zip(
                named_log_probs.items(), weights, strict=True
            )
        }

    def _nll_of_rows(self, log_probs, nlls, sample_weight):
        """The same of all outputs together, as `loss_weights` weigh them."""
        if not nlls:
            nll = -tf.reduce_mean(log_probs, axis=0)
            return _weighted(nll, _mean_weight(sample_weight))
        weights = self.likelihood.weights_of_outputs
        return tf.add_n(
            [w * nll for w, nll in zip(weights, nlls.values(), strict=True)]
        )

    def _score_draws(self, x, y, draws, training):
        """What a step needs of every draw: log p of each row [S, B], the mean of y
        [S, B, ...], the primary's own losses [S], and log p of each output by name."""

        def score(raw, losses):
            self._has_regularization |= bool(losses)
            values = (
                self.likelihood.log_prob(y, raw),
                self.likelihood.mean(raw),
                tf.add_n([tf.cast(loss, tf.float32) for loss in losses] or [0.0]),
                self.likelihood.named_log_probs(y, raw),
            )
            return keras.tree.map_structure(self._as_result, values)

        names = dict.fromkeys(self._output_nlls, 0)
        structure = (0, self._raw_structure, 0, names)
        return self._over_draws(score, x, draws, training, structure)

    def _as_result(self, values):
        """Casts to the dtype of results: at least float32."""
        return tf.cast(values, self._result_dtype)

    @property
    def _result_dtype(self):
        return tf.float64 if self.compute_dtype == "float64" else tf.float32

    def _sum_over_replicas(self, count):
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return count
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, count)

    def _zero_without_rows(self, gradients, rows):
        """Lets a replica without rows teach nothing.

        Means over its rows, as in batch normalisation, are 0 / 0, and one gradient
        that is NaN would turn the weights of all replicas into NaN.
        """
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return gradients
        return tf.nest.map_structure(
            lambda g: None if g is None else tf.where(rows > 0, g, tf.zeros_like(g)),
            gradients,
            expand_composites=True,
        )

    # -- logs -----------------------------------------------------------------------

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


def _unpack(data):
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if y is None:
        raise ValueError(
            "Training and evaluation need labels: give `y`, or a data set of "
            "`(x, y)` or `(x, y, sample_weight)` batches."
        )
    return x, y, sample_weight


def _mean_weight(sample_weight):
    """One weight for each row, [B] or [B, 1], from one or one for each output."""
    if not keras.tree.is_nested(sample_weight):
        return sample_weight
    leaves = [leaf for leaf in keras.tree.flatten(sample_weight) if leaf is not None]
    weights = [tf.reshape(tf.cast(leaf, tf.float32), [-1]) for leaf in leaves]
    return tf.add_n(weights) / len(weights)


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
