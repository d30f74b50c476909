"""In users' own layers, inner layers become random, or a reason says why not."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import bhn_tf
from bhn_tf import keras_adapter
from bhn_tf.networks.entered import EnteredLayer
from tests.conversion import keras_networks
from tests.conversion.own_layers import (
    Block,
    Blocks,
    CallsCell,
    Closure,
    HoldsOneWithoutConfiguration,
    LateInSecondCall,
    LateInTraining,
    MadeInBuild,
    Normalized,
    OneByOne,
    OnlyInTraining,
    OtherInSecondCall,
    ReadsBias,
    SelfAttention,
    Tied,
    TiedInSecondCall,
    TwoInputs,
    Unused,
    WithoutTwins,
    register,
)


def network_of(*own):
    x = inputs = keras.Input((5, 4))
    for layer in own:
        x = layer(x)
    x = layers.Dense(keras_networks.NUM_CLASSES, name="logits")(layers.Flatten()(x))
    return keras_networks.randomized(keras.Model(inputs, x))


def convert(network, **kwargs):
    return bhn_tf.from_keras(network, "mean_field", **kwargs)


def assert_equal_at_centre(network, model):
    x = keras_networks.inputs_of(network)
    expected = network(x).numpy()
    found = model(x, scales=model.hypernet.center()).numpy()
    np.testing.assert_allclose(found, expected, 0, 1e-5 * np.abs(expected).max())


@pytest.fixture(scope="module")
def entered():
    """A network with such layers, and what it has been converted to."""
    network = network_of(Blocks(name="blocks"))
    num_nodes = [len(layer._inbound_nodes) for layer in network._flatten_layers()]
    weights = [weight.numpy() for weight in network.weights]
    model = convert(network, random="scale_and_bias")
    model.compile("adam", jit_compile=False, per_example_noise=True)
    again = [len(layer._inbound_nodes) for layer in network._flatten_layers()]
    assert num_nodes == again
    for weight, before in zip(network.weights, weights, strict=True):
        np.testing.assert_array_equal(weight, before)
    return network, model


def test_what_becomes_random(entered):
    network, model = entered
    rows = {row.path: row for row in model.conversion_report}
    projections = [
        f"attention/{name}/{what}"
        for name in ("query", "key", "value", "attention_output")
        for what in ("scale", "bias")
    ]
    norms = [f"norms/{i}/{what}" for i in (0, 1) for what in ("gamma", "beta")]
    ffn = [f"feed_forward/{n}/{w}" for n in ("up", "down") for w in ("scale", "bias")]
    block = [*projections, *norms, *ffn]
    assert sorted(rows["blocks"].generated) == sorted(
        [f"blocks/0/{name}" for name in block]
        + [f"blocks/1/_dense/{name}" for name in ("scale", "bias")]
        + [f"blocks/1/by_name/out/{name}" for name in ("scale", "bias")]
        + [f"shared/{name}" for name in ("scale", "bias")]
    )
    assert model.num_random == model.conversion_report.num_random
    inner = model.primary.get_layer("blocks").layer
    assert isinstance(inner, Blocks) and inner.alias is inner.shared
    assert type(network.get_layer("blocks").shared) is layers.Dense
    assert_equal_at_centre(network, model)


def test_training_answers_and_files(entered, tmp_path):
    network, model = entered
    x, y = keras_networks.inputs_of(network), np.arange(6) % 3
    assert np.isfinite(model.fit(x, y, verbose=0).history["loss"]).all()
    g = model.sample_scales(6, seed=1)
    rows = [model(x[i : i + 1], scales=g[i])[0] for i in range(6)]
    np.testing.assert_allclose(model(x, scales=g), rows, rtol=1e-4, atol=1e-5)
    samples = model.predict_samples(x, num_samples=3, seed=1, verbose=0)
    assert np.ptp(samples, axis=1).max() > 1e-3
    drawn = model.draw(scales=g[0])
    np.testing.assert_allclose(drawn(x), model(x, scales=g[0]), rtol=1e-4, atol=1e-5)
    loaded = keras_networks.assert_saved_and_served_answer_the_same(
        model, x, tmp_path, 1e-5
    )
    assert loaded.conversion_report == model.conversion_report


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (Closure, "it calls 'dense' by another way than an attribute"),
        (OnlyInTraining, "it calls 'dense' by another way than an attribute"),
        (LateInTraining, "it calls 'late' in training alone"),
        (CallsCell, "it reads weights of 'rnn' itself, beside calling it"),
        (Tied, "it reads weights of 'dense' itself, beside calling it"),
        (Normalized, "holds 'norm', which cancels the scales of what comes before"),
        (WithoutTwins, "holds no layer that has a twin"),
    ],
)
def test_what_is_left_as_it_is(layer, reason):
    network = network_of(layer(name="own"))
    model = convert(network)
    row = model.conversion_report["own"]
    assert row.num_random == 0 and reason in row.reason
    assert type(model.primary.get_layer("own")) is layer
    assert_equal_at_centre(network, model)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "num_random"),
    [
        (OneByOne, 4 + 4 + 4),
        (Unused, 4),
        (HoldsOneWithoutConfiguration, 4),
        (SelfAttention, 6 + 6 + 6 + 4),
    ],
    ids=str,
)
def test_layers_that_it_calls_one_by_one_or_never_or_that_stay(layer, num_random):
    network = network_of(layer(name="own"))
    model = convert(network)
    assert model.conversion_report["own"].num_random == num_random
    assert_equal_at_centre(network, model)
    x, g = keras_networks.inputs_of(network), model.sample_scales(1, seed=1)[0]
    drawn = model.draw(scales=g)
    np.testing.assert_allclose(drawn(x), model(x, scales=g), rtol=1e-4, atol=1e-5)


def called_twice(own):
    x = inputs = keras.Input((5, 4))
    x = layers.Flatten()(own(own(x), reverse=True))
    x = layers.Dense(keras_networks.NUM_CLASSES, name="logits")(x)
    return keras_networks.randomized(keras.Model(inputs, x))


def test_a_kernel_that_a_second_call_reads():
    model = convert(called_twice(TiedInSecondCall(name="own")))
    reason = model.conversion_report["own"].reason
    assert "it reads weights of 'dense' itself, beside calling it" in reason


@pytest.mark.few(1)
@pytest.mark.parametrize("layer", [OtherInSecondCall, LateInSecondCall])
def test_a_layer_that_a_second_call_uses(layer, tmp_path):
    network = called_twice(layer(name="own"))
    model = convert(network)
    generated = model.conversion_report["own"].generated
    assert generated == ("first/scale", "second/scale")
    assert_equal_at_centre(network, model)
    keras_networks.assert_saved_and_served_answer_the_same(
        model, keras_networks.inputs_of(network), tmp_path, 1e-5
    )


def test_a_bias_may_be_read_if_it_is_not_generated():
    network = network_of(ReadsBias(name="own"))
    model = convert(network)
    assert model.conversion_report["own"].generated == ("dense/scale",)
    assert_equal_at_centre(network, model)
    for weight in model.primary.trainable_variables:
        weight.assign(weight + 0.1)
    x, g = keras_networks.inputs_of(network), model.sample_scales(1, seed=1)[0]
    drawn = model.draw(scales=g)
    np.testing.assert_allclose(drawn(x), model(x, scales=g), rtol=1e-4, atol=1e-5)
    report = convert(network, random="scale_and_bias").conversion_report
    assert "it reads weights of 'dense' itself" in report["own"].reason


def test_whole_kernels_do_not_mind_a_normalisation():
    model = convert(network_of(Normalized(name="own")), random="kernel")
    assert model.conversion_report["own"].generated == ("dense/kernel",)


def assert_entered_by_its_configuration(network):
    model = convert(network)
    assert model.conversion_report["own"].generated == ("dense/scale",)
    assert_equal_at_centre(network, model)
    again = type(model).from_config(model.get_config())
    assert again.num_random == model.num_random


def test_other_ways_to_call_one():
    inputs = keras.Input((5, 4))
    doubled = layers.Rescaling(2.0)(inputs)
    x = TwoInputs(name="own")([inputs, doubled], factor=0.5, other=inputs)
    x = layers.Dense(keras_networks.NUM_CLASSES)(layers.Flatten()(x))
    network = keras_networks.randomized(keras.Model(inputs, x))
    assert_entered_by_its_configuration(network)


@register
class Dictionaries(layers.Layer):
    """Takes and returns tensors by name."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, name="dense")

    def call(self, inputs, *, factors):
        return {"out": self.dense(inputs["in"]) * factors["all"][0]}


