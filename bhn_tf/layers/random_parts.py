"""The base of layers made of parts whose weights a hypernet may generate."""

import keras

from bhn_tf import keras_adapter
from bhn_tf.layers.random_layer import RandomLayer, generates_kernel
from bhn_tf.layers.weight_norm import WeightNorm


class RandomParts:
    """Mixin before a Keras layer that consists of weight-normalised ones.

    A model finds the parts and generates their values by itself; this layer only says
    how they are made.

    Args:
        random: What a hypernet generates for the parts, as in all weight-normalised
            layers.
        scale_initializer: Initial scales; `None` for the norms of the drawn kernels.

    Raises:
        ValueError: If `random` is none of `MODES`.
    """

    MODES = tuple(WeightNorm.GENERATED)

    # Provided by the Keras layer.
    built: bool
    name: str

    def __init__(self, *args, random="scale", scale_initializer=None, **kwargs):
        if random not in self.MODES:
            raise ValueError(
                f"Expected `random` to be one of {sorted(self.MODES)}, got {random!r}."
            )
        super().__init__(*args, **kwargs)
        self.random = random
        self.scale_initializer = keras.initializers.get(scale_initializer)

    @property
    def random_parts(self) -> list[RandomLayer]:
        """The layers inside that share in D, in the order of g."""
        if not self.built:
            raise ValueError(
                f"Layer {self.name!r} has no weights yet; build it or call it on data."
            )
        inside = keras_adapter.layers_of(self)
        return [layer for layer in inside if isinstance(layer, RandomLayer)]

    @property
    def generated_weights(self) -> list:
        """The variables that a hypernet generates for the parts, in order of g."""
        return [v for part in self.random_parts for v in part.generated_weights]

    @property
    def num_random(self) -> int:
        """The layer's share of D, the sum over its parts."""
        return sum(part.num_random for part in self.random_parts)

    @property
    def supports_scales_per_row(self) -> bool:
        """Whether every row can have a draw of its own."""
        return not generates_kernel(self.random)

    def fold_into(self, layer) -> None:
        """As `RandomLayer.fold_into`, for parts that the Keras layer does not have.

        Args:
            layer: A built layer of the Keras class that this one derives from; parts
                that it has too are folded into one by one elsewhere.
        """

    def hand_over(self) -> None:
        """Leaves the generated weights of all parts to a hypernet."""
        for part in self.random_parts:
            part.hand_over()

    def get_config(self):
        return {
            **super().get_config(),
            "random": self.random,
            "scale_initializer": keras.initializers.serialize(self.scale_initializer),
        }
