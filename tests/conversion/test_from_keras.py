"""A converted network is the original at the centre, and learns from there."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import bhn_tf
from bhn_tf.layers import WeightNormConv2D, WeightNormDense
from tests.conversion import keras_networks
from tests.conversion.keras_networks import NETWORKS, NUM_CLASSES
from tests.keras_versions import keras_before

MODES = ["scale", "scale_and_bias", "kernel", "kernel_and_bias"]


def convert(network, hypernet="mean_field", **kwargs):
    return bhn_tf.from_keras(network, hypernet, **kwargs)


def assert_equal_at_centre(network, model, x):
    expected = np.asarray(network(x))
    found = np.asarray(model(x, scales=model.hypernet.center()))
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(found, expected, 0, 1e-5 * np.abs(expected).max())


@pytest.mark.few(9)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_centre_is_the_original(name, mode):
    network = keras_networks.make(name)
    model = convert(network, random=mode)
    assert model.num_random == model.conversion_report.num_random > 0
    assert_equal_at_centre(network, model, keras_networks.inputs_of(network))


# Every other network; all have the same centre (above), and the zoo is trained too.
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (number % 2))
        for number, name in enumerate(NETWORKS)
    ],
)
def test_fits_from_there(name):
    network = keras_networks.make(name)
    x, y = keras_networks.inputs_of(network), np.arange(6) % NUM_CLASSES
    model = convert(network)
    model.compile("adam", jit_compile=False)
    # Before a step nothing changes.
    raw = network.predict(x, verbose=0)
    is_probability = name == "softmax_classifier"
    expected = raw if is_probability else keras.ops.softmax(raw)
    centre = model.predict(x, num_samples=0, verbose=0)
    np.testing.assert_allclose(centre, expected, atol=1e-5)
    history = model.fit(x, y, verbose=0).history
    assert np.isfinite(history["loss"]).all() and history["kl"][0] > 0
    assert np.abs(model.predict(x, num_samples=0, verbose=0) - centre).max() > 1e-5
    samples = model.predict_samples(x, num_samples=3, verbose=0)
    assert np.ptp(samples, axis=1).max() > 1e-4


def state_of(network):
    return {
        "config": json.dumps(network.get_config(), default=repr),
        "weights": [keras.ops.convert_to_numpy(w).copy() for w in network.weights],
        "trainable": [layer.trainable for layer in network._flatten_layers()],
        "variables": [v.trainable for v in network.variables],
        "nodes": [
            (len(layer._inbound_nodes), len(layer._outbound_nodes))
            for layer in network._flatten_layers()
        ],
        "compiled": network.compiled and id(network.optimizer),
    }


@pytest.mark.parametrize("name", ["resnet", "nested_and_shared", "sequence"])
def test_original_is_untouched(name):
    network = keras_networks.make(name)
    network.layers[-1].trainable = False
    network.compile("adam", "mse")
    before = state_of(network)
    model = convert(network, freeze=network.layers[2].name)
    for weight in model.weights:
        weight.assign(weight + keras.ops.ones_like(weight))
    after = state_of(network)
    for old, new in zip(before.pop("weights"), after.pop("weights"), strict=True):
        np.testing.assert_array_equal(new, old)
    assert after == before
    shared = {id(v) for v in network.variables} & {id(v) for v in model.variables}
    assert not shared
    assert not model.compiled and not model.primary.compiled


def test_twins_keep_what_the_layer_has():
    network = keras.Sequential(
        [
            keras.Input((6, 6, 2), name="image"),
            layers.Conv2D(
                4,
                3,
                strides=2,
                padding="same",
                activation="elu",
                use_bias=False,
                kernel_regularizer=keras.regularizers.L2(0.1),
                kernel_constraint=keras.constraints.NonNeg(),
                activity_regularizer=keras.regularizers.L2(0.2),
                dtype="mixed_bfloat16",
                name="conv",
            ),
            layers.Flatten(name="flatten"),
            layers.Dense(3, dtype="float64", trainable=False),
        ],
        name="network",
    )
    model = convert(network)
    assert model.primary.name == "network" and model.primary.inputs[0].name == "image"
    for layer, copied in zip(network.layers, model.primary.layers, strict=True):
        config, copied_config = layer.get_config(), copied.get_config()
        assert {key: copied_config[key] for key in config} == config
        assert copied.trainable == layer.trainable
        assert copied.dtype_policy == layer.dtype_policy
    assert [type(layer) for layer in model.primary.layers] == [
        WeightNormConv2D,
        layers.Flatten,
        WeightNormDense,
    ]
    x = keras_networks.inputs_of(network)
    network(x), model(x, scales=model.hypernet.center())
    assert len(model.losses) == len(network.losses) == 2
    for loss, expected in zip(model.losses, network.losses, strict=True):
        assert float(loss) == pytest.approx(float(expected), rel=0.02)


def test_kernels_of_zeros():
    network = keras_networks.make("mlp")
    kernel = network.get_layer("hidden").kernel.numpy()
    kernel[:, 1] = 0
    kernel[:, 2] = 1e-8
    network.get_layer("hidden").kernel.assign(kernel)
    network.get_layer("logits").kernel.assign(np.zeros((6, NUM_CLASSES)))
    model = convert(network)
    assert model.primary.get_layer("hidden").scale[1] == 1
    assert_equal_at_centre(network, model, keras_networks.inputs_of(network))
    model.compile("adam", jit_compile=False)
    x, y = keras_networks.inputs_of(network), np.arange(6) % NUM_CLASSES
    assert np.isfinite(model.fit(x, y, epochs=2, verbose=0).history["loss"]).all()


def test_a_shared_layer_is_one_twin():
    network = keras_networks.make("nested_and_shared")
    model = convert(network)
    assert model.num_random == 4 + 4 + 4 + NUM_CLASSES
    assert len(model.primary.weights) == len(network.weights) + 4
    primary = model.primary
    inner = primary.get_layer("middle").get_layer("inner")
    assert inner is primary.get_layer("inner")
    assert inner.get_layer("shared") is primary.get_layer("shared")
    row = model.conversion_report["inner/first"]
    assert row.num_random == 4 and "middle/inner/first" in row.reason


def test_trainable_flags_of_models_that_share_a_layer():
    shared = layers.Dense(4, name="shared")
    stacks = [
        keras.Sequential(
            [keras.Input((4,)), shared, layers.Dense(4, name=name)], name=name
        )
        for name in ("left", "right")
    ]
    inputs = keras.Input((4,))
    network = keras.Model(inputs, layers.Add()([stack(inputs) for stack in stacks]))
    for frozen in ([shared], [stacks[0]], [stacks[1].layers[-1], stacks[0]]):
        network.trainable = True
        for layer in frozen:
            layer.trainable = False
        model = convert(network, likelihood="gaussian")
        for layer, copied in zip(
            network._flatten_layers(), model.primary._flatten_layers(), strict=True
        ):
            assert copied.name == layer.name and copied.trainable == layer.trainable


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_dtype_policies(policy):
    keras.config.set_dtype_policy(policy)
    try:
        network = keras_networks.make("vgg")
    finally:
        keras.config.set_dtype_policy("float32")
    model = convert(network)
    x = keras_networks.inputs_of(network)
    expected = network(x).numpy().astype("float64")
    found = model(x, scales=model.hypernet.center()).numpy().astype("float64")
    # Half precision rounds different products.
    tolerance = {"mixed_float16": 1e-2, "mixed_bfloat16": 5e-2, "float64": 1e-6}
    np.testing.assert_allclose(found, expected, atol=tolerance[policy])
    assert {layer.compute_dtype for layer in model.primary.layers} == {
        layer.compute_dtype for layer in network.layers
    }


def dense(*tensors):
    return layers.Dense(NUM_CLASSES)(layers.Concatenate()(list(tensors)))


def test_inputs_as_a_dictionary_or_nested():
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    for structure in ({"b": b, "a": a}, [a, b], (a, [b])):
        network = keras_networks.randomized(keras.Model(structure, dense(a, b)))
        x = keras_networks.inputs_of(network)
        model = convert(network)
        assert_equal_at_centre(network, model, x)
        keras.tree.assert_same_structure(model.primary.input, structure)


def test_inputs_of_every_kind():
    fixed = keras.Input(batch_shape=(6, 3))
    network = keras.Model(fixed, dense(fixed, fixed))
    model = convert(network)
    assert model.primary.input_shape == (6, 3)
    assert_equal_at_centre(network, model, keras_networks.inputs_of(network))

    sparse = keras.Input((3,), sparse=True)
    model = convert(keras.Model(sparse, layers.Dense(2)(sparse)))
    assert model.primary.input.sparse

    ragged = keras.Input((None,), dtype="int32", ragged=True)
    embedded = keras.ops.mean(layers.Embedding(9, 4)(ragged), axis=1)
    model = convert(keras.Model(ragged, layers.Dense(2)(embedded)))
    assert model.primary.input.ragged

    words = keras.Input((), dtype="string")
    to_numbers = layers.TextVectorization(output_sequence_length=4)
    to_numbers.adapt(["a b c", "b c d"])
    embedded = layers.Flatten()(layers.Embedding(9, 4)(to_numbers(words)))
    network = keras.Model(words, layers.Dense(2)(embedded))
    x = keras.ops.convert_to_tensor(["a d", "e c b"])
    assert_equal_at_centre(network, convert(network), x)


@keras.saving.register_keras_serializable("tests")
class SumOfSome(layers.Layer):
    def call(self, first, second=None):
        return first if second is None else first + second

    def compute_output_shape(self, first_shape, second_shape=None):
        return first_shape


def test_optional_inputs():
    first, second = keras.Input((3,)), keras.Input((3,), optional=True)
    total = SumOfSome()(first, second)
    network = keras.Model([first, second], layers.Dense(2)(total))
    model = convert(network)
    for x in ([np.ones((4, 3)), None], [np.ones((4, 3)), np.ones((4, 3))]):
        assert_equal_at_centre(network, model, x)


def test_arguments_that_keras_leaves_out_of_configurations():
    """Keras does so before 3.15."""
    network = keras.Sequential(
        [
            keras.Input((2, 8, 6)),
            layers.Equalization((0, 1), data_format="channels_first"),
            layers.Reshape((16, 6)),
            layers.Conv1DTranspose(3, 2, strides=3, output_padding=1, padding="same"),
            layers.Dense(2),
        ]
    )
    model, x = convert(network), np.random.default_rng(0).random((3, 2, 8, 6))
    assert_equal_at_centre(network, model, x)
    drawn = model.draw(scales=model.hypernet.center())
    assert_equal_at_centre(drawn, model, x)
    # It acts in training alone.
    for copied in (model.primary, drawn):
        assert copied.layers[0].data_format == "channels_first"


def test_lambda_layers():
    network = keras.Sequential(
        [keras.Input((4,)), layers.Lambda(lambda x: 2 * x), layers.Dense(2)]
    )
    assert_equal_at_centre(network, convert(network), np.ones((3, 4), "float32"))


def doubled(x):
    return 2 * x


@pytest.mark.filterwarnings("ignore:The object being serialized:UserWarning")
def test_functions_that_only_this_process_has():
    """Their names, or their code alone, would not lead back to them."""
    factor = tf.constant([1.0, -2.0, 3.0, 4.0])

    def local(x, power):
        return tf.abs(x) ** power

    inputs = keras.Input((4,))
    x = layers.Lambda(lambda x: doubled(x) * factor)(inputs)
    x = layers.Lambda(lambda x: tf.square(x), output_shape=lambda shape: shape)(x)
    x = layers.Lambda(local, arguments={"power": 0.5})(x)
    x = layers.Dense(4, activation=lambda x: tf.nn.softplus(x))(x)
    x = layers.Dense(
        4, tf.sin, bias_initializer=lambda shape, dtype: tf.ones(shape, dtype)
    )(x)
    x = layers.Activation(doubled)(x)
    if not keras_before("3.15"):
        # Earlier ones want objects here, or do not make the operation again.
        x = layers.Dense(4, bias_regularizer=lambda b: sum(b))(x)
        x = keras.ops.vectorized_map(lambda row: doubled(row), x)
    network = keras.Model(inputs, layers.Dense(2)(x))
    model, ones = convert(network), np.ones((3, 4), "float32")
    assert_equal_at_centre(network, model, ones)
    assert_equal_at_centre(model.draw(scales=model.hypernet.center()), model, ones)


def test_texts_with_a_standardization_of_ones_own():
    texts = layers.TextVectorization(
        standardize=lambda text: tf.strings.upper(text), output_sequence_length=2
    )
    texts.adapt(["a b", "c d"])
    network = keras.Sequential(
        [
            keras.Input((), dtype="string"),
            texts,
            layers.Embedding(6, 3),
            layers.Dense(2),
        ]
    )
    network(tf.constant(["a b"]))
    assert_equal_at_centre(network, convert(network), tf.constant(["A d", "c b"]))


def test_several_outputs():
    inputs = keras.Input((4,))
    outputs = {name: layers.Dense(2, name=name)(inputs) for name in ("kind", "size")}
    network = keras.Model(inputs, outputs)
    likelihood = {"kind": "categorical", "size": "gaussian"}
    model = convert(network, likelihood=likelihood)
    x = np.ones((3, 4), "float32")
    found = model(x, scales=model.hypernet.center())
    for name, expected in network(x).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5)


def test_a_functional_class_of_ones_own():
    class Own(keras.Model):
        def __init__(self):
            inputs = keras.Input((4,))
            super().__init__(inputs, layers.Dense(3)(layers.Dense(5)(inputs)))

    network = keras_networks.randomized(Own())
    assert_equal_at_centre(network, convert(network), keras_networks.inputs_of(network))


@pytest.mark.parametrize(
    "name, from_logits", [("mlp", True), ("softmax_classifier", False)]
)
def test_likelihood_looks_at_the_last_activation(name, from_logits):
    model = convert(keras_networks.make(name))
    assert model.likelihood.from_logits is from_logits


@keras.saving.register_keras_serializable("tests")
class Head(layers.Layer):
    """A last layer of one's own, with its activation beside a layer inside."""

    def __init__(self, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)
        self.activation = keras.activations.get(activation)

    def call(self, inputs):
        return self.activation(self.dense(inputs))

    def get_config(self):
        name = keras.activations.serialize(self.activation)
        return {**super().get_config(), "activation": name}


