"""What becomes random: batch normalisation behind a layer cancels its scale."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import bhn_tf
from tests.conversion import keras_networks


def convert(network, **kwargs):
    return bhn_tf.from_keras(network, "mean_field", **kwargs)


def generated(model):
    """The generated values, by path of the layer."""
    report = model.conversion_report
    return {row.path: row.generated for row in report if row.generated}


def assert_equal_at_centre(network, model):
    x = keras_networks.inputs_of(network)
    expected = network(x).numpy()
    found = model(x, scales=model.hypernet.center()).numpy()
    np.testing.assert_allclose(found, expected, 0, 1e-5 * np.abs(expected).max())


def test_gamma_instead_of_a_scale():
    network = keras_networks.make("normalized_cnn")
    model = convert(network)
    assert generated(model) == {
        "norm": ("gamma",),
        "conv_relu": ("scale",),  # Its activation lies in between.
        "logits": ("scale",),
    }
    assert type(model.primary.get_layer("conv")) is layers.Conv2D
    assert type(model.primary.get_layer("norm")) is bhn_tf.layers.BatchNormalization
    report = model.conversion_report
    assert "norm cancels its scale" in report["conv"].reason
    assert "conv" in report["norm"].reason
    assert [row.num_random for row in report] == [0, 4, 0, 5, 0, 0, 3]


def test_gamma_and_beta_instead_of_scale_and_bias():
    model = convert(keras_networks.make("normalized_cnn"), random="scale_and_bias")
    assert generated(model)["norm"] == ("gamma", "beta")
    assert generated(model)["conv_relu"] == ("scale", "bias")


@pytest.mark.parametrize("mode", ["kernel", "kernel_and_bias"])
def test_kernels_are_generated_before_a_normalisation_too(mode):
    model = convert(keras_networks.make("normalized_cnn"), random=mode)
    assert set(generated(model)) == {"conv", "conv_relu", "logits"}
    reason = model.conversion_report["conv"].reason
    assert "norm cancels the length of its kernels" in reason
    assert ("bias" in reason) == (mode == "kernel_and_bias")


def test_resnet():
    model = convert(keras_networks.make("resnet"))
    norms = {f"norm_{i}{half}": ("gamma",) for i in (1, 2) for half in "ab"}
    assert generated(model) == {"stem": ("scale",), "logits": ("scale",), **norms}


def network_of(*stack, shape=(6, 6, 2)):
    ends = [layers.Flatten(), layers.Dense(2, name="end")]
    return keras_networks.randomized(
        keras.Sequential([keras.Input(shape), *stack, *ends])
    )


def conv(filters=3, **kwargs):
    return layers.Conv2D(filters, 2, name="conv", **kwargs)


def norm(**kwargs):
    return layers.BatchNormalization(name="norm", **kwargs)


CANCELLED = {
    "directly": lambda: [conv()],
    "linear activation": lambda: [
        conv(activation="linear"),
        layers.Activation("linear"),
    ],
    "dropout and padding": lambda: [
        conv(),
        layers.Dropout(0.2),
        layers.SpatialDropout2D(0.2),
        layers.ZeroPadding2D(),
        layers.Cropping2D(),
    ],
    "pooling": lambda: [conv(), layers.MaxPooling2D(), layers.GlobalAveragePooling2D()],
    "pooling behind axis 3": lambda: [
        layers.EinsumDense("abcx,xy->abcy", (6, 6, 3), name="conv"),
        layers.MaxPooling2D(),
        layers.GlobalAveragePooling2D(),
    ],
    "flattened": lambda: [conv(), layers.Flatten()],
    # relu(g x) = g relu(x) for g > 0, where no bias is in between.
    "relu without bias": lambda: [conv(use_bias=False, activation="relu")],
    "ReLU without bias": lambda: [conv(use_bias=False), layers.ReLU()],
    "PReLU without bias": lambda: [conv(use_bias=False), layers.PReLU()],
    "separable": lambda: [layers.SeparableConv2D(3, 2, name="conv")],
    "transposed": lambda: [layers.Conv2DTranspose(3, 2, name="conv")],
    "depthwise": lambda: [layers.DepthwiseConv2D(2, name="conv")],
    "dense": lambda: [layers.Dense(3, name="conv")],
    "einsum": lambda: [layers.EinsumDense("...x,xy->...y", 3, name="conv")],
    "nested": lambda: [keras.Sequential([conv()], name="inner")],
}
if hasattr(layers, "AdaptiveMaxPooling2D"):
    CANCELLED["adaptive pooling"] = lambda: [
        conv(),
        layers.AdaptiveMaxPooling2D(3),
        layers.AdaptiveAveragePooling2D(2),
    ]
NOT_CANCELLED = {
    "activation": lambda: [conv(activation="relu")],
    "activation layer": lambda: [conv(), layers.ReLU()],
    "tanh": lambda: [conv(use_bias=False, activation="tanh")],
    "bounded relu": lambda: [conv(use_bias=False), layers.ReLU(6)],
    "groups of channels": lambda: [
        conv(filters=4),
        layers.GroupNormalization(2, scale=False),
    ],
    "layer normalisation": lambda: [conv(), layers.LayerNormalization(scale=False)],
    "unit norm": lambda: [conv(), layers.UnitNormalization()],
    "PReLU with bias": lambda: [conv(), layers.PReLU()],
    "reshaped": lambda: [conv(), layers.Reshape((5, 15))],
    "several axes of scales": lambda: [
        # TensorFlow 2.18 and 2.19 with oneDNN take "...x,xyz->...yz" wrongly.
        layers.EinsumDense("abcx,xyz->abcyz", (6, 6, 2, 3), name="conv")
    ],
}


@pytest.mark.few(9)
@pytest.mark.parametrize("stack", CANCELLED.values(), ids=CANCELLED)
def test_what_a_scale_passes_through(stack):
    network = network_of(*stack(), norm())
    model = convert(network)
    assert set(generated(model)) == {"norm", "end"}
    assert_equal_at_centre(network, model)


@pytest.mark.parametrize("stack", NOT_CANCELLED.values(), ids=NOT_CANCELLED)
def test_what_a_scale_ends_at(stack):
    network = network_of(*stack(), norm())
    model = convert(network)
    assert set(generated(model)) == {"conv", "end"}
    assert_equal_at_centre(network, model)


def gradient_of_scales(model):
    """Gradient of a loss by g in training, where statistics are those of the batch."""
    x = keras_networks.inputs_of(model.primary, rows=64)
    g = tf.Variable(model.hypernet.center())
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, scales=g, training=True) - 1.0))
    return tape.gradient(loss, g).numpy()


@pytest.mark.parametrize("name", ["directly", "pooling", "relu without bias"])
def test_the_scale_of_a_cancelled_layer_would_not_learn(name):
    """The reason for these rules, measured."""
    network = network_of(*CANCELLED[name](), norm(epsilon=1e-6))
    with_gamma = gradient_of_scales(convert(network, only=["norm", "end"]))[:3]
    conv, *others = CANCELLED[name]()
    twin = bhn_tf.layers.WeightNormConv2D.from_config(conv.get_config())
    network = network_of(twin, *others, norm(epsilon=1e-6))
    with_scale = gradient_of_scales(bhn_tf.BayesianHypernet(network, "mean_field"))[:3]
    assert np.abs(with_scale).max() < 1e-2 * np.abs(with_gamma).max()


def test_branches():
    inputs = keras.Input((6, 6, 2))

    def conv(name):
        return layers.Conv2D(3, 3, padding="same", use_bias=False, name=name)

    both, joined = conv("both")(inputs), conv("joined")(inputs)
    a = layers.BatchNormalization(name="norm_a")(both)
    b = layers.Concatenate()([both, joined])
    b = layers.BatchNormalization(name="norm_b")(b)
    # A sum is not cancelled branch by branch, and one way around is enough.
    c = layers.Add()([conv("summand_1")(inputs), conv("summand_2")(inputs)])
    c = layers.BatchNormalization(name="norm_c")(c)
    once = conv("once")(inputs)
    d = layers.BatchNormalization(name="norm_d")(once)
    x = layers.Concatenate()([a, b, c, d, layers.Activation("tanh")(once)])
    x = layers.Dense(2, name="end")(layers.Flatten()(x))
    network = keras_networks.randomized(keras.Model(inputs, x))
    model = convert(network)
    assert set(generated(model)) == {
        *("norm_a", "norm_b"),
        *("summand_1", "summand_2", "once", "end"),
    }
    assert (
        "norm_d normalises it in one branch" in model.conversion_report["once"].reason
    )
    assert model.conversion_report["norm_b"].num_random == 6
    assert_equal_at_centre(network, model)


def test_normalisation_outside_of_the_nested_model():
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, name="dense")], name="inner"
    )
    inputs = keras.Input((4,))
    x = layers.BatchNormalization(name="norm")(inner(inputs))
    model = convert(keras.Model(inputs, layers.Dense(2, name="end")(x)))
    assert set(generated(model)) == {"norm", "end"}
    assert "norm cancels" in model.conversion_report["inner/dense"].reason
    # The layer is also used without normalisation, so that its scale matters.
    x = layers.Concatenate()([x, inner(x[:, :4])])
    model = convert(keras.Model(inputs, layers.Dense(2, name="end")(x)))
    assert set(generated(model)) == {"inner/dense", "end"}


def test_normalisation_over_another_axis():
    network = network_of(layers.Dense(3, name="conv"), norm(axis=1), shape=(5, 4))
    assert set(generated(convert(network))) == {"conv", "end"}


def test_normalisation_without_gamma_gets_one():
    network = network_of(conv(), norm(scale=False), layers.ReLU())
    model = convert(network)
    assert generated(model) == {"norm": ("gamma",), "end": ("scale",)}
    report = model.conversion_report
    assert "norm cancels its scale" in report["conv"].reason
    assert "scale=False it had no γ" in report["norm"].reason
    np.testing.assert_array_equal(model.primary.get_layer("norm").gamma, np.ones(3))
    assert_equal_at_centre(network, model)
    assert np.abs(gradient_of_scales(model)[:3]).min() > 0
    model = convert(network_of(conv(), norm(scale=False)), random="kernel")
    assert set(generated(model)) == {"conv", "end"}


def test_normalisations_of_rows_have_their_own_gamma():
    """They divide by what all units share, which leaves the scale of a single unit."""
    model = convert(keras_networks.make("transformer"), random="scale_and_bias")
    projections = [
        f"{name}/{what}"
        for name in ("query", "key", "value")
        for what in ("scale", "bias")
    ]
    projections += ["attention_output/scale", "attention_output/bias"]
    assert generated(model) == {
        "words": ("scale",),
        "heads": tuple(projections),
        "norm": ("gamma", "beta"),
        "groups": tuple(projections),
        "logits": ("scale", "bias"),
    }
    model = convert(keras_networks.make("transformer"), random="rank_one")
    assert generated(model)["heads"][:2] == ("query/scale", "query/input_scale")
    assert generated(model)["norm"] == ("gamma",)
    assert generated(model)["words"] == ("scale",)


def test_groups_of_one_channel_take_scales_over():
    model = convert(keras_networks.make("group_normalized"))
    assert generated(model) == {
        "separable": ("depthwise/scale", "pointwise/scale"),
        "of_several": ("gamma",),
        "of_one": ("gamma",),
        "without_gamma": ("gamma",),
        "rms": ("scale",),
        "logits": ("scale",),
    }
    report = model.conversion_report
    assert "of_one cancels its scale" in report["conv"].reason
    assert "instead of the scale of conv" in report["of_one"].reason


@pytest.mark.parametrize(
    ("layer", "is_cancelled"),
    [
        (lambda: layers.LayerNormalization(axis=[1, 2], name="norm"), True),
        (lambda: layers.LayerNormalization(axis=[2, 3], name="norm"), False),
        (lambda: layers.RMSNormalization(name="norm"), False),
        (lambda: layers.GroupNormalization(-1, name="norm"), True),
        (lambda: layers.GroupNormalization(1, name="norm"), False),
        (lambda: layers.GroupNormalization(5, axis=1, name="norm"), False),
    ],
)
def test_what_cancels_is_what_learns_nothing(layer, is_cancelled):
    """The rules' statement on a normalisation, against the gradient of a scale."""
    model = convert(network_of(conv(), layer()))
    assert ("conv" not in generated(model)) == is_cancelled
    gradients = []
    for stack in ([], [layer()]):
        twin = bhn_tf.layers.WeightNormConv2D.from_config(conv().get_config())
        for norm in stack:
            norm.epsilon = 1e-7
        network = network_of(twin, *stack)
        model = bhn_tf.BayesianHypernet(network, "mean_field")
        gradients.append(np.abs(gradient_of_scales(model)).max())
    assert (gradients[1] < 1e-2 * gradients[0]) == is_cancelled


