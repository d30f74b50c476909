"""Every kind of model is exported, and answers any number of rows."""

import functools
import json
import pathlib
from collections import OrderedDict

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, Deterministic, MCDropout
from bhn_tf.layers import WeightNormConv2D, WeightNormDense
from bhn_tf.serving.export import repeats_all_steps
from bhn_tf.serving.signatures import SIGNATURES, Signatures
from tests import networks

SCORES = {"mean", *bhn_tf.uncertainty.SCORES}
SPREADS = {"mean", "std", "epistemic_std", "aleatoric_std"}


def dropout():
    layers = networks.plain().layers
    return MCDropout(
        keras.Sequential(
            [keras.Input((4,)), layers[0], keras.layers.Dropout(0.4), layers[1]]
        )
    )


def gaussian():
    network = keras.Sequential([keras.Input((4,)), WeightNormDense(2)])
    likelihood = bhn_tf.likelihoods.Gaussian(heteroscedastic=True)
    return bhn_tf.BayesianHypernet(network, "mean_field", likelihood)


def bernoulli():
    network = keras.Sequential([keras.Input((4,)), WeightNormDense(3)])
    return bhn_tf.BayesianHypernet(network, "mean_field", "bernoulli")


MODELS = {
    **{
        name: lambda make=make: networks.bayesian(make())
        for name, make in networks.PRIMARIES.items()
    },
    "iaf": lambda: networks.bayesian(hypernet=bhn_tf.hypernets.IAF(2, (8,))),
    "nothing random": lambda: networks.bayesian(networks.plain()),
    "kernels": lambda: networks.bayesian(networks.sequential(random="kernel")),
    "gaussian": gaussian,
    "bernoulli": bernoulli,
    "deterministic": lambda: Deterministic(networks.plain()),
    "deep ensemble": lambda: DeepEnsemble([networks.plain(), networks.plain()]),
    "dropout": dropout,
}


FROZEN = {"num_samples": 5, "ensemble": True, "seed": 7}