@pytest.mark.few(3)
@pytest.mark.parametrize("activation, from_logits", [(None, True), ("softmax", False)])
@pytest.mark.parametrize(
    "last",
    [
        lambda activation: layers.TimeDistributed(layers.Dense(3, activation)),
        lambda activation: layers.SpectralNormalization(layers.Dense(3, activation)),
        Head,
    ],
    ids=["time_distributed", "spectral_normalization", "own"],
)
def test_likelihood_looks_into_the_last_layer(last, activation, from_logits):
    inputs = keras.Input((5, 4))
    hidden = layers.LSTM(3, return_sequences=True)(inputs)
    network = keras.Model(inputs, last(activation)(hidden))
    assert convert(network).likelihood.from_logits is from_logits


def test_a_drawn_network_is_converted_again():
    model = convert(keras_networks.make("mlp"), random="scale_and_bias")
    drawn = model.draw(seed=1)
    again = convert(drawn, random="scale_and_bias")
    x = keras_networks.inputs_of(drawn)
    assert_equal_at_centre(drawn, again, x)
    assert again.num_random == model.num_random
    only = convert(drawn, random="scale_and_bias", only="logits")
    assert only.num_random == 2 * NUM_CLASSES
    assert_equal_at_centre(drawn, only, x)


def test_bayes_by_backprop():
    network = keras_networks.make("mlp")
    model = bhn_tf.baselines.bayes_by_backprop(network, 0.05, num_examples=6)
    assert isinstance(model.hypernet, bhn_tf.hypernets.MeanField)
    assert model.num_random == network.count_params()
    assert model.num_examples == 6
    np.testing.assert_allclose(model.hypernet.distribution.stddev(), 0.05, rtol=1e-4)
    assert_equal_at_centre(network, model, keras_networks.inputs_of(network))


