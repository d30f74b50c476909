"""Small networks and data that the tests of the models share."""

import keras
import numpy as np

import bhn_tf
from bhn_tf import layers
from bhn_tf.layers import WeightNormDense

NUM_FEATURES = 4
NUM_CLASSES = 3


def data(num_rows=65, seed=0):
    """Rows of noise, and classes that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, NUM_FEATURES)).astype("float32")
    return x, np.argmax(x[:, :NUM_CLASSES], axis=1)


def sequential(**kwargs):
    return keras.Sequential(
        [
            keras.Input((NUM_FEATURES,)),
            WeightNormDense(5, activation="relu", **kwargs),
            WeightNormDense(NUM_CLASSES, **kwargs),
        ]
    )


def traced():
    """A network, and a list that grows each time its graph is traced."""
    traces = []

    class Traced(keras.layers.Layer):
        def call(self, inputs):
            traces.append(1)
            return inputs

    primary = sequential()
    return keras.Sequential([primary.inputs[0], *primary.layers, Traced()]), traces


def functional(**kwargs):
    inputs = keras.Input((NUM_FEATURES,))
    hidden = WeightNormDense(5, activation="relu", **kwargs)(inputs)
    return keras.Model(inputs, WeightNormDense(NUM_CLASSES, **kwargs)(hidden))


def nested(**kwargs):
    inner = keras.Sequential(
        [keras.Input((NUM_FEATURES,)), WeightNormDense(5, activation="relu", **kwargs)]
    )
    inputs = keras.Input((NUM_FEATURES,))
    return keras.Model(inputs, WeightNormDense(NUM_CLASSES, **kwargs)(inner(inputs)))


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """A model with a user's own `call`."""

    def __init__(self, layer_kwargs=None, **kwargs):
        super().__init__(**kwargs)
        self.layer_kwargs = layer_kwargs or {}
        self.hidden = WeightNormDense(5, activation="relu", **self.layer_kwargs)
        self.logits = WeightNormDense(NUM_CLASSES, **self.layer_kwargs)

    def build(self, input_shape):
        self.hidden.build(input_shape)
        self.logits.build((None, 5))

    def call(self, inputs):
        return self.logits(self.hidden(inputs))

    def get_config(self):
        return {**super().get_config(), "layer_kwargs": self.layer_kwargs}


def subclassed(**kwargs):
    model = Subclassed(kwargs)
    model.build((None, NUM_FEATURES))
    return model


def twice(**kwargs):
    """One layer used twice, whose share of D counts once."""
    shared = WeightNormDense(5, activation="relu", **kwargs)
    inputs = keras.Input((NUM_FEATURES,))
    hidden = shared(keras.layers.Dense(5, use_bias=False)(inputs))
    return keras.Model(inputs, WeightNormDense(NUM_CLASSES, **kwargs)(shared(hidden)))


#: All kinds of networks with D = 8.
PRIMARIES = {
    "sequential": sequential,
    "functional": functional,
    "nested": nested,
    "subclassed": subclassed,
    "twice": twice,
}


def every_layer(random):
    """A network of one input [B, 128] that has each layer with a mode, side by side."""
    x = keras.Input((128,))
    shapes = {1: (64, 2), 2: (8, 8, 2), 3: (4, 4, 4, 2)}
    branches = [layers.WeightNormDense(4, random=random)(x)]
    equation = {"output_shape": (64, 3), "bias_axes": "c"}
    branches.append(
        layers.WeightNormEinsumDense("abd,dc->abc", random=random, **equation)(
            keras.layers.Reshape(shapes[1])(x)
        )
    )
    for rank, shape in shapes.items():
        for name in ("", "Transpose"):
            layer = getattr(layers, f"WeightNormConv{rank}D{name}")
            image = keras.layers.Reshape(shape)(x)
            branches.append(layer(3, 2, random=random)(image))
        if rank < 3:
            layer = getattr(layers, f"WeightNormDepthwiseConv{rank}D")
            branches.append(layer(2, random=random)(image))
            layer = getattr(layers, f"WeightNormSeparableConv{rank}D")
            branches.append(layer(3, 2, random=random)(image))
    sequence, image = (keras.layers.Reshape(shape)(x) for shape in ((16, 8), shapes[2]))
    attention = layers.WeightNormMultiHeadAttention(2, 3, random=random)
    branches.append(attention(sequence, sequence))
    attention = layers.WeightNormGroupQueryAttention(2, 2, 1, random=random)
    branches.append(attention(sequence, sequence, use_causal_mask=True))
    if random in layers.WeightNormEmbedding.GENERATED:
        words = keras.ops.cast(keras.ops.abs(x[:, :4]) * 3, "int32") % 9
        branches.append(layers.WeightNormEmbedding(9, 3, random=random)(words))
    if random in layers.BatchNormalization.GENERATED:
        # With fixed statistics, as those of a batch differ from replica to replica.
        normalizations = [
            layers.BatchNormalization(random=random, trainable=False),
            layers.LayerNormalization(random=random),
            layers.GroupNormalization(groups=2, random=random),
        ]
        branches += [normalization(image) for normalization in normalizations]
    if random in layers.RMSNormalization.GENERATED:
        branches.append(layers.RMSNormalization(random=random)(image))
    heads = [
        keras.layers.Dense(NUM_CLASSES)(keras.layers.Flatten()(branch))
        for branch in branches
    ]
    return keras.Model(x, keras.layers.Add()(heads))


def plain():
    """A network without anything random, D = 0."""
    return keras.Sequential(
        [
            keras.Input((NUM_FEATURES,)),
            keras.layers.Dense(5, activation="relu"),
            keras.layers.Dense(NUM_CLASSES),
        ]
    )


def realnvp(**kwargs):
    return bhn_tf.hypernets.RealNVP(num_layers=2, hidden_units=(8,), **kwargs)


def bayesian(primary=None, hypernet=None, likelihood=None, **kwargs):
    """A Bayesian model with D = 8."""
    return bhn_tf.BayesianHypernet(
        sequential() if primary is None else primary,
        realnvp() if hypernet is None else hypernet,
        # A subclassed network does not tell its last activation.
        likelihood or bhn_tf.likelihoods.Categorical(from_logits=True),
        **kwargs,
    )


def compiled(model, optimizer="adam", **kwargs):
    """The model, compiled so that steps take little time in tests."""
    model.compile(optimizer, **{"jit_compile": False, **kwargs})
    return model


def weights_of(model):
    return [keras.ops.convert_to_numpy(variable) for variable in model.weights]


def assert_identity(logs, num_examples, prefix=""):
    """The loss is the sum of its terms, in logs or in a history of them."""
    share = np.multiply(logs[prefix + "kl_weight"], logs[prefix + "kl"]) / num_examples
    regularization = logs.get(prefix + "regularization", 0.0)
    np.testing.assert_allclose(
        logs[prefix + "loss"],
        np.add(logs[prefix + "nll"], share) + regularization,
        rtol=1e-5,
    )
