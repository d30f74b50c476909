"""Weight-normalised twins of Keras layers."""

from bhn_tf.layers.conv import WeightNormConv1D, WeightNormConv2D, WeightNormConv3D
from bhn_tf.layers.dense import WeightNormDense

__all__ = [
    "WeightNormConv1D",
    "WeightNormConv2D",
    "WeightNormConv3D",
    "WeightNormDense",
]
