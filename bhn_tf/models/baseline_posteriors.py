"""The posteriors of the baselines: masks of dropout, and members of an ensemble."""

import keras
import tensorflow as tf

from bhn_tf import keras_adapter
from bhn_tf.arguments import asks_for_center
from bhn_tf.layers.dropout import DRAWABLE
from bhn_tf.models.draws import Draws, Posterior, without_values
from bhn_tf.random import stateless_seed


class DropoutPosterior(Posterior):
    """Masks of dropout layers: a draw is one seed for all of them.

    Args:
        network: A network with layers of `layers.dropout`.
    """

    def __init__(self, network):
        super().__init__([network])

    @property
    def dropout_layers(self) -> list:
        """The layers whose masks are drawn."""
        layers = keras_adapter.layers_of(self.network)
        return [layer for layer in layers if self._is_drawn(layer)]

    def draw(self, num_samples, seed):
        if asks_for_center(num_samples):
            # A negative seed means no noise.
            return Draws(tf.constant([[-1, -1]], tf.int32), None)
        seeds = tf.random.stateless_uniform(
            [num_samples, 2], stateless_seed(seed), maxval=tf.int32.max, dtype=tf.int32
        )
        return Draws(seeds, None)

    def outputs(self, x, value, training=None):
        # In training, Keras's own dropout draws a mask for every row.
        if training:
            return self.network(
                keras_adapter.inputs_by_name(self.network, x), training=True
            )
        return super().outputs(x, value, training)

    def values_of(self, value):
        return {
            id(layer): tf.where(value < 0, -1, _folded_seed(value, index))
            for index, layer in enumerate(self.dropout_layers)
        }

    def _is_drawn(self, layer):
        return isinstance(layer, tuple(DRAWABLE.values()))


def _folded_seed(seed, index):
    """A separate seed for each layer; never negative, which would mean no noise."""
    folded = tf.random.experimental.stateless_fold_in(seed, index)
    return tf.bitwise.bitwise_and(folded, tf.int32.max)


class MemberPosterior(Posterior):
    """Networks trained side by side; the members are the draws."""

    def draw(self, num_samples, seed):
        return without_values()

    def num_draws(self, asked):
        return len(self.networks)

    def over_draws(self, function, x, values, training, dtypes):
        results = [
            function(*self._of_member(member, x, training)) for member in self.networks
        ]
        return keras.tree.map_structure(lambda *each: tf.stack(each), *results)

    def _of_member(self, member, x, training):
        x = keras_adapter.inputs_by_name(member, x)
        outputs = member(x) if training is None else member(x, training=training)
        return outputs, member.losses

    def outputs_of_one(self, x, seed, training=None):
        """Returns the raw outputs of the member that a seed draws."""
        index = tf.random.stateless_uniform(
            [], stateless_seed(seed), maxval=len(self.networks), dtype=tf.int32
        )
        return tf.switch_case(
            index,
            [
                lambda member=member: self._of_member(member, x, training)[0]
                for member in self.networks
            ],
        )
