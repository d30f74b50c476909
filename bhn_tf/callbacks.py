"""Callbacks for training on the bound."""

import keras
import numpy as np

from bhn_tf.divergence import Diverged, DivergenceGuard

__all__ = ["Diverged", "DivergenceGuard", "KLAnnealing"]


@keras.saving.register_keras_serializable("bhn_tf")
class KLAnnealing(keras.callbacks.Callback):
    """Moves the weight of the KL from `start` to `end` over the first epochs.

    The weight changes at the start of an epoch, so that the logs of an epoch obey
    `loss = nll + kl_weight · kl / N`.

    The weight of an epoch follows from its number alone, so that a run which is
    resumed goes on where it stood. It holds for this `fit` only, which ends, however it
    ends, with the weight that `compile` or you have set.

    - `start` below 1 brings the prior in slowly: the network learns to predict first
      and becomes uncertain afterwards. It is the usual cure where the posterior
      collapses to the prior; of several modes it may keep only the first it finds.
    - `start` far above 1 (1e2 to 1e4) brings the likelihood in slowly: the posterior
      begins as the prior, which covers all modes, and is cut down from there. The way
      is then geometric, since the weight crosses orders of magnitude. It needs a
      hypernet that starts at the prior, `initial_mean=0.0` and
      `initial_stddev=1.0` for the default one, and should end by half of the training
      where the learning rate decays.

    Args:
        start: Weight in the first epoch, at least 0.
        end: Weight from epoch `epochs` on; 1 is the evidence lower bound.
        epochs: Number of epochs over which the weight moves.

    Raises:
        ValueError: If a value makes no sense, or the model has no KL to weigh.

    Example:
    ```python
    model.fit(x, y, epochs=50, callbacks=[KLAnnealing(start=0.0, epochs=25)])
    ```
    """

    def __init__(self, start: float, end: float = 1.0, epochs: int = 10):
        super().__init__()
        for name, value in (("start", start), ("end", end)):
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(
                    f"Expected `{name}` to be a number of at least 0, got {value!r}."
                )
        if epochs < 1:
            raise ValueError(f"Expected `epochs` to be at least 1, got {epochs!r}.")
        self.start = start
        self.end = end
        self.epochs = epochs

    def weight(self, epoch: int) -> float:
        """The weight in epoch `epoch`, counted from 0."""
        progress = min(epoch / self.epochs, 1.0)
        if self.start > self.end > 0:
            return float(self.start * (self.end / self.start) ** progress)
        return float(self.start + (self.end - self.start) * progress)

    def on_train_begin(self, logs=None):
        if not hasattr(self.model, "kl_weight"):
            raise ValueError(
                "`KLAnnealing` needs a model that is trained on the bound, such as "
                f"`BayesianHypernet`; {type(self.model).__name__} has no KL."
            )

    def on_epoch_begin(self, epoch, logs=None):
        self.model.kl_weight = self.weight(epoch)

    def get_config(self):
        return {"start": self.start, "end": self.end, "epochs": self.epochs}

    @classmethod
    def from_config(cls, config):
        return cls(**config)
