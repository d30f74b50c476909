"""`only`, `skip`, `freeze`, `hypernet`, and what is refused."""

import keras
import numpy as np
import pytest
from keras import layers

import bhn_tf
from bhn_tf.conversion.selection import paths_of_layers
from tests import networks
from tests.conversion import keras_networks


def convert(network, **kwargs):
    return bhn_tf.from_keras(network, "mean_field", **kwargs)


def random_paths(model):
    return {row.path for row in model.conversion_report if row.num_random}


ALL = {"branch/conv", "hidden", "logits"}
SELECTIONS = {
    "name": ("hidden", {"hidden"}),
    "names": (["hidden", "logits"], {"hidden", "logits"}),
    "inner name": ("conv", {"branch/conv"}),
    "path": (["branch/conv"], {"branch/conv"}),
    "nested model": ("branch", {"branch/conv"}),
    "class": (layers.Dense, {"hidden", "logits"}),
    "classes": ([layers.Dense, layers.Conv2D], ALL),
    "function": (lambda layer: layer.name.startswith("h"), {"hidden"}),
    "mixed": ([layers.Conv2D, "hidden"], {"branch/conv", "hidden"}),
}


def two_branches():
    network = keras_networks.make("two_branches")
    network.get_layer("branch").layers[0].name = "conv"
    return network


@pytest.mark.parametrize("entries, expected", SELECTIONS.values(), ids=SELECTIONS)
def test_only(entries, expected):
    network = two_branches()
    model = convert(network, only=entries)
    assert random_paths(model) == expected
    for row in model.conversion_report:
        if row.path in ALL - expected:
            assert "`only`" in row.reason
    plain = model.primary.get_layer("logits")
    assert (type(plain) is layers.Dense) == ("logits" not in expected)
    x = keras_networks.inputs_of(network)
    centre = model(x, scales=model.hypernet.center())
    np.testing.assert_allclose(centre, network(x), atol=1e-5)


@pytest.mark.parametrize("entries, expected", SELECTIONS.values(), ids=SELECTIONS)
def test_skip(entries, expected):
    if expected == ALL:
        with pytest.raises(ValueError, match="would be random"):
            convert(two_branches(), skip=entries)
        return
    model = convert(two_branches(), skip=entries)
    assert random_paths(model) == ALL - expected
    for path in expected:
        assert "`skip`" in model.conversion_report[path].reason


def test_only_and_skip_with_layers():
    network = two_branches()
    hidden, logits = network.get_layer("hidden"), network.get_layer("logits")
    assert random_paths(convert(network, only=[hidden])) == {"hidden"}
    model = convert(network, only=[hidden, logits], skip=logits)
    assert random_paths(model) == {"hidden"}


NAMESAKES = {"conv", "left/conv", "left/logits", "right/conv", "right/logits"}


def namesakes():
    """Layers of the same names in two nested models, and around them."""

    def branch(name):
        stack = [layers.Dense(4, name="conv"), layers.Dense(3, name="logits")]
        return keras.Sequential([keras.Input((5,)), *stack], name=name)

    inputs = keras.Input((4,))
    x = layers.Dense(5, activation="relu", name="conv")(inputs)
    both = layers.Add()([branch("left")(x), branch("right")(x)])
    return keras.Model(inputs, layers.Softmax()(both))


OBJECTS = {
    "outer": (lambda n: n.get_layer("conv"), {"conv"}),
    "inner": (lambda n: n.get_layer("left").get_layer("conv"), {"left/conv"}),
    "model": (lambda n: [n.get_layer("right")], {"right/conv", "right/logits"}),
    "model and layer": (
        lambda n: [n.get_layer("right"), n.get_layer("conv")],
        {"conv", "right/conv", "right/logits"},
    ),
    "layer and name": (
        lambda n: [n.get_layer("conv"), "left/logits"],
        {"conv", "left/logits"},
    ),
    "all": (lambda n: n, NAMESAKES),
}


