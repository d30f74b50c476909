"""Posteriors over networks: how one is drawn, and what it answers.

A model asks its posterior for draws and for the raw outputs of each. Only the
posterior knows what a draw consists of: scales from a hypernet, a seed of dropout or a
member of an ensemble.
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.layers.generated import generated_values
from bhn_tf.models.draw_loop import over_draws
from bhn_tf.models.shared_prefix import network_of_draws


class Draws(NamedTuple):
    """Draws of networks.

    Attributes:
        values: What distinguishes the networks, [S, ...], or [S, B, ...] with a network
            for each row.
        log_prob: log q of each, [S] or [S, B]; `None` where q has no density.
    """

    values: tf.Tensor
    log_prob: tf.Tensor | None


def without_values() -> Draws:
    """Returns the only draw of a posterior over a single network."""
    return Draws(tf.zeros([1, 0]), None)


class Posterior:
    """A distribution over networks that are drawn.

    Args:
        networks: The networks to be trained, with outputs of the same kind.
    """

    def __init__(self, networks: list[keras.Model]):
        self.networks = networks

    @property
    def network(self) -> keras.Model:
        """The network that stands for all in what they take and return."""
        return self.networks[0]

    def draw(self, num_samples, seed) -> Draws:
        """Returns draws of the networks.

        Args:
            num_samples: S; 0 for the one draw at the centre.
            seed: A non-negative integer for the same draws every time, or `None`.
        """
        raise NotImplementedError

    def num_draws(self, asked: int) -> int:
        """Returns how many networks answer when S draws are asked for."""
        return asked

    def draw_for_training(self, num_samples: int, rows, groups=None) -> Draws:
        """Returns the draws of a training step.

        By default the networks train as they are, with the noise of Keras's layers.

        Args:
            num_samples: S.
            rows: Number of rows; `None` if they all share a draw.
            groups: Number of groups of rows that share a draw; `None` for a draw for
                each row.
        """
        return without_values()

    def over_draws(self, function, x, values, training: bool, dtypes):
        """Stacks what `function` computes from the raw outputs of every draw.

        Args:
            function: Maps raw outputs and the network's own losses to tensors.
            x: Inputs, rows first.
            values: `Draws.values`.
            training: Whether dropout and batch normalisation are to train.
            dtypes: Dtypes of the results, in their structure.

        Returns:
            The results, each with a leading axis of S.
        """
        evaluate = self._evaluation(x, training)
        # The same for all draws; inside their loop Keras would not find them.
        weight_losses = keras_adapter.weight_losses(self.network)

        def of_one(value):
            raw, losses = evaluate(value)
            return function(raw, losses + weight_losses)

        return over_draws(
            of_one,
            values,
            keras_adapter.moving_variables(self.network, training),
            keras_adapter.seed_variables(self.network) if training else [],
            keras_adapter.metric_variables(self.network),
            dtypes,
        )

    def _evaluation(self, x, training) -> Callable:
        """Maps a draw to the raw outputs for `x` and what layers add to the loss."""
        if not training:
            return network_of_draws(self.network, x, self._is_drawn, self.values_of)

        def evaluate(value):
            raw = self.outputs(x, value, training)
            return raw, keras_adapter.own_losses(self.network)

        return evaluate

    def outputs(self, x, value, training=None):
        """Returns the raw outputs of one network, [B, ...].

        Args:
            x: Inputs, rows first.
            value: One of `Draws.values`.
            training: For the layers of the network.
        """
        x = keras_adapter.inputs_by_name(self.network, x)
        with generated_values(self.values_of(value)):
            if training is None:
                return self.network(x)
            return self.network(x, training=training)

    def values_of(self, value) -> dict:
        """What a draw gives the layers; see `layers.generated`."""
        return {}

    def _is_drawn(self, layer) -> bool:
        """Whether a layer differs from draw to draw."""
        return False


class PointPosterior(Posterior):
    """One network as it is, its only draw."""

    def draw(self, num_samples, seed):
        return without_values()

    def num_draws(self, asked):
        return 1
