"""Every layer with every argument loads in a process that imports only bhn_tf."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

from bhn_tf import layers
from tests.layers.layer_check import regularises

ROOT = Path(__file__).resolve().parents[2]

SHARED = {
    "use_bias": True,
    "activation": "tanh",
    "kernel_initializer": keras.initializers.HeNormal(seed=1),
    "bias_initializer": keras.initializers.RandomUniform(seed=2),
    "kernel_regularizer": keras.regularizers.L1L2(0.1, 0.2),
    "bias_regularizer": "l2",
    "activity_regularizer": keras.regularizers.L1(0.3),
    "kernel_constraint": keras.constraints.MaxNorm(2.0),
    "bias_constraint": "non_neg",
    "random": "scale_and_bias",
    "scale_initializer": keras.initializers.TruncatedNormal(1.0, 0.2, seed=3),
    "dtype": "mixed_bfloat16" if regularises("bfloat16") else "float32",
    "name": "layer_under_test",
}
CONVOLUTION = {
    **SHARED,
    "filters": 4,
    "kernel_size": 2,
    "strides": 2,
    "padding": "same",
    "groups": 2,
}
DEPTHWISE = {
    name.replace("kernel", "depthwise"): value for name, value in SHARED.items()
}
SEPARABLE = {
    **{name: v for name, v in SHARED.items() if not name.startswith("kernel")},
    "depthwise_initializer": keras.initializers.HeNormal(seed=4),
    "pointwise_regularizer": keras.regularizers.L1(0.1),
}
RECURRENT = {
    **SHARED,
    "recurrent_activation": "hard_sigmoid",
    "recurrent_initializer": keras.initializers.Orthogonal(seed=4),
    "recurrent_regularizer": "l1",
    "recurrent_constraint": "unit_norm",
    "unit_forget_bias": False,
    "dropout": 0.1,
    "seed": 5,
    "go_backwards": True,
    "return_sequences": True,
}
CONV_LSTM = {
    **RECURRENT,
    "filters": 3,
    "kernel_size": 2,
    "dilation_rate": 2,
    "padding": "same",
    "random": "rank_one",
}
GATED = {"use_cudnn": False, "implementation": 1, "zero_output_for_mask": True}
SIMPLE = {
    name: value
    for name, value in RECURRENT.items()
    if name not in ("recurrent_activation", "unit_forget_bias")
}
GRU = {name: value for name, value in RECURRENT.items() if name != "unit_forget_bias"}
EINSUM = {name: value for name, value in SHARED.items() if name != "use_bias"}
LAYERS = {
    "dense": (lambda: layers.WeightNormDense(3, **SHARED), (5,)),
    "conv_1d": (
        lambda: layers.WeightNormConv1D(
            4, 2, padding="causal", dilation_rate=2, **{**SHARED, "random": "none"}
        ),
        (7, 2),
    ),
    "conv_2d": (lambda: layers.WeightNormConv2D(**CONVOLUTION), (6, 7, 2)),
    "conv_3d": (lambda: layers.WeightNormConv3D(**CONVOLUTION), (5, 6, 5, 2)),
    "kernel": (
        lambda: layers.WeightNormDense(3, **{**SHARED, "random": "kernel_and_bias"}),
        (5,),
    ),
    "conv_1d_transpose": (
        lambda: layers.WeightNormConv1DTranspose(
            4, 2, strides=2, output_padding=1, **SHARED
        ),
        (7, 2),
    ),
    "conv_2d_transpose": (
        lambda: layers.WeightNormConv2DTranspose(4, 2, padding="same", **SHARED),
        (4, 5, 2),
    ),
    "conv_3d_transpose": (
        lambda: layers.WeightNormConv3DTranspose(4, 2, strides=2, **SHARED),
        (2, 3, 2, 2),
    ),
    "depthwise_conv_1d": (
        lambda: layers.WeightNormDepthwiseConv1D(2, depth_multiplier=3, **DEPTHWISE),
        (7, 2),
    ),
    "depthwise_conv_2d": (
        lambda: layers.WeightNormDepthwiseConv2D(2, depth_multiplier=3, **DEPTHWISE),
        (6, 7, 2),
    ),
    "einsum_dense": (
        lambda: layers.WeightNormEinsumDense(
            "abc,cde->abde", (None, 2, 3), bias_axes="de", **EINSUM
        ),
        (6, 5),
    ),
    "lstm": (lambda: layers.WeightNormLSTM(3, **RECURRENT, **GATED), (5, 2)),
    "gru": (
        lambda: layers.WeightNormGRU(3, reset_after=False, **GRU, **GATED),
        (5, 2),
    ),
    "simple_rnn": (
        lambda: layers.WeightNormSimpleRNN(3, **{**SIMPLE, "random": "kernel"}),
        (5, 2),
    ),
    "conv_lstm_1d": (lambda: layers.WeightNormConvLSTM1D(**CONV_LSTM), (3, 5, 2)),
    "conv_lstm_2d": (lambda: layers.WeightNormConvLSTM2D(**CONV_LSTM), (3, 4, 5, 2)),
    "conv_lstm_3d": (
        lambda: layers.WeightNormConvLSTM3D(**CONV_LSTM),
        (2, 3, 4, 3, 2),
    ),
    "batch_normalization": (
        lambda: layers.BatchNormalization(
            momentum=0.9,
            epsilon=0.1,
            random="scale_and_bias",
            gamma_initializer=keras.initializers.RandomNormal(1.0, seed=1),
            beta_regularizer="l2",
        ),
        (6, 4),
    ),
    "layer_normalization": (
        lambda: layers.LayerNormalization(
            axis=[1, 2], epsilon=0.1, random="scale_and_bias", beta_regularizer="l2"
        ),
        (6, 4),
    ),
    "group_normalization": (
        lambda: layers.GroupNormalization(groups=2, center=False),
        (6, 4),
    ),
    "rms_normalization": (lambda: layers.RMSNormalization(epsilon=0.1), (6, 4)),
    "separable_conv_1d": (
        lambda: layers.WeightNormSeparableConv1D(4, 2, **SEPARABLE),
        (7, 2),
    ),
    "separable_conv_2d": (
        lambda: layers.WeightNormSeparableConv2D(
            4, 2, depth_multiplier=3, strides=2, padding="same", **SEPARABLE
        ),
        (6, 7, 2),
    ),
    "embedding": (
        lambda: layers.WeightNormEmbedding(
            9, 4, mask_zero=True, embeddings_regularizer="l2", dtype="mixed_bfloat16"
        ),
        (6,),
    ),
    "dropout": (
        lambda: layers.MonteCarloDropout(
            0.3, noise_shape=(None, 1, 4), seed=7, name="dropout"
        ),
        (6, 4),
    ),
    "spatial_dropout_1d": (lambda: layers.MonteCarloSpatialDropout1D(0.3), (6, 4)),
    "spatial_dropout_2d": (
        lambda: layers.MonteCarloSpatialDropout2D(0.3, "channels_first"),
        (4, 6, 5),
    ),
    "spatial_dropout_3d": (
        lambda: layers.MonteCarloSpatialDropout3D(0.3),
        (2, 3, 4, 5),
    ),
}

ATTENTION = {name: value for name, value in SHARED.items() if name != "activation"}


def attention(layer, length=6):
    """A network with self-attention of sequences, by the layer at its end."""
    inputs = keras.Input((length, 5))
    return keras.Model(inputs, layer(inputs, inputs, use_causal_mask=True))


NETWORKS = {
    "multi_head_attention": lambda: attention(
        layers.WeightNormMultiHeadAttention(
            2, 3, value_dim=4, output_shape=(2, 3), dropout=0.1, **ATTENTION
        )
    ),
    "group_query_attention": lambda: attention(
        layers.WeightNormGroupQueryAttention(3, 4, 2, **ATTENTION)
    ),
}

# In the other process: configuration, initial weights of a copy, and outputs.
LOAD = """
import json, sys
import numpy as np
import bhn_tf
import keras
for name in sys.argv[2:]:
    model = keras.saving.load_model(f"{sys.argv[1]}/{name}.keras")
    layer = model.layers[-1]
    data = np.load(f"{sys.argv[1]}/{name}.npz")
    assert json.loads(str(data["config"])) == json.loads(json.dumps(layer.get_config()))
    outputs = np.asarray(model(data["inputs"])).astype("float32")
    np.testing.assert_allclose(outputs, data["outputs"], rtol=1e-5, atol=1e-6)
    print("same", name)
"""


def test_public_layers_are_all_here():
    made = {type(make()).__name__ for make, _ in LAYERS.values()}
    made |= {type(make().layers[-1]).__name__ for make in NETWORKS.values()}
    assert made == set(layers.__all__)


def test_layers_survive_a_file_and_a_fresh_process(tmp_path):
    rng = np.random.default_rng(0)
    models = {name: make() for name, make in NETWORKS.items()}
    for name, (make, shape) in LAYERS.items():
        models[name] = keras.Sequential([keras.Input(shape), make()])
    for name, model in models.items():
        for weight in model.weights:
            if weight.dtype == "float32":
                weight.assign(rng.normal(size=weight.shape).astype("float32"))
        inputs = rng.normal(size=(3, *model.input_shape[1:])).astype("float32")
        if name == "embedding":
            inputs = np.round(np.abs(inputs))
        model.save(tmp_path / f"{name}.keras")
        np.savez(
            tmp_path / f"{name}.npz",
            inputs=inputs,
            outputs=np.asarray(model(inputs)).astype("float32"),
            config=json.dumps(model.layers[-1].get_config()),
        )
    process = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path), *models],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.split("\n")[:-1] == [f"same {name}" for name in models]