def load(path):
    served = tf.saved_model.load(path)
    # The functions do not outlive the loaded object.
    return served, served.signatures


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Returns a model by name, its folder and its signatures; exports it only once."""

    @functools.cache
    def make(name, is_frozen):
        model = MODELS[name]()
        how = FROZEN if is_frozen else {"num_samples": 3}
        path = model.export(tmp_path_factory.mktemp("served"), **how)
        return model, path, load(path)

    def of(name, is_frozen=False):
        model, path, (_, served) = make(name, is_frozen)
        return model, path, served

    return of


@pytest.mark.few(1)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_answers_any_number_of_rows(name, exported):
    model, _, served = exported(name)
    x, _ = networks.data(64)
    assert set(served) == set(SIGNATURES)
    keys = SPREADS if name == "gaussian" else SCORES
    for rows in (0, 1, 3, 64):
        inputs = tf.constant(x[:rows])
        answers = served["serving_default"](inputs=inputs)
        assert set(answers) == keys
        samples = served["sample"](
            inputs=inputs, num_samples=tf.constant(4), seed=tf.constant(1)
        )["samples"]
        (centre,) = served["deterministic"](inputs=inputs).values()
        for value in (*answers.values(), samples, centre):
            assert value.shape[0] == rows and np.isfinite(value).all()
        if rows:
            np.testing.assert_allclose(
                centre,
                model.predict(x[:rows], num_samples=0, verbose=0),
                rtol=1e-5,
                atol=1e-6,
            )
    varies = name not in ("nothing random", "deterministic", "deep ensemble")
    assert samples.shape[1] == (4 if varies else 2 if name == "deep ensemble" else 1)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["sequential", "dropout", "gaussian"])
def test_requests_differ_and_seeds_repeat(name, exported):
    x = tf.constant(networks.data(8)[0])
    *_, served = exported(name)
    first, second = (served["serving_default"](inputs=x)["mean"] for _ in range(2))
    assert not np.array_equal(first, second)

    def sample(seed):
        return served["sample"](
            inputs=x, num_samples=tf.constant(5), seed=tf.constant(seed)
        )["samples"]

    np.testing.assert_array_equal(sample(3), sample(3))
    assert not np.array_equal(sample(3), sample(4))
    centres = [served["deterministic"](inputs=x)["mean"] for _ in range(2)]
    np.testing.assert_array_equal(*centres)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["sequential", "dropout", "deep ensemble"])
def test_a_frozen_ensemble_gives_the_same_answers_always(name, exported):
    model, _, served = exported(name, is_frozen=True)
    x, _ = networks.data(8)
    first, second = (served["serving_default"](inputs=tf.constant(x)) for _ in range(2))
    expected = model.predict_uncertainty(x, num_samples=5, seed=7, verbose=0)
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])
        np.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-5)
    samples = served["sample"](inputs=tf.constant(x))["samples"]
    np.testing.assert_allclose(
        samples,
        model.predict_samples(x, num_samples=5, seed=7, verbose=0),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        served["deterministic"](inputs=tf.constant(x))["mean"],
        model.predict(x, num_samples=0, verbose=0),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_frozen_ensemble_holds_no_flow(exported):
    model, path, _ = exported("sequential", is_frozen=True)
    saved = {name for name, _ in tf.train.list_variables(path + "/variables/variables")}
    kept = [name for name in saved if name.startswith("served")]
    layers = model.primary.trainable_variables
    assert len(kept) == len(layers)
    constants = [
        tuple(dim.size for dim in node.attr["value"].tensor.tensor_shape.dim)
        for node in graph_of(path).node
        if node.op == "Const"
    ]
    assert (5, model.num_random) in constants


def graph_of(path):
    saved = saved_model_pb2.SavedModel.FromString(
        pathlib.Path(path, "saved_model.pb").read_bytes()
    )
    return saved.meta_graphs[0].graph_def


# -- inputs and outputs ---------------------------------------------------------------


def two_by_two(names, as_dictionary):
    left, right = (
        keras.Input((size,), name=name)
        for size, name in zip((4, 3), names or (None, None), strict=True)
    )
    hidden = keras.layers.Concatenate()([left, right])
    kind = WeightNormDense(2, name=names and "kind")(hidden)
    size = WeightNormDense(1, name=names and "size")(hidden)
    if as_dictionary:
        inputs = {"left": left, "right": right}
        network = keras.Model(inputs, {"kind": kind, "size": size})
    else:
        network = keras.Model([left, right], [kind, size])
    return bhn_tf.BayesianHypernet(
        network, "mean_field", ["categorical", "gaussian"], num_examples=5
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "names, as_dictionary, arguments, outputs",
    [
        (("left", "right"), False, ("left", "right"), ("kind", "size")),
        (("left", "right"), True, ("left", "right"), ("kind", "size")),
        (None, False, ("input_0", "input_1"), ("output_0", "output_1")),
    ],
)
def test_several_inputs_and_outputs(names, as_dictionary, arguments, outputs, tmp_path):
    # Twice without names, since Keras counts the layers of a process.
    for _ in range(1 if names else 2):
        model = two_by_two(names, as_dictionary)
        _, served = load(model.export(tmp_path, num_samples=2))
        values = (tf.ones([5, 4]), tf.ones([5, 3]))
        x = dict(zip(arguments, values, strict=True))
        answers = served["serving_default"](**x)
        assert set(answers) == {
            *(f"{outputs[0]}_{key}" for key in SCORES),
            *(f"{outputs[1]}_{key}" for key in SPREADS),
        }
        centre = served["deterministic"](**x)
        expected = model.predict(
            x if as_dictionary else list(values), num_samples=0, verbose=0
        )
        expected = (
            expected if as_dictionary else dict(zip(outputs, expected, strict=True))
        )
        for output in outputs:
            np.testing.assert_allclose(
                centre[f"{output}_mean"], expected[output], rtol=1e-5
            )
        samples = served["sample"](**x, num_samples=tf.constant(4), seed=tf.constant(0))
        assert samples[f"{outputs[0]}_samples"].shape == (5, 4, 2)
        assert samples[f"{outputs[1]}_samples"].shape == (5, 4, 1)


@pytest.mark.slow
def test_columns_and_outputs_in_an_order_of_their_own(tmp_path):
    """Keras flattens an `OrderedDict` in its own order, not by name."""
    left, right = (keras.Input((2,), name=name) for name in ("left", "right"))
    hidden = keras.layers.Concatenate()([left, 10 * right])
    outputs = [("size", WeightNormDense(2)), ("kind", WeightNormDense(2))]
    network = keras.Model(
        OrderedDict(right=right, left=left),
        OrderedDict((name, layer(hidden)) for name, layer in outputs),
    )
    parts = {"kind": "categorical", "size": "gaussian"}
    model = bhn_tf.BayesianHypernet(network, "mean_field", parts, num_examples=5)
    x = {"left": networks.data(5)[0][:, :2], "right": networks.data(5, 1)[0][:, :2]}
    raw = network(OrderedDict(right=x["right"], left=x["left"]))
    answers = model.predict(x, num_samples=0, verbose=0)
    np.testing.assert_allclose(answers["size"], raw["size"], rtol=1e-5)
    np.testing.assert_allclose(answers["kind"], tf.nn.softmax(raw["kind"]), rtol=1e-5)
    scores = model.predict_uncertainty(x, num_samples=2, verbose=0)
    assert set(scores["kind"]) == set(SCORES)
    _, served = load(model.export(tmp_path, num_samples=2))
    centre = served["deterministic"](**x)
    for name, values in answers.items():
        np.testing.assert_allclose(centre[f"{name}_mean"], values, rtol=1e-5)


def image_model():
    network = keras.Sequential(
        [
            keras.layers.Input((6, 6, 1)),
            keras.layers.Rescaling(1 / 255),
            WeightNormConv2D(2, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            WeightNormDense(2),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field", num_examples=8)
    return networks.compiled(model, run_eagerly=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_images_are_taken_as_the_trainer_was_fed(dtype, tmp_path):
    random = np.random.default_rng(0)
    x = random.integers(0, 256, size=(8, 6, 6, 1)).astype(dtype)
    model = image_model()
    model.fit(x, np.arange(8) % 2, verbose=0)
    model.save(tmp_path / "model.keras")
    for trained in (model, keras.saving.load_model(tmp_path / "model.keras")):
        asked = ("serving_default", "deterministic")
        _, served = load(trained.export(tmp_path / "served", 2, asked))
        spec = served["serving_default"].structured_input_signature[1]["inputs"]
        assert spec.dtype == ("uint8" if dtype == "uint8" else "float32")
        assert spec.shape.as_list() == [None, 6, 6, 1]
        centre = served["deterministic"](inputs=tf.constant(x, spec.dtype))["mean"]
        expected = model.predict(x, num_samples=0, verbose=0)
        np.testing.assert_allclose(centre, expected, rtol=1e-5)
        empty = served["serving_default"](inputs=tf.constant(x[:0], spec.dtype))
        assert empty["mean"].shape == (0, 2)


@pytest.mark.parametrize("as_dataset", [False, True])
def test_tokens_stay_integers(as_dataset, tmp_path):
    network = keras.Sequential(
        [
            keras.layers.Embedding(10, 3),
            keras.layers.GlobalAveragePooling1D(),
            WeightNormDense(2),
        ]
    )
    likelihood = bhn_tf.likelihoods.Categorical(from_logits=True)
    model = bhn_tf.BayesianHypernet(network, "mean_field", likelihood, num_examples=4)
    networks.compiled(model, run_eagerly=True)
    x, y = np.arange(24, dtype="int64").reshape(4, 6) % 10, np.arange(4) % 2
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
    model.fit(*((data,) if as_dataset else (x, y)), verbose=0)
    _, served = load(model.export(tmp_path, 2, "deterministic"))
    np.testing.assert_allclose(
        served["deterministic"](inputs=tf.constant(x))["mean"],
        model.predict(x, num_samples=0, verbose=0),
        rtol=1e-5,
    )


# -- what is refused and what lies beside ---------------------------------------------


def test_what_makes_no_sense_is_refused_before_anything_is_written(
    tmp_path, monkeypatch
):
    model = networks.bayesian()
    for arguments, message in (
        ({"num_samples": 0}, "num_samples"),
        ({"signatures": ("serving_default", "sampel")}, "sampel"),
        ({"signatures": ()}, "signatures"),
        ({"seed": 1}, "ensemble=True"),
    ):
        with pytest.raises(ValueError, match=message):
            model.export(tmp_path / "served", **arguments)
    with monkeypatch.context() as patched:
        # Before the work, too.
        patched.setattr(Signatures, "make", None)
        with pytest.raises(ValueError, match="gs://bucket/served is an address"):
            model.export("gs://bucket/served")
        with pytest.raises(TypeError, match=r"metrics\['curve'\]"):
            model.export(tmp_path / "served", metrics={"curve": object()})
    unbuilt = networks.bayesian(keras.Sequential([WeightNormDense(3)]))
    with pytest.raises(ValueError, match="no weights"):
        unbuilt.export(tmp_path / "served")
    assert not (tmp_path / "served").exists()


def test_inputs_named_like_the_scalars_of_sample_are_refused(tmp_path):
    inputs = [keras.Input((2,), name="seed"), keras.Input((2,), name="other")]
    outputs = WeightNormDense(3)(keras.layers.Concatenate()(inputs))
    model = networks.bayesian(keras.Model(inputs, outputs), "mean_field")
    with pytest.raises(ValueError, match="Rename the inputs"):
        model.export(tmp_path / "served")
    assert not (tmp_path / "served").exists()
    model.export(tmp_path / "served", signatures="deterministic")


def test_signatures_can_be_left_out(tmp_path):
    asked = ("deterministic", "serving_default")
    _, served = load(networks.bayesian().export(tmp_path, signatures=asked))
    assert set(served) == set(asked)


def test_the_model_card_counts_the_networks_that_answer(tmp_path):
    dropout = keras.Sequential([*networks.plain().layers, keras.layers.Dropout(0.5)])
    dropout.build((None, 4))
    for model, count in (
        (Deterministic(networks.plain()), 1),
        (DeepEnsemble([networks.plain(), networks.plain()]), 2),
        (MCDropout(dropout), 5),
    ):
        path = model.export(tmp_path, 5, signatures="deterministic")
        card = pathlib.Path(path, "assets.extra", "model_card.json").read_text()
        assert json.loads(card)["num_samples"] == count


def test_the_model_card_says_what_was_exported(tmp_path):
    model = networks.bayesian(num_examples=65)
    path = model.export(tmp_path, num_samples=3, metrics={"accuracy": 0.75})
    card = json.loads(pathlib.Path(path, "assets.extra", "model_card.json").read_text())
    assert card["num_examples"] == 65 and card["num_random"] == 8
    assert card["num_samples"] == 3 and card["metrics"] == {"accuracy": 0.75}
    assert card["hypernet"]["class"] == "RealNVP"
    assert card["likelihood"]["class"] == "Categorical"
    assert card["versions"]["tensorflow"] == tf.__version__
    _, served = load(path)
    assert set(card["signatures"]) == set(served)
    for name, function in served.items():
        for key, spec in function.structured_outputs.items():
            told = card["signatures"][name]["outputs"][key]
            assert told == {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
        told = card["signatures"][name]["inputs"]["inputs"]
        assert told == {"shape": [None, 4], "dtype": "float32"}


def test_warm_up_requests_are_answered(exported):
    apis = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2",
        reason="the format is that of the package tensorflow-serving-api",
    )
    _, path, served = exported("sequential")
    records = tf.data.TFRecordDataset(f"{path}/assets.extra/tf_serving_warmup_requests")
    asked = set()
    for record in records.as_numpy_iterator():
        request = apis.PredictionLog.FromString(record).predict_log.request
        inputs = {
            name: tf.constant(tf.make_ndarray(value))
            for name, value in request.inputs.items()
        }
        answers = served[request.model_spec.signature_name](**inputs)
        assert all(value.shape[0] == 1 for value in answers.values())
        asked.add(request.model_spec.signature_name)
    assert asked == set(SIGNATURES)


@pytest.mark.slow
def test_steps_that_keras_would_cut_off_are_refused(tmp_path):
    def exported(steps):
        network = keras.Sequential(
            [
                keras.Input((steps, 4)),
                keras.layers.TimeDistributed(WeightNormDense(3), name="each"),
                keras.layers.GlobalAveragePooling1D(),
                WeightNormDense(2),
            ]
        )
        model = bhn_tf.BayesianHypernet(network, "mean_field")
        path = model.export(tmp_path, signatures="deterministic")
        return model, tf.saved_model.load(path).signatures["deterministic"]

    # One row, and more steps.
    x = np.random.default_rng(0).normal(size=(1, 5, 4)).astype("float32")
    model, served = exported(5)
    expected = model.predict(x, num_samples=0, verbose=0)
    np.testing.assert_allclose(served(tf.constant(x))["mean"], expected, rtol=1e-5)
    if repeats_all_steps():
        pytest.skip("This version of Keras repeats all steps.")
    with pytest.raises(ValueError, match="'each' have a number of steps that is not"):
        exported(None)
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
