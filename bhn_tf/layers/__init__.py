"""Weight-normalised twins of Keras layers, and drawable dropout."""

from bhn_tf.layers.attention import (
    WeightNormGroupQueryAttention,
    WeightNormMultiHeadAttention,
)
from bhn_tf.layers.batch_normalization import (
    BatchNormalization,
)
from bhn_tf.layers.conv import (
    WeightNormConv1D,
    WeightNormConv2D,
    WeightNormConv3D,
)
from bhn_tf.layers.conv_lstm import (
    WeightNormConvLSTM1D,
    WeightNormConvLSTM2D,
    WeightNormConvLSTM3D,
)
from bhn_tf.layers.conv_transpose import (
    WeightNormConv1DTranspose,
    WeightNormConv2DTranspose,
    WeightNormConv3DTranspose,
)
from bhn_tf.layers.dense import (
    WeightNormDense,
)
from bhn_tf.layers.depthwise_conv import (
    WeightNormDepthwiseConv1D,
    WeightNormDepthwiseConv2D,
)
from bhn_tf.layers.dropout import (
    MonteCarloDropout,
    MonteCarloSpatialDropout1D,
    MonteCarloSpatialDropout2D,
    MonteCarloSpatialDropout3D,
)
from bhn_tf.layers.einsum_dense import (
    WeightNormEinsumDense,
)
from bhn_tf.layers.embedding import (
    WeightNormEmbedding,
)
from bhn_tf.layers.normalization import (
    GroupNormalization,
    LayerNormalization,
    RMSNormalization,
)
from bhn_tf.layers.recurrent import (
    WeightNormGRU,
    WeightNormLSTM,
    WeightNormSimpleRNN,
)
from bhn_tf.layers.separable_conv import (
    WeightNormSeparableConv1D,
    WeightNormSeparableConv2D,
)

__all__ = [
    "BatchNormalization",
    "GroupNormalization",
    "LayerNormalization",
    "MonteCarloDropout",
    "MonteCarloSpatialDropout1D",
    "MonteCarloSpatialDropout2D",
    "MonteCarloSpatialDropout3D",
    "RMSNormalization",
    "WeightNormConv1D",
    "WeightNormConv1DTranspose",
    "WeightNormConv2D",
    "WeightNormConv2DTranspose",
    "WeightNormConv3D",
    "WeightNormConv3DTranspose",
    "WeightNormConvLSTM1D",
    "WeightNormConvLSTM2D",
    "WeightNormConvLSTM3D",
    "WeightNormDense",
    "WeightNormDepthwiseConv1D",
    "WeightNormDepthwiseConv2D",
    "WeightNormEinsumDense",
    "WeightNormEmbedding",
    "WeightNormGRU",
    "WeightNormGroupQueryAttention",
    "WeightNormLSTM",
    "WeightNormMultiHeadAttention",
    "WeightNormSeparableConv1D",
    "WeightNormSeparableConv2D",
    "WeightNormSimpleRNN",
]