def test_arguments_by_name():
    inputs = keras.Input((5, 4))
    found = Dictionaries(name="own")({"in": inputs}, factors={"all": [inputs]})
    x = layers.Dense(keras_networks.NUM_CLASSES)(layers.Flatten()(found["out"]))
    network = keras_networks.randomized(keras.Model(inputs, x))
    assert_entered_by_its_configuration(network)


@register
class Nameless(layers.Layer):
    """Keras takes a name to be among arguments called `kwargs` alone."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = layers.Dense(4, name="dense")

    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.slow
def test_names_are_kept_without_a_configuration_of_ones_own():
    """Keras's own for such a class lacks the name."""
    network = network_of(
        MadeInBuild(name="own"), Nameless(name="x"), Closure(name="kept")
    )
    model = convert(network)
    names = [layer.name for layer in network.layers]
    for copied in (model.primary, model.draw(seed=1)):
        assert [layer.name for layer in copied.layers] == names
    again = convert(model.primary).conversion_report["own"]
    assert again.num_random and again.reason == "holds layers that are random already"
    assert convert(model.primary, skip="own").conversion_report["own"].num_random == 0


def test_a_normalisation_behind_one_is_told_of():
    network = network_of(MadeInBuild(name="own"), layers.BatchNormalization())
    reason = convert(network).conversion_report["own"].reason
    assert "may cancel the scale of its last one" in reason