def test_gamma_before_a_batch_normalisation():
    model = convert(network_of(conv(), layers.LayerNormalization(name="rows"), norm()))
    assert set(generated(model)) == {"conv", "norm", "end"}
    assert "norm cancels its scale" in model.conversion_report["rows"].reason


def test_attention_before_a_batch_normalisation():
    inputs = keras.Input((5, 4))
    x = layers.MultiHeadAttention(2, 3, name="heads")(inputs, inputs)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.Dense(2, name="end")(layers.Flatten()(x))
    model = convert(keras.Model(inputs, x))
    assert set(generated(model)) == {"heads", "end"}
    assert "its last projection" in model.conversion_report["heads"].reason


def test_skipping_and_picking_normalisations():
    network = keras_networks.make("group_normalized")
    model = convert(network, skip=["of_one", "of_several"])
    assert set(generated(model)) == {"separable", "without_gamma", "rms", "logits"}
    report = model.conversion_report
    assert "`skip` names that too" in report["conv"].reason
    model = convert(network, only="conv")
    assert set(generated(model)) == {"of_one"}
    model = convert(network, only="of_several", random="kernel")
    assert generated(model) == {"of_several": ("gamma",)}


def test_normalisation_without_beta():
    model = convert(network_of(conv(), norm(center=False)), random="scale_and_bias")
    assert generated(model)["norm"] == ("gamma",)
    assert "center=False" in model.conversion_report["norm"].reason


