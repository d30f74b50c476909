"""Inputs named like columns of a file are served under predictable names."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.serving.names import output_names, served_names


@pytest.mark.parametrize(
    "names, served",
    [
        (["age", "Year_1"], ["age", "Year_1"]),
        (
            ["mean radius", "a.b", "a-b", "größe"],
            ["mean_radius", "a_b", "a_b_2", "gr__e"],
        ),
        (["2nd", "_x", "%"], ["input_2nd", "input__x", "input__"]),
        (["class", "self", "lambda"], ["input_class", "input_self", "input_lambda"]),
        # An input that has the name already keeps it, whatever its position.
        (["a b", "a_b", "a-b", "a_b_2"], ["a_b_3", "a_b", "a_b_4", "a_b_2"]),
        # TensorFlow takes these for one name.
        (["Mean", "MEAN", "mean"], ["Mean", "MEAN_2", "mean_3"]),
        # Free for the scalars of `sample`.
        (["num samples", "Seed"], ["num_samples_2", "Seed_2"]),
        (["seed"], ["seed"]),
    ],
)
def test_the_rule(names, served):
    assert served_names(names) == served


COLUMNS = ("mean radius", "2nd.area", "mean-radius", "class", "Age", "age")
SERVED = (
    "mean_radius",
    "input_2nd_area",
    "mean_radius_2",
    "input_class",
    "Age",
    "age_2",
)


def named(as_dictionary):
    inputs = {name: keras.Input((1,), name=name) for name in COLUMNS}
    hidden = keras.layers.Concatenate()(list(inputs.values()))
    outputs = WeightNormDense(3, name="class-of")(hidden)
    others = WeightNormDense(2, name="size.of-it")(hidden)
    given = inputs if as_dictionary else list(inputs.values())
    return bhn_tf.BayesianHypernet(
        keras.Model(given, [outputs, others]), "mean_field", ["categorical"] * 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("as_dictionary", [True, False])
def test_columns_of_a_file_are_trained_on_exported_and_asked(as_dictionary, tmp_path):
    model = named(as_dictionary)
    model.compile("adam", jit_compile=False)
    x = np.random.default_rng(0).normal(size=(len(COLUMNS), 8, 1)).astype("float32")
    x[COLUMNS.index("class")] = np.arange(8)[:, None] % 3
    rows = dict(zip(COLUMNS, x, strict=True))
    rows["class"] = rows["class"].astype("int64")
    fed = rows if as_dictionary else list(rows.values())
    model.fit(fed, [np.arange(8) % 3, np.arange(8) % 2], verbose=0)
    path = model.export(tmp_path, num_samples=2)
    card = json.loads(pathlib.Path(path, "assets.extra/model_card.json").read_text())
    assert sorted(card["input_names"].values()) == sorted(COLUMNS)
    loaded = tf.saved_model.load(path)
    function = loaded.signatures["deterministic"]
    specs = function.structured_input_signature[1]
    assert set(specs) == set(card["input_names"])
    assert specs["input_class"].dtype == "int64"
    if not as_dictionary:
        assert card["input_names"] == dict(zip(SERVED, COLUMNS, strict=True))
    asked = {name: rows[column] for name, column in card["input_names"].items()}
    answers = function(**{k: tf.constant(v, specs[k].dtype) for k, v in asked.items()})
    expected = model.predict(fed, num_samples=0, verbose=0)
    for name, mean in zip(("class-of", "size.of-it"), expected, strict=True):
        np.testing.assert_allclose(answers[f"{name}_mean"], mean, rtol=1e-5)


def of_declared_images(kind):
    image = keras.Input((4,), name="image")
    layers = [keras.layers.Rescaling(1 / 255), WeightNormDense(3)]
    if kind == "sequential":
        return keras.Sequential([image, *layers])
    inputs = {"single": image, "list": [image], "dictionary": {"image": image}}
    return keras.Model(inputs[kind], layers[1](layers[0](image)))


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
@pytest.mark.parametrize("kind", ["sequential", "single", "list", "dictionary"])
def test_columns_that_the_network_does_not_take_change_no_dtype(kind, tmp_path):
    model = bhn_tf.BayesianHypernet(of_declared_images(kind), "mean_field")
    model.compile("adam", jit_compile=False)
    x = {"image": np.full((6, 4), 200, "uint8"), "day": np.arange(6)}
    model.fit(x, np.arange(6) % 3, verbose=0)
    loaded = tf.saved_model.load(model.export(tmp_path, 2, "deterministic"))
    specs = loaded.signatures["deterministic"].structured_input_signature[1]
    assert [spec.dtype for spec in specs.values()] == [tf.uint8]


def test_outputs_are_named_by_keys_or_by_layers_and_not_by_counters():
    """A key that looks like one of Keras's names is still a key."""
    inputs = keras.Input((3,))
    first, second = WeightNormDense(2), WeightNormDense(2)
    own = WeightNormDense(2, name="own")
    keys = sorted([first.name, "size"])
    outputs = dict(zip(keys, [second(inputs), first(inputs)], strict=True))
    assert output_names(keras.Model(inputs, outputs), keys) == tuple(keys)
    # Keras names operations as it does layers.
    outputs = [first(inputs), own(inputs), second(inputs) + 1.0]
    network = keras.Model(inputs, outputs)
    found = output_names(network, network.output_names)
    assert found == ("output_0", "own", "output_2")

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = WeightNormDense(2)

        def call(self, inputs):
            return {self.dense.name: self.dense(inputs), "size": inputs}

    network = Subclassed()
    assert output_names(network, [network.dense.name]) == (network.dense.name,)


def test_outputs_that_would_be_served_under_one_name_are_refused(tmp_path):
    inputs = keras.Input((2,))
    outputs = {name: WeightNormDense(2, name=name)(inputs) for name in ("y", "y_mean")}
    likelihoods = {"y": "categorical", "y_mean": "gaussian"}
    model = bhn_tf.BayesianHypernet(
        keras.Model(inputs, outputs), "mean_field", likelihoods
    )
    with pytest.raises(ValueError, match="served as .'y_mean_std'.: rename one"):
        model.export(tmp_path / "model")
    assert not (tmp_path / "model").exists()
