"""Ends training that diverges, before weights of NaN or infinity are saved."""

import keras
import numpy as np
import tensorflow as tf

_TERMS = ("kl", "regularization", "nll", "loss")


class Diverged(FloatingPointError):
    """A term of the loss, or a weight, is no longer finite.

    Attributes:
        epoch: The epoch in which it happened, from 0 on.
        step: The last step made in it, from 0 on.
        term: "nll", "kl", "regularization" or "loss" if that alone broke; "gradient" if
            trained weights broke; "statistics" if other weights did, such as moving
            averages.
    """

    def __init__(self, epoch: int, step: int, term: str):
        super().__init__(
            f"Training diverged in epoch {epoch + 1}, step {step + 1}: "
            f"{_SENTENCES.get(term, f'`{term}` is no number')}. A lower learning rate, "
            "or `clipnorm` in the optimizer, is the usual mend."
        )
        self.epoch, self.step, self.term = epoch, step, term

    def __reduce__(self):
        # By default an exception is pickled with its message, not an argument here.
        return type(self), (self.epoch, self.step, self.term)


_SENTENCES = {
    "gradient": "a gradient has left weights that are no numbers",
    "kl": "the KL, log q(g) - log p(g), is no number",
    "nll": "the negative log-likelihood is no number",
    "statistics": "what a layer remembers of its inputs, such as a moving variance, "
    "is no number",
}


@keras.saving.register_keras_serializable("bhn_tf")
class DivergenceGuard(keras.callbacks.Callback):
    """Raises `Diverged` at the first step whose loss is not finite.

    Keras's `TerminateOnNaN` ends such a training as if it had succeeded, with broken
    weights. Put this one before callbacks that save: they then never see broken
    weights, since all weights are also checked at the end of every epoch.

    Raises:
        Diverged: From `fit`, with the epoch, the step and the term.

    Example:
    ```python
    model.fit(x, y, epochs=50, callbacks=[bhn_tf.callbacks.DivergenceGuard()])
    ```
    """

    def __init__(self):
        super().__init__()
        self._epoch = self._step = 0
        self._watched: list[keras.Variable] = []

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self._step = batch
        logs = logs or {}
        broken = [t for t in _TERMS if t in logs and not np.all(np.isfinite(logs[t]))]
        if not broken:
            return
        # The loss breaks with any of its terms. If two terms break at once, the weights
        # from which both are computed are broken.
        terms = [term for term in broken if term != "loss"]
        is_gradient = {"nll", "kl"} <= set(terms)
        term = "gradient" if is_gradient else (terms or broken)[0]
        raise Diverged(self._epoch, self._step, term)

    def on_train_begin(self, logs=None):
        # Ignores weights that start infinite, such as a mask or a running minimum.
        self._watched = [v for v in self.model.weights if v.trainable or _is_finite(v)]

    def on_epoch_end(self, epoch, logs=None):
        for variable in self._watched:
            if not _is_finite(variable):
                term = "gradient" if variable.trainable else "statistics"
                raise Diverged(epoch, self._step, term)

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _is_finite(variable) -> bool:
    value = tf.convert_to_tensor(variable.value)
    is_number = value.dtype.is_floating
    return not is_number or bool(tf.reduce_all(tf.math.is_finite(value)))
