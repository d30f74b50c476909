"""The terms of the loss, and their means over the examples of an epoch."""

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf


class Terms(NamedTuple):
    """The terms of the loss for one batch.

    Attributes:
        nll: The nll of each row, weighted by `loss_weights` and sample weights, [B].
        named_nll: The nll of each row by output name, if there are several outputs,
            weighted by sample weights alone.
        predictive_nll: -log of the mean probability of each row, [B]; `None` in
            training.
        kl: In nats, over all D values; `None` without a KL.
        regularization: The networks' own losses, a scalar.
    """

    nll: tf.Tensor
    named_nll: dict[str, tf.Tensor]
    predictive_nll: tf.Tensor | None
    kl: tf.Tensor | None
    regularization: tf.Tensor


class Trackers:
    """Means of the terms over the examples of an epoch, and what follows from them.

    Args:
        output_names: Names of several outputs; empty for a single one.
        complexity: Maps the mean KL to each example's share.
        kl_weight: Returns the weight of the KL; `None` for an objective without a KL.
    """

    def __init__(self, output_names, complexity, kl_weight=None):
        self.nll = _mean("nll")
        self._predictive_nll = _mean("predictive_nll")
        self._regularization = _mean("regularization")
        self._outputs = {name: _mean(f"{name}_nll") for name in output_names}
        self._kl = _mean("kl") if kl_weight is not None else None
        self._kl_weight = _Derived("kl_weight", kl_weight)
        self._complexity = complexity
        self.loss = _Derived("loss", self._loss)
        self.has_regularization = False

    def update(self, terms: Terms, num_rows) -> None:
        """Adds one value for each row.

        Epochs are thus means over examples, and a replica without rows adds nothing.
        """
        self.nll.update_state(terms.nll)
        self._regularization.update_state(tf.fill([num_rows], terms.regularization))
        if self._kl is not None:
            self._kl.update_state(tf.fill([num_rows], terms.kl))
        if terms.predictive_nll is not None:
            self._predictive_nll.update_state(terms.predictive_nll)
        for name, nll in terms.named_nll.items():
            self._outputs[name].update_state(nll)

    def _loss(self):
        loss = self.nll.result()
        if self._kl is not None:
            loss += self._complexity(self._kl.result())
        if self.has_regularization:
            loss += self._regularization.result()
        return loss

    def shown(self, is_evaluation: bool) -> list[keras.metrics.Metric]:
        """Returns the trackers that appear in logs after `loss`."""
        trackers = [self.nll]
        if is_evaluation:
            trackers.append(self._predictive_nll)
        if self.has_regularization:
            trackers.append(self._regularization)
        if self._kl is not None:
            trackers += [self._kl, self._kl_weight]
        return trackers + list(self._outputs.values())

    @property
    def num_rows(self) -> float:
        """The number of examples counted."""
        return float(keras.ops.convert_to_numpy(self.nll.count))


class _Derived(keras.metrics.Metric):
    """A logged value computed from others, such as the loss from its terms.

    Computed from means, it satisfies their identity exactly; a separate mean would only
    approximate it.
    """

    def __init__(self, name: str, value: Callable | None):
        super().__init__(name=name, dtype="float32")
        self._value = value

    def update_state(self, *args, **kwargs):
        """Does nothing: there is no state of its own."""

    def result(self):
        # Always a tensor, because an eager step cannot return a variable.
        return tf.convert_to_tensor(self._value(), "float32")


def _mean(name: str) -> keras.metrics.Mean:
    return keras.metrics.Mean(name=name, dtype="float32")
