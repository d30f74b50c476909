"""Looking at the posterior: its draws as numbers and as networks."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_count
from bhn_tf.networks.copying import (
    carry_state,
    copy_network,
    fresh_layer,
    is_graph,
    pairs,
)


class PosteriorDraws:
    """Mixin of `BayesianHypernet`: draws of g, and what is random."""

    def sample_scales(self, num_samples: int, seed: int | None = None) -> np.ndarray:
        """Returns draws of all generated values.

        Args:
            num_samples: S.
            seed: A non-negative integer for the same draws every time: those that
                `predict` and `evaluate` make from the same number and seed.

        Returns:
            Array [S, D], float32.

        Example:
        ```python
        np.corrcoef(model.sample_scales(1000).T)  # the posterior's dependencies
        ```
        """
        check_count("num_samples", num_samples, minimum=1)
        self._require_built()
        if not self.num_random:
            return np.zeros([num_samples, 0], "float32")
        return self._draw(num_samples, seed)[0].numpy()

    def draw(self, seed: int | None = None, scales=None) -> keras.Model:
        """Returns one plausible network, an ordinary deterministic Keras model.

        Args:
            seed: A non-negative integer for the same draw every time.
            scales: g of shape [D], instead of a new draw.

        Returns:
            A copy of the primary with the draw in its weights; it shares nothing
            with this model.

        Example:
        ```python
        network = model.draw(seed=1)
        network.predict(x)  # raw outputs
        ```
        """
        self._require_built()
        if scales is None:
            scales = self.sample_scales(1, seed)[0]
        scales = np.asarray(scales, "float32")
        if scales.shape != (self.num_random,):
            raise ValueError(
                f"Expected `scales` of shape [{self.num_random}], got {scales.shape}."
            )
        values = self._slices(tf.constant(scales))

        def carry_draw(layer, copied):
            carry_state(layer, copied)
            for old, new in pairs(layer, copied):
                for variable, target in zip(
                    getattr(old, "generated_weights", ()),
                    getattr(new, "generated_weights", ()),
                    strict=True,
                ):
                    target.assign(values[id(variable)])

        if is_graph(self.primary):
            return copy_network(self.primary, fresh_layer, carry_draw)[self.primary]
        network = fresh_layer(self.primary)
        if not network.built:
            network.build_from_config(self.primary.get_build_config())
        carry_draw(self.primary, network)
        return network

    def summary(self, *args, print_fn=None, **kwargs):
        """Prints the Keras summary, D, the hypernet's share and what is random."""
        super().summary(*args, print_fn=print_fn, **kwargs)
        if not self.built:
            return
        write = print_fn or print
        total, share = (
            self.count_params(),
            self.hypernet.count_params() if self.num_random else 0,
        )
        write(
            f" D = {self.num_random} generated values; the hypernet "
            f"({type(self.hypernet).__name__}) holds {share:,} of {total:,} weights."
        )
        for layer in self.primary._flatten_layers():
            if hasattr(layer, "generated_weights"):
                write(f"   {layer.path}: random={layer.random!r}, {layer.num_random}")
