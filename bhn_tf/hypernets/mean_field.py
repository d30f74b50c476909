"""The hypernet without flow layers."""

import keras

from bhn_tf.hypernets.hypernet import Hypernet


@keras.saving.register_keras_serializable("bhn_tf")
class MeanField(Hypernet):
    """Independent Gaussians: a hypernet without flow layers (L = 0).

    Over whole kernels and biases this is Bayes by Backprop (Blundell et al. 2015).

    Args:
        initial_stddev: Initial standard deviation of every value.
        initial_mean: Initial mean; `None` for the primary's scales.

    Example:
    ```python
    model = bhn_tf.BayesianHypernet(primary, hypernet=bhn_tf.hypernets.MeanField())
    ```
    """

    def make_flow_steps(self, event_size):
        return []
