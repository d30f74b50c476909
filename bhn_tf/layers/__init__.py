"""Weight-normalised twins of Keras layers, and dropout that can be drawn."""

from bhn_tf.layers.conv import WeightNormConv1D, WeightNormConv2D, WeightNormConv3D
from bhn_tf.layers.dense import WeightNormDense
from bhn_tf.layers.dropout import (
    MonteCarloDropout,
    MonteCarloSpatialDropout1D,
    MonteCarloSpatialDropout2D,
    MonteCarloSpatialDropout3D,
)

__all__ = [
    "MonteCarloDropout",
    "MonteCarloSpatialDropout1D",
    "MonteCarloSpatialDropout2D",
    "MonteCarloSpatialDropout3D",
    "WeightNormConv1D",
    "WeightNormConv2D",
    "WeightNormConv3D",
    "WeightNormDense",
]
