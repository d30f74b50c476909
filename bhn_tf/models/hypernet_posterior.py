"""The posterior of a hypernet: scales of the primary network, generated together."""

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bhn_tf import keras_adapter
from bhn_tf.arguments import asks_for_center
from bhn_tf.layers.random_layer import RandomLayer, is_restricted
from bhn_tf.models import ownership
from bhn_tf.models.draws import Draws, Posterior
from bhn_tf.models.read_values import ReadValues
from bhn_tf.models.unread_values import UnreadValues
from bhn_tf.user_warnings import warn_user


class HypernetPosterior(Posterior):
    """Scales `g = h(ε)` of a primary network, drawn by a hypernet.

    Args:
        primary: The network, with its weights.
        hypernet: A `hypernets.Hypernet`, to be built for this network's D.
        noise: A `NoiseState`, the noise of training.

    Attributes:
        num_random: D; `None` before the layers are taken over.
        layers: The layers with generated values, in the order of g.
        variables: The variables that are generated, in the order of g.
        initial_values: Their values when they became random.
    """

    def __init__(self, primary, hypernet, noise):
        super().__init__([primary])
        self.hypernet, self._noise = hypernet, noise
        self.num_random = None
        self.layers, self.variables, self._offsets = [], [], [0]
        self.initial_values: list[np.ndarray] = []
        self._unread_values: UnreadValues | None = None
        self._read_values = ReadValues([])

    def take_over(self, layers) -> None:
        """Generates the values of layers from now on, and builds the hypernet.

        μ starts at the primary's scales.

        Args:
            layers: The layers of the primary, with their weights, in their order.

        Raises:
            ValueError: If the hypernet was built for another number of values, or
                belongs to another model.
        """
        self.layers = [layer for layer in layers if isinstance(layer, RandomLayer)]
        self._read_values = ReadValues(self.layers)
        for layer in self.layers:
            layer.hand_over()
            self.variables += layer.generated_weights
        self._warn_of_restrictions()
        self.initial_values = [
            keras.ops.convert_to_numpy(variable).ravel() for variable in self.variables
        ]
        sizes = [values.size for values in self.initial_values]
        self._offsets = [0, *np.cumsum(sizes, dtype=int).tolist()]
        self.num_random = self._offsets[-1]
        if not self.layers:
            logging.warning(
                "The network %r has none of the layers of `bhn_tf.layers`, so nothing "
                "in it is random (D = 0), and all draws are the same. "
                "`bhn_tf.from_keras(network)` converts a network of Keras's layers.",
                self.network.name,
            )
        if not self.num_random:
            return
        ownership.refuse_part_of_another(self.hypernet, self, "hypernet", "posterior")
        is_new = not self.hypernet.built
        if is_new:
            self.hypernet.take_layer_sizes([each.num_random for each in self.layers])
            self.hypernet.build((None, self.num_random))
            self.hypernet.start_at(np.concatenate(self.initial_values))
            keras_adapter.freeze_parts_of_frozen(self.hypernet)
        elif self.hypernet.event_size != self.num_random:
            raise ValueError(
                f"The given hypernet generates {self.hypernet.event_size} values, and "
                f"the network has {self.num_random}. Give a new instance."
            )
        if self.hypernet.initial_mean is None:
            self._unread_values = UnreadValues(self)

    def refuse_changed_network(self) -> None:
        """Refuses a network whose layers with generated values have changed.

        Raises:
            ValueError: If they are not the layers that were taken over.
        """
        layers = keras_adapter.layers_of(self.network)
        now = [layer for layer in layers if isinstance(layer, RandomLayer)]
        if list(map(id, now)) != list(map(id, self.layers)):
            raise ValueError(
                "The network was changed after the model was made of it: its layers "
                f"with generated values were {[layer.name for layer in self.layers]}, "
                f"and are {[layer.name for layer in now]}. Make a new model of it."
            )

    def own_hypernet(self) -> None:
        """Claims the hypernet, so that no other model can take it."""
        ownership.claim(self.hypernet, self)

    def warn_of_unread_values(self) -> None:
        """Warns of values set in the network that nothing reads: they are generated."""
        if self._unread_values is not None:
            self._unread_values.warn()

    def note_unread_values(self) -> None:
        """Notes the network's values after training, which may have set them."""
        if self._unread_values is not None:
            self._unread_values.note()

    def _warn_of_restrictions(self):
        restricted = [
            f"{layer.name}/{variable.name}"
            for layer in self.layers
            for variable in layer.generated_weights
            if is_restricted(variable)
        ]
        if restricted:
            warn_user(
                f"Regularizers and constraints of {restricted} have no effect: a "
                "hypernet generates these values, and the prior regularises them.",
            )

    def draw(self, num_samples, seed):
        if not self.num_random:
            return Draws(tf.zeros([1, 0]), tf.zeros([1]))
        if asks_for_center(num_samples):
            noise = tf.zeros([1, self.num_random])
            return Draws(*self.hypernet.transform(noise))
        return Draws(*self.hypernet.sample_and_log_prob(num_samples, seed))

    def draw_for_training(self, num_samples, rows, groups=None):
        if not self.num_random:
            return Draws(tf.zeros([1, 0]), tf.zeros([1]))
        if rows is None:
            num_each = 1
        else:
            self.require_scales_per_row("`per_example_noise`")
            num_each = rows if groups is None else groups
        values, log_prob = self.hypernet.sample_and_log_prob(
            num_samples * num_each, self._noise.next_seed()
        )
        if rows is None:
            return Draws(values, log_prob)
        values = tf.reshape(values, [num_samples, num_each, self.num_random])
        log_prob = tf.reshape(log_prob, [num_samples, num_each])
        if groups is not None:
            # Row b has draw b mod K, so that group sizes differ by at most 1.
            group = tf.range(rows) % groups
            values = tf.gather(values, group, axis=1)
            log_prob = tf.gather(log_prob, group, axis=1)
        return Draws(values, log_prob)

    def outputs(self, x, value, training=None):
        raw = super().outputs(x, value, training)
        if training:
            self._read_values.warn()
        return raw

    def draw_one(self) -> tf.Tensor:
        """Returns one g of the training noise, [D]."""
        return self.draw_for_training(1, None).values[0]

    def values_of(self, value):
        """Cuts g [D] or [B, D] into the values of the generated variables."""
        if not self.num_random:
            return {}
        leading = [-1] if value.shape.rank == 2 else []
        values = {
            id(variable): tf.reshape(
                value[..., start:stop], leading + list(variable.shape)
            )
            for variable, start, stop in zip(
                self.variables, self._offsets[:-1], self._offsets[1:], strict=True
            )
        }
        return self._read_values.noted(values)

    def require_scales_per_row(self, asked_by: str) -> None:
        """Raises `ValueError` where rows cannot have draws of their own."""
        for layer in self.layers:
            if not layer.supports_scales_per_row:
                raise ValueError(
                    f"{asked_by} would need a kernel for each row in "
                    f"layer {layer.name!r}, which generates its kernel. Use one draw "
                    "for all rows, or `random='scale'`."
                )

    def slice_of(self, variable) -> slice | None:
        """Where the values of a variable are in g; `None` if it is not generated."""
        for index, generated in enumerate(self.variables):
            if generated is variable:
                return slice(self._offsets[index], self._offsets[index + 1])
        return None

    def by_layer(self, values: np.ndarray) -> list[np.ndarray]:
        """Cuts [..., D] into the values of each layer, in the order of g."""
        stops = np.cumsum([layer.num_random for layer in self.layers], dtype=int)
        parts = np.split(values, stops[:-1].tolist(), axis=-1)
        return parts[: len(self.layers)]

    def _is_drawn(self, layer):
        return any(layer is drawn and drawn.num_random for drawn in self.layers)
