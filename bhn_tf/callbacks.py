"""Callbacks for training on the bound."""

import keras
import numpy as np
from absl import logging

from bhn_tf.arguments import check_amount, check_count
from bhn_tf.divergence import Diverged, DivergenceGuard
from bhn_tf.posterior_tensorboard import PosteriorTensorBoard

__all__ = ["Diverged", "DivergenceGuard", "KLAnnealing", "PosteriorTensorBoard"]


@keras.saving.register_keras_serializable("bhn_tf")
class KLAnnealing(keras.callbacks.Callback):
    """Moves the weight of the KL from `start` to `end` over the first epochs.

    The weight changes at the start of an epoch, so that the logs of an epoch obey
    `loss = nll + kl_weight · kl / N`.

    The weight of an epoch depends only on its number, so that a resumed run continues
    where it stopped. It holds only for this `fit`, after which the weight set by
    `compile` or by you is restored, however `fit` ends.

    - `start` below 1 brings in the prior slowly: the network learns to predict first
      and becomes uncertain afterwards. It is the usual cure if the posterior collapses
      to the prior; of several modes it may keep only the first it finds.
    - `start` far above 1 (1e2 to 1e4) brings in the likelihood slowly: the posterior
      begins as the prior, which covers all modes, and narrows from there. The weight
      then changes geometrically, since it crosses orders of magnitude. It needs a
      hypernet that starts at the prior, `initial_mean=0.0` and
      `initial_stddev=1.0` for the default one, and should end by half of the training
      if the learning rate decays.

    With `patience` it also ends the training when the bound no longer improves. This
    counts only once the weight has reached its end, as losses under different weights
    cannot be compared; `keras.callbacks.EarlyStopping` on `loss` would stop on the way.
    The bound is `val_loss` if there are validation data, otherwise `loss`: both are
    means over draws, so a few epochs without a gain may be chance. A resumed `fit`
    counts anew.

    Args:
        start: Weight in the first epoch, at least 0.
        end: Weight from epoch `epochs` on; 1 is the evidence lower bound.
        epochs: Number of epochs over which the weight moves; 0 for `end` from the first
            epoch on.
        patience: Epochs without a gain, with weight `end`, after which training stops;
            `None` never stops it.
        min_delta: Decrease of the loss that counts as a gain, in nats per example.

    Attributes:
        stopped_epoch: The epoch, from 0, in which the last `fit` was stopped; `None`
            if it was not.

    Raises:
        ValueError: If a value makes no sense, or the model has no KL to weigh.

    Example:
    ```python
    annealing = KLAnnealing(start=0.0, epochs=5, patience=3)
    model.fit(x, y, epochs=50, callbacks=[annealing])
    ```
    """

    def __init__(
        self,
        start: float,
        end: float = 1.0,
        epochs: int = 10,
        patience: int | None = None,
        min_delta: float = 0.0,
    ):
        super().__init__()
        self.start = check_amount("start", start, may_be_zero=True)
        self.end = check_amount("end", end, may_be_zero=True)
        self.epochs = check_amount("epochs", epochs, may_be_zero=True)
        if 0 < self.epochs < 1:
            raise ValueError(
                f"Expected `epochs` to be 0 or a number of at least 1, got {epochs!r}."
            )
        if patience is not None:
            patience = check_count("patience", patience, minimum=1)
        self.patience = patience
        self.min_delta = check_amount("min_delta", min_delta, may_be_zero=True)
        self.stopped_epoch: int | None = None

    def weight(self, epoch: int) -> float:
        """The weight in epoch `epoch`, counted from 0."""
        progress = min(epoch / self.epochs, 1.0) if self.epochs else 1.0
        if self.start > self.end > 0:
            return float(self.start * (self.end / self.start) ** progress)
        return float(self.start + (self.end - self.start) * progress)

    def on_train_begin(self, logs=None):
        if not hasattr(self.model, "kl_weight"):
            raise ValueError(
                "`KLAnnealing` needs a model that is trained on the bound, such as "
                f"`BayesianHypernet`; {type(self.model).__name__} has no KL."
            )
        self.stopped_epoch = None
        self._watched, self._least, self._num_without_gain = "loss", np.inf, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.model.kl_weight = self.weight(epoch)

    def on_epoch_end(self, epoch, logs=None):
        if self.patience is None or epoch < self.epochs:
            return
        logs = logs or {}
        if "val_loss" in logs and self._watched == "loss":
            # `val_loss` is of other rows, so counting begins anew. With
            # `validation_freq`, epochs without validation are then skipped.
            self._watched, self._least, self._num_without_gain = "val_loss", np.inf, 0
        if self._watched not in logs:
            return
        loss = logs[self._watched]
        if loss < self._least - self.min_delta:
            self._least, self._num_without_gain = loss, 0
            return
        self._num_without_gain += 1
        if self._num_without_gain >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            logging.info(
                "KLAnnealing stops the training after epoch %s: the bound has not "
                "gained for %s epochs.",
                epoch + 1,
                self.patience,
            )

    def get_config(self):
        return {
            "start": self.start,
            "end": self.end,
            "epochs": self.epochs,
            "patience": self.patience,
            "min_delta": self.min_delta,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)