@pytest.mark.slow
def test_arguments_stand_for_all_that_is_inside():
    network = network_of(Block(name="own"))
    assert convert(network, skip="own").conversion_report["own"].num_random == 0
    model = convert(network, only="own", freeze="own")
    assert [row.path for row in model.conversion_report if row.num_random] == ["own"]
    assert not model.primary.get_layer("own").trainable_variables


@register
class RandomInside(layers.Layer):
    """Holds layers of this library itself, one of them in a wrapper."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = bhn_tf.layers.WeightNormDense(4, name="dense")
        self.each = layers.TimeDistributed(bhn_tf.layers.WeightNormDense(4))
        self.norm = bhn_tf.layers.BatchNormalization(name="norm")

    def call(self, inputs, training=None):
        return self.norm(self.each(self.dense(inputs)), training=training)


@register
class RandomInTuple(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.held = (bhn_tf.layers.WeightNormDense(4, name="dense"),)

    def call(self, inputs):
        return self.held[0](inputs)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"skip": "own"}, {"only": "logits"}], ids=str)
def test_random_layers_inside_are_left_out_too(arguments, tmp_path):
    network = network_of(RandomInside(name="own"))
    model = convert(network, **arguments)
    rows = {row.path: row for row in model.conversion_report}
    assert rows["own"].num_random == 0 and "nothing is generated" in rows["own"].reason
    assert model.num_random == model.conversion_report.num_random == 3
    assert_equal_at_centre(network, model)
    assert {layer.random for layer in inside_of_own(model)} == {"none"}
    x = keras_networks.inputs_of(network)
    expected = model(x, scales=model.sample_scales(1, seed=1)[0])
    np.testing.assert_allclose(model.draw(seed=1)(x), expected, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.num_random == 3
    assert_equal_at_centre(network, loaded)


def inside_of_own(model):
    held = keras_adapter.layers_of(model.primary.get_layer("own"))
    return [layer for layer in held if hasattr(layer, "random")]


def test_random_layers_that_cannot_be_left_out_are_named():
    network = network_of(RandomInTuple(name="own"))
    with pytest.raises(ValueError, match="'own' holds layers .*`random='none'` in the"):
        convert(network, skip="own")
    reason = convert(network).conversion_report["own"].reason
    assert "what it generates already stays random" in reason


@register
class Scaled(layers.Layer):
    """Computes with the inputs, and with a weight of its own."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, name="dense")

    def build(self, input_shape):
        self.factor = self.add_weight(shape=input_shape[-1:], initializer="ones")
        self.dense.build(input_shape)

    def call(self, inputs):
        return keras.ops.tanh(inputs) * self.factor + self.dense(inputs)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [Block, Scaled])
def test_precision(layer):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        # The class does not pass its policy on to the layers that it makes.
        network = network_of(layer(name="own"))
        model = convert(network)
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.conversion_report["own"].num_random
    x = keras_networks.inputs_of(network)
    found = model(x, scales=model.hypernet.center())
    assert found.dtype == "float16"
    difference = tf.cast(found, "float32") - tf.cast(network(x), "float32")
    assert np.abs(difference).max() < 5e-2


