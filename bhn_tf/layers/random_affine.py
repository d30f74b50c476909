"""The base of normalisations whose scale and shift a hypernet may generate."""

from typing import Any, ClassVar

from bhn_tf.layers.generated import over_axes
from bhn_tf.layers.random_layer import RandomLayer


class RandomAffine(RandomLayer):
    """Mixin before a Keras normalisation: γ, and optionally β, come from the hypernet.

    Keras normalises; scale and shift are applied here, and may differ from row to row.

    Args:
        random: "scale" (γ, the default), "scale_and_bias" (γ and β) or "none".
        scale: Whether there is a γ.
        center: Whether there is a β.
    """

    GENERATED: ClassVar = {
        "none": (),
        "scale": ("gamma",),
        "scale_and_bias": ("gamma", "beta"),
    }

    # Provided by the Keras layer.
    add_weight: Any
    axis: Any
    gamma_initializer: Any
    gamma_regularizer: Any
    gamma_constraint: Any
    beta_initializer: Any
    beta_regularizer: Any
    beta_constraint: Any

    def __init__(self, *args, random="scale", scale=True, center=True, **kwargs):
        super().__init__(*args, random=random, scale=False, center=False, **kwargs)
        self._has_scale = scale
        self._has_center = center
        if (random != "none" and not scale) or (
            random == "scale_and_bias" and not center
        ):
            raise ValueError(
                f"`random={random!r}` generates what `scale={scale}` and "
                f"`center={center}` leave out: γ is there with `scale=True`, β with "
                "`center=True`. `random='none'` generates nothing."
            )

    def _add_affine(self, shape) -> None:
        """Makes γ and β of the given shape; for `build`."""
        self.gamma = self.beta = None
        if self._has_scale:
            self.gamma = self.add_weight(
                name="gamma",
                shape=shape,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
                autocast=False,
            )
        if self._has_center:
            self.beta = self.add_weight(
                name="beta",
                shape=shape,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
                autocast=False,
            )

    def _scaled_and_shifted(self, outputs):
        """Applies γ and β to normalised values."""
        if self.gamma is not None:
            outputs *= over_axes(self.gamma, self.axis, outputs)
        if self.beta is not None:
            outputs += over_axes(self.beta, self.axis, outputs)
        return outputs

    def get_config(self):
        config = super().get_config()
        return {**config, "scale": self._has_scale, "center": self._has_center}