LEFT_OUT = ["convolutions_1d", "depthwise", "einsum", "transposed", "recurrent"]


@pytest.mark.few(4)
@pytest.mark.parametrize("mode", [*MODES, "rank_one"])
@pytest.mark.parametrize("name", [*LEFT_OUT, "transformer"])
def test_a_random_layer_that_is_left_out_computes_the_same(name, mode):
    """Everything that it has learned is kept, also scales of inputs."""
    once = convert(keras_networks.make(name), random=mode).primary
    network = keras_networks.randomized(once, seed=3)
    again = convert(network, only=network.layers[-1])
    assert again.num_random == network.layers[-1].num_random
    assert_equal_at_centre(network, again, keras_networks.inputs_of(network))


@keras.saving.register_keras_serializable("tests.conversion")
class Inside(layers.Layer):
    """A dense layer that another one calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4)

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call(self, inputs):
        return self.dense(inputs)


def words(output_mode):
    return layers.StringLookup(vocabulary=[*"abcd"], output_mode=output_mode)


WORDS = np.array([["a", "b"], ["b", "b"], ["c", "d"], ["d", "x"]])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lookup", "x", "hidden", "mode"),
    [
        (words("multi_hot"), WORDS, [], "scale"),
        (words("count"), WORDS, [Inside()], "rank_one"),
        (
            layers.IntegerLookup(vocabulary=[1, 2], output_mode="count"),
            np.array([[1, 1], [1, 2], [2, 2], [3, 1]]),
            [layers.Reshape((3, 1)), layers.Bidirectional(layers.LSTM(4))],
            "scale",
        ),
    ],
)
def test_integers_of_another_layer_are_numbers(lookup, x, hidden, mode, tmp_path):
    inputs = keras.Input((2,), dtype="string" if x is WORDS else "int64")
    outputs = lookup(inputs)
    for layer in [*hidden, layers.Dense(NUM_CLASSES)]:
        outputs = layer(outputs)
    network, x = keras.Model(inputs, outputs), keras.ops.convert_to_tensor(x)
    model = convert(network, random=mode)
    assert_equal_at_centre(network, model, x)
    model.compile("adam", jit_compile=False)
    model.fit(x, np.arange(4) % NUM_CLASSES, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    expected = model.predict(x, seed=1, num_samples=3, verbose=0)
    found = loaded.predict(x, seed=1, num_samples=3, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)