@pytest.mark.parametrize("chosen, expected", OBJECTS.values(), ids=OBJECTS)
def test_a_layer_stands_for_itself_and_not_for_its_namesakes(chosen, expected):
    network = namesakes()
    assert random_paths(convert(network, only=chosen(network))) == expected
    if expected != NAMESAKES:
        model = convert(network, skip=chosen(network))
        assert random_paths(model) == NAMESAKES - expected
    model = convert(network, freeze=chosen(network))
    frozen = {
        path
        for layer, (path,) in paths_of_layers(model.primary).items()
        if path in NAMESAKES and not layer.trainable
    }
    assert frozen == expected


def test_a_name_stands_for_every_layer_that_has_it():
    model = convert(namesakes(), only="conv")
    assert random_paths(model) == {"conv", "left/conv", "right/conv"}


@pytest.mark.parametrize("argument", ["only", "skip", "freeze"])
@pytest.mark.parametrize("name", ["conv", "left"])
def test_a_layer_of_another_network_is_refused(argument, name):
    other = namesakes().get_layer(name)
    with pytest.raises(ValueError, match=f"`{argument}` holds a layer '{name}'"):
        convert(namesakes(), **{argument: ["logits", other]})


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"only": "conv"}, {"norm"}),
        ({"only": "norm"}, {"norm"}),
        ({"only": "norm_after_relu"}, {"norm_after_relu"}),
        ({"only": keras.layers.BatchNormalization}, {"norm", "norm_after_relu"}),
        ({"skip": "conv"}, {"conv_relu", "logits"}),
        ({"skip": "norm"}, {"conv_relu", "logits"}),
        ({"only": ["norm", "logits"], "skip": "norm"}, {"logits"}),
        ({"only": ["norm", "conv"], "random": "kernel"}, {"norm", "conv"}),
    ],
)
def test_selections_and_normalisation(arguments, expected):
    network = keras_networks.make("normalized_cnn")
    model = convert(network, **arguments)
    assert random_paths(model) == expected
    x = keras_networks.inputs_of(network)
    centre = model(x, scales=model.hypernet.center())
    np.testing.assert_allclose(centre, network(x), atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("entries, expected", SELECTIONS.values(), ids=SELECTIONS)
def test_freeze(entries, expected):
    model = convert(two_branches(), freeze=entries, random="scale_and_bias")
    primary = model.primary
    of_path = {
        "branch/conv": primary.get_layer("branch").layers[0],
        "hidden": primary.get_layer("hidden"),
        "logits": primary.get_layer("logits"),
    }
    for path, layer in of_path.items():
        assert layer.trainable == (path not in expected)
    x = keras_networks.inputs_of(primary)
    before = {path: layer.kernel.numpy() for path, layer in of_path.items()}
    centre = model.hypernet.center().numpy()
    model.compile("adam", jit_compile=False)
    model.fit(x, np.arange(6) % 3, verbose=0)
    for path, layer in of_path.items():
        is_same = np.array_equal(layer.kernel, before[path])
        assert is_same == (path in expected)
    # Generated values are trained none the less.
    assert (model.hypernet.center().numpy() != centre).all()


def test_frozen_layers_stay_frozen_after_loading(tmp_path):
    model = convert(keras_networks.make("resnet"), freeze=["conv_1a", "norm_1a"])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for layer, copied in zip(model.primary.layers, again.primary.layers, strict=True):
        assert copied.trainable == layer.trainable
    assert len(again.trainable_variables) == len(model.trainable_variables)


@pytest.mark.parametrize("argument", ["only", "skip", "freeze"])
def test_unknown_names(argument):
    with pytest.raises(ValueError, match="has no such layer") as error:
        convert(two_branches(), **{argument: ["hidden", "hiden"]})
    message = str(error.value)
    assert f"`{argument}`" in message and "'hiden'" in message
    assert "branch/conv" in message and "logits" in message
    with pytest.raises(TypeError, match=argument):
        convert(two_branches(), **{argument: [3]})
    with pytest.raises(ValueError, match="no such layer"):
        convert(two_branches(), **{argument: "hid"})


def test_models_that_cannot_be_converted():
    with pytest.raises(ValueError, match="`bhn_tf.layers` inside the class"):
        convert(networks.subclassed())
    with pytest.raises(ValueError, match="build"):
        convert(keras.Sequential([layers.Dense(3)]))
    with pytest.raises(TypeError, match="Keras model, got keras.Dense"):
        convert(layers.Dense(3))
    with pytest.raises(
        ValueError, match="'kernel', 'kernel_and_bias', 'rank_one', 'scale'"
    ):
        convert(keras_networks.mlp(), random="none")

    class OwnCall(keras.Sequential):
        def call(self, inputs, **kwargs):
            return 2 * super().call(inputs, **kwargs)

    with pytest.raises(ValueError, match="has a `call` of its own"):
        convert(OwnCall([keras.Input((3,)), layers.Dense(2)]))


def test_a_sequential_model_that_was_built_later():
    network = keras.Sequential([layers.Dense(5, activation="relu"), layers.Dense(3)])
    network.build((None, 4))
    x = np.ones((2, 4), "float32")
    model = convert(network)
    centre = model(x, scales=model.hypernet.center())
    np.testing.assert_allclose(centre, network(x), atol=1e-6)


def test_nothing_to_convert():
    network = keras.Sequential(
        [
            keras.Input((5, 2)),
            layers.RNN(layers.LSTMCell(2), name="words"),
            layers.PReLU(),
        ]
    )
    with pytest.raises(ValueError, match="would be random") as error:
        convert(network)
    message = str(error.value)
    assert "runs the cell LSTMCell" in message and "its slopes stay" in message
    assert "Supported are Dense" in message


def wide(units):
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(units, "relu"), layers.Dense(3)]
    )


