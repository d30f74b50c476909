"""Shows in TensorBoard how a posterior changes while it is trained."""

import functools
import os

import keras
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.data_feeds import feed_of
from bhn_tf.environment import require
from bhn_tf.models.batch_scores import Batch, score_batch
from bhn_tf.networks.paths import layer_paths
from bhn_tf.random import stateless_seed


@keras.saving.register_keras_serializable("bhn_tf")
class PosteriorTensorBoard(keras.callbacks.Callback):
    """Writes the terms of the bound and the spread of every layer to TensorBoard.

    At the end of an epoch it writes, under the epoch's number:

    - `bound/kl` and `bound/kl_weight`, as the epoch's logs have them;
    - `posterior/<layer>/mean` and `posterior/<layer>/std`: mean and standard deviation,
      over draws, of the values generated for a layer, averaged over these values, and
      histograms of both, one entry a value; a layer of a nested network is
      `outer/inner`;
    - given a batch, `gradient_norm/likelihood`, `gradient_norm/prior` and
      `gradient_norm/entropy`: gradients, by the hypernet's weights, of the three terms
      whose sum is the loss. With N examples and the KL weight w, the terms are `nll`,
      `-w E[log p(g)] / N` and `w E[log q(g)] / N`. At the end of training their
      gradients balance; in a posterior that collapses to the prior, the likelihood
      has no gradient.

    The callback has its own seeds, uses no dropout and leaves statistics as they are,
    so that training is the same as without it. Its files are in the sub-folder
    `posterior` of `log_dir`, beside those of `keras.callbacks.TensorBoard`.

    Args:
        log_dir: The folder that TensorBoard reads.
        x, y: A batch of training data, for the norms of gradients.
        num_samples: S, the number of draws for these measurements.
        every: Epochs from one writing to the next.
        seed: Seed of the draws.

    Raises:
        ImportError: If the package `tensorboard` is not installed.
        ValueError: If only one of `x` and `y` is given, a number makes no sense, or
            the model has no generated values.

    Example:
    ```python
    watch = bhn_tf.callbacks.PosteriorTensorBoard("logs", x[:256], y[:256])
    model.fit(x, y, epochs=5, callbacks=[watch, keras.callbacks.TensorBoard("logs")])
    ```
    """

    def __init__(
        self, log_dir, x=None, y=None, num_samples: int = 32, every: int = 1, seed=0
    ):
        super().__init__()
        require("tensorboard", "tensorboard")
        if (x is None) != (y is None):
            raise ValueError(
                "Norms of gradients need a batch of inputs and of labels: give both "
                "`x` and `y`, or neither."
            )
        self.log_dir = os.fspath(log_dir)
        self.num_samples = check_count("num_samples", num_samples, minimum=1)
        self.every = check_count("every", every, minimum=1)
        if seed is not None:
            stateless_seed(seed)
            seed = int(seed)
        self.seed = seed
        self._batch = None if x is None else feed_of(x, y)
        self._writer = None
        self._compiled_norms = None

    def on_train_begin(self, logs=None):
        if not getattr(self.model, "num_random", None):
            raise ValueError(
                "`PosteriorTensorBoard` needs a model with generated values, such as "
                f"`BayesianHypernet`; {type(self.model).__name__} has none."
            )
        if self._batch is not None:
            self.model.check_data(self._batch.x, self._batch.y)
            feed = self._batch.as_tensors()
            norms = functools.partial(self._gradient_norms, Batch.of((feed.x, feed.y)))
            # Compiled, since a loop over the draws is slow in Python.
            self._compiled_norms = tf.function(norms, autograph=False)
        # Made only when training begins, since it opens a file.
        folder = os.path.join(self.log_dir, "posterior")
        self._writer = tf.summary.create_file_writer(folder)

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        scalars = {f"bound/{name}": logs[name] for name in ("kl", "kl_weight")}
        if self._compiled_norms is not None:
            for name, norm in self._compiled_norms().items():
                scalars[f"gradient_norm/{name}"] = norm
        with self._writer.as_default(step=epoch):
            for layer, (mean, stddev) in self._spread().items():
                for name, values in (("mean", mean), ("std", stddev)):
                    tag = f"posterior/{layer}/{name}"
                    scalars[tag] = tf.reduce_mean(values)
                    tf.summary.histogram(f"{tag}_of_each", values)
            for tag, value in scalars.items():
                tf.summary.scalar(tag, value)
        self._writer.flush()

    def on_train_end(self, logs=None):
        self._writer.close()

    def _draws(self):
        return self.model.posterior.draw(self.num_samples, self.seed)

    def _spread(self) -> dict:
        """Mean and standard deviation of each value, by the layer's path."""
        posterior = self.model.posterior
        mean, variance = tf.nn.moments(self._draws().values, axes=0)
        of_layers = map(posterior.by_layer, (mean.numpy(), tf.sqrt(variance).numpy()))
        paths, found = layer_paths(self.model.primary), {}
        for layer, *spread in zip(posterior.layers, *of_layers, strict=True):
            if layer.num_random:
                name = paths[layer]
                while name in found:
                    # Layers of a subclassed network may share a name.
                    name += "_"
                found[name] = spread
        return found

    def _gradient_norms(self, batch: Batch) -> dict:
        """Norms of the gradients of the loss's terms, by the hypernet's weights."""
        model, bound = self.model, self.model.objective
        with tf.GradientTape(persistent=True) as tape:
            draws = self._draws()
            scores = score_batch(
                model.posterior,
                model.likelihood,
                model.raw_outputs,
                batch,
                draws.values,
                training=False,
            )
            nll = bound.terms(scores, batch, draws, training=True).nll
            log_prior = bound.prior.log_prob(draws.values)
            terms = {
                "likelihood": tf.reduce_mean(nll),
                "prior": bound.complexity(-tf.reduce_mean(log_prior)),
                "entropy": bound.complexity(tf.reduce_mean(draws.log_prob)),
            }
        variables = model.hypernet.trainable_variables
        return {
            name: tf.linalg.global_norm(
                [g for g in tape.gradient(term, variables) if g is not None]
            )
            for name, term in terms.items()
        }

    def get_config(self):
        return {
            "log_dir": self.log_dir,
            "num_samples": self.num_samples,
            "every": self.every,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)