@pytest.mark.slow
def test_an_entered_layer_keeps_its_configuration():
    network = network_of(Block(name="own"))
    layer = convert(network).primary.get_layer("own")
    clone = EnteredLayer.from_config(layer.get_config())
    assert clone.get_config() == layer.get_config()
    assert [v.path for v in clone.weights] == [v.path for v in layer.weights]


@register
class Doubled(layers.Wrapper):
    """A wrapper, whose `from_config`, Keras's own, takes the configuration apart."""

    def call(self, inputs):
        return 2 * self.layer(inputs)


def test_a_wrapper_is_drawn_copied_and_saved(tmp_path):
    network = keras.Sequential(
        [keras.Input((4,)), Doubled(layers.Dense(3, "tanh")), layers.Dense(2)]
    )
    model = bhn_tf.from_keras(network, "mean_field")
    assert model.conversion_report["doubled"].generated == ("layer/scale",)
    x = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
    expected = model.predict_samples(x, num_samples=1, seed=1, verbose=0)[:, 0]
    for _ in range(2):
        raw = model.draw(seed=1).predict(x, verbose=0)
        np.testing.assert_allclose(keras.ops.softmax(raw), expected, rtol=1e-5)
    copied = bhn_tf.from_keras(model.primary, "mean_field")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for other in (copied, loaded):
        np.testing.assert_allclose(
            other.predict(x, num_samples=0, verbose=0),
            model.predict(x, num_samples=0, verbose=0),
            rtol=1e-5,
        )


@register
class Forgetful(layers.Layer):
    def __init__(self, activation="linear", units=4, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(units, activation, name="dense")

    def call(self, inputs):
        return self.dense(inputs)

    def get_config(self):
        return super().get_config()


def test_arguments_that_a_configuration_leaves_out_are_told_of():
    network = network_of(Forgetful("tanh", units=4, name="own"))
    with pytest.warns(UserWarning, match=r"Forgetful leaves out \['activation'\]"):
        convert(network)
    convert(network_of(Forgetful(name="own")))


def test_lora_inside_is_merged_and_told_of():
    own = MadeInBuild(name="own")
    network = network_of(own)
    own._dense.enable_lora(2)
    own._dense.lora_kernel_b.assign(keras.ops.ones((2, 3)))
    model = convert(network)
    assert "LoRA in them is merged" in model.conversion_report["own"].reason
    assert_equal_at_centre(network, model)


def test_quantised_layers_inside_are_refused():
    own = MadeInBuild(name="own")
    network = network_of(own)
    own._dense.quantize("int8")
    with pytest.raises(ValueError, match="'own' holds 'first', whose kernel is quan"):
        convert(network)
    with pytest.raises(ValueError, match="of the layer 'first' have no place in its"):
        convert(network, skip="own")


@register
class KnowsItsShape(MadeInBuild):
    """Refuses to be called with tensors that Keras takes for sparse, as Gemma's."""

    def call(self, inputs):
        return super().call(keras.ops.mean(inputs[..., None], axis=-1))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 4)


def test_the_shape_that_a_class_knows_is_taken():
    inputs = keras.Input((5, 4))
    x = KnowsItsShape(name="own")(inputs * np.float32(2.0))
    x = layers.Dense(keras_networks.NUM_CLASSES)(layers.Flatten()(x))
    network = keras_networks.randomized(keras.Model(inputs, x))
    model = convert(network)
    assert model.conversion_report["own"].num_random == 3 + 4
    assert_equal_at_centre(network, model)


def test_an_own_layer_in_a_wrapper():
    network = keras.Sequential(
        [
            keras.Input((3, 5, 4)),
            layers.TimeDistributed(Steps(name="own"), name="each"),
            layers.Flatten(),
            layers.Dense(keras_networks.NUM_CLASSES),
        ]
    )
    model = convert(keras_networks.randomized(network))
    reason = model.conversion_report["each/own"].reason
    assert reason == "Steps is not entered: no graph calls it, but another layer does"
    x = keras_networks.inputs_of(network)
    found = model(x, scales=model.hypernet.center())
    np.testing.assert_allclose(found, network(x), rtol=1e-4, atol=1e-5)


@register
class Steps(MadeInBuild):
    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 4)