@pytest.mark.parametrize(
    ("units", "random", "expected"),
    [
        (10, "scale", "RealNVP"),
        (3_297, "scale", "RealNVP"),
        (3_298, "scale", "Chunked"),
        (13_000, "kernel_and_bias", "MeanField"),
    ],
)
def test_hypernet_is_chosen_by_the_number_of_generated_values(
    units, random, expected, caplog
):
    caplog.set_level("INFO", logger="absl")
    model = bhn_tf.from_keras(wide(units), random=random)
    assert type(model.hypernet).__name__ == expected
    (said,) = caplog.messages
    assert f"the hypernet {expected} for D = {model.num_random:,} " in said
    assert "RealNVP up to 3,300, Chunked up to 100,000, MeanField above" in said
    bhn_tf.from_keras(wide(10), "mean_field")
    assert len(caplog.messages) == 1


def test_arguments_of_the_model():
    hypernet = bhn_tf.hypernets.MeanField(initial_stddev=0.3)
    model = bhn_tf.from_keras(
        keras_networks.mlp(),
        hypernet,
        likelihood="gaussian",
        prior_stddev=2.0,
        num_examples=50,
        seed=3,
    )
    assert model.hypernet is hypernet and model.num_examples == 50
    assert isinstance(model.likelihood, bhn_tf.likelihoods.Gaussian)
    assert model.prior_stddev == 2.0 and model.noise.seed == 3
    with pytest.raises(ValueError, match="unknown"):
        convert(keras_networks.mlp(), unknown=1)


def test_none_stands_for_no_layer():
    model = convert(two_branches(), skip=None, freeze=None)
    assert random_paths(model) == ALL


@pytest.mark.parametrize("argument", ["only", "skip", "freeze"])
def test_what_names_no_layer_is_refused(argument):
    with pytest.raises(TypeError, match=f"`{argument}` to hold names .* got 3"):
        convert(two_branches(), **{argument: 3})