def test_normalisation_keeps_learning_its_statistics():
    network = keras_networks.make("normalized_cnn")
    model = convert(network)
    model.compile("sgd", jit_compile=False)
    norm = model.primary.get_layer("norm")
    before = norm.moving_mean.numpy()
    np.testing.assert_array_equal(before, network.get_layer("norm").moving_mean)
    model.fit(keras_networks.inputs_of(network), np.zeros(6, "int32"), verbose=0)
    assert np.abs(norm.moving_mean.numpy() - before).max() > 1e-4
    assert not any(v is norm.gamma for v in model.trainable_variables)


@keras.saving.register_keras_serializable("tests")
class OwnDense(layers.Dense):
    pass


@keras.saving.register_keras_serializable("tests")
class OwnModel(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4)

    def call(self, inputs):
        return self.dense(inputs)


def test_layers_without_a_twin_say_why():
    lora = layers.Dense(4, name="lora")
    quantised = layers.Dense(4, name="quantised")
    network = keras.Sequential(
        [
            keras.Input((4,)),
            OwnDense(4, name="own"),
            OwnModel(name="model"),
            lora,
            quantised,
            layers.Reshape((2, 2), name="reshape"),
            layers.RNN(layers.GRUCell(4), name="rnn"),
            layers.Dense(2, name="end"),
        ]
    )
    lora.enable_lora(2)
    lora.lora_kernel_b.assign(np.ones((2, 4)))
    quantised.quantize("int8")
    model = convert(network)
    reasons = {row.path: row.reason for row in model.conversion_report}
    assert set(generated(model)) == {"end"} and reasons["end"] == ""
    assert "derived from Dense" in reasons["own"]
    assert "not known to Keras" in reasons["model"]
    assert "LoRA" in reasons["lora"] and "quantised" in reasons["quantised"]
    assert "no weights" in reasons["reshape"]
    assert "runs the cell GRUCell" in reasons["rnn"]
    assert_equal_at_centre(network, model)


def test_report():
    model = convert(keras_networks.make("nested"))
    report = model.conversion_report
    assert len(report) == len(list(report)) == 3
    assert report.num_random == model.num_random == 11
    lines = str(report).splitlines()
    assert len(lines) == 5 and lines[-1].split() == ["11", "in", "all"]
    for row, line in zip(report, lines[1:-1], strict=True):
        assert line.split()[:2] == [row.path, row.layer]
    again = type(model).from_config(model.get_config())
    assert again.conversion_report == report
    with pytest.raises(KeyError):
        report["dense"]
