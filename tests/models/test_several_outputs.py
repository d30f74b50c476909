"""Several inputs and outputs have a likelihood each, and logs add up."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense

N = 60


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    left = random.normal(size=(N, 4)).astype("float32")
    right = random.normal(size=(N, 3)).astype("float32")
    kind = (left[:, 0] > 0).astype("int32")
    size = 2 * right[:, :1] + random.normal(size=(N, 1)).astype("float32")
    return [left, right], kind, size


def make_model(as_dictionary=False, **kwargs):
    left, right = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    hidden = keras.layers.Concatenate()(
        [
            WeightNormDense(5, activation="relu")(left),
            WeightNormDense(5, activation="relu")(right),
        ]
    )
    kind = WeightNormDense(2, name="kind")(hidden)
    size = WeightNormDense(2, name="size")(hidden)
    outputs = {"kind": kind, "size": size} if as_dictionary else [kind, size]
    likelihood = {
        "kind": "categorical",
        "size": bhn_tf.likelihoods.Gaussian(heteroscedastic=True),
    }
    return bhn_tf.BayesianHypernet(
        keras.Model([left, right], outputs),
        bhn_tf.hypernets.RealNVP(2, (4,)),
        likelihood=likelihood,
        **kwargs,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_intervals_are_of_the_outputs_that_are_numbers(data, as_dictionary):
    x, _, _ = data
    model = make_model(as_dictionary, num_examples=N)
    asked = {"num_samples": 4, "seed": 0, "verbose": 0}
    lower, upper = model.predict_interval(x, 0.9, batch_size=16, **asked)
    if as_dictionary:
        assert set(lower) == set(upper) == {"size"}
        mean = model.predict(x, **asked)["size"]
        low, high = lower["size"], upper["size"]
    else:
        assert lower[0] is None and upper[0] is None
        mean = model.predict(x, **asked)[1]
        (_, low), (_, high) = lower, upper
    assert low.shape == high.shape == (N, 1)
    assert (low < mean).all() and (mean < high).all()


def test_intervals_of_classes_alone_are_refused():
    inputs = keras.Input((4,))
    outputs = [WeightNormDense(2)(inputs), WeightNormDense(3)(inputs)]
    model = bhn_tf.BayesianHypernet(
        keras.Model(inputs, outputs), "mean_field", ["categorical", "categorical"]
    )
    with pytest.raises(ValueError, match="needs a regression likelihood"):
        model.predict_interval(np.zeros((2, 4), "float32"), verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_logs_add_up_with_loss_weights(data, as_dictionary):
    x, kind, size = data
    keras.utils.set_random_seed(0)
    model = make_model(as_dictionary)
    model.compile(
        "adam", metrics={"kind": ["accuracy"]}, loss_weights={"kind": 2.0, "size": 0.5}
    )
    y = {"kind": kind, "size": size}
    history = model.fit(x, y, epochs=2, batch_size=16, verbose=0).history
    scored = model.evaluate(x, y, verbose=0, return_dict=True)
    for logs in ({name: values[-1] for name, values in history.items()}, scored):
        assert "kind_accuracy" in logs
        np.testing.assert_allclose(
            logs["nll"], 2 * logs["kind_nll"] + 0.5 * logs["size_nll"], rtol=1e-5
        )
        np.testing.assert_allclose(
            logs["loss"], logs["nll"] + logs["kl"] / N, rtol=1e-5
        )


def test_labels_by_name_and_in_a_list_are_the_same(data):
    x, kind, size = data
    keras.utils.set_random_seed(0)
    model = make_model(num_examples=N)
    model.compile("adam")
    by_name = model.evaluate(
        x, {"size": size, "kind": kind}, verbose=0, seed=1, return_dict=True
    )
    listed = model.evaluate(x, [kind, size], verbose=0, seed=1, return_dict=True)
    assert by_name == pytest.approx(listed)


@pytest.mark.few(2)
@pytest.mark.parametrize("as_dictionary", [False, True])
@pytest.mark.parametrize("argument", ["metrics", "weighted_metrics"])
def test_metrics_of_one_argument_alone(data, as_dictionary, argument):
    x, kind, size = data
    model = make_model(as_dictionary, num_examples=N)
    metrics = {"size": ["mae"], "kind": ["accuracy"]}
    model.compile("adam", run_eagerly=True, **{argument: metrics})
    asked = {"num_samples": 0, "verbose": 0}
    logs = model.evaluate(x, {"kind": kind, "size": size}, return_dict=True, **asked)
    of_kind, of_size = keras.tree.flatten(model.predict(x, **asked))
    accuracy = np.mean(of_kind.argmax(axis=-1) == kind)
    assert logs["kind_accuracy"] == pytest.approx(accuracy)
    assert logs["size_mae"] == pytest.approx(np.abs(of_size - size).mean(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_predictions_have_the_structure_of_the_outputs(data, as_dictionary):
    x, _, _ = data
    model = make_model(as_dictionary)
    names = ["kind", "size"]

    def by_name(structure):
        return structure if as_dictionary else dict(zip(names, structure, strict=True))

    mean = by_name(model.predict(x, verbose=0, seed=1))
    samples = by_name(model.predict_samples(x, verbose=0, seed=1, num_samples=32))
    scores = by_name(model.predict_uncertainty(x, verbose=0, seed=1))
    assert mean["kind"].shape == (N, 2) and mean["size"].shape == (N, 1)
    for name in names:
        np.testing.assert_allclose(
            samples[name].mean(axis=1), mean[name], rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(scores[name]["mean"], mean[name], rtol=1e-5)
    assert set(scores["kind"]) == {"mean", *bhn_tf.uncertainty.SCORES}
    assert set(scores["size"]) == {"mean", "std", "epistemic_std", "aleatoric_std"}


@pytest.mark.slow
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_outputs_of_a_model_inside_keep_their_names_and_endings(
    data, as_dictionary, tmp_path
):
    """Both come from one operation, and only the second are probabilities."""
    (x, _), is_high, size = data
    inputs = keras.Input((4,))
    outputs = [WeightNormDense(1)(inputs), WeightNormDense(1, "sigmoid")(inputs)]
    names = ["heads", "heads_1"]
    if as_dictionary:
        names = ["is_high", "size"]
        outputs = dict(zip(names, reversed(outputs), strict=True))
    heads = keras.Model(inputs, outputs, name="heads")
    inputs = keras.Input((4,))
    kinds = {names[0]: "gaussian", names[1]: "bernoulli"}
    y = {names[0]: size, names[1]: is_high[:, None]}
    if as_dictionary:
        kinds = {"is_high": "bernoulli", "size": "gaussian"}
        y = {"is_high": is_high[:, None], "size": size}
    model = bhn_tf.BayesianHypernet(
        keras.Model(inputs, heads(inputs)), "mean_field", kinds
    )
    model.compile("adam", metrics={names[0]: ["mse"]})
    history = model.fit(x, y, verbose=0).history
    assert {f"{name}_nll" for name in names} < set(history)
    mean = keras.tree.flatten(model.predict(x, num_samples=0, verbose=0))
    raw = keras.tree.flatten(model.draw(scales=model.hypernet.center())(x))
    for found, expected in zip(mean, raw, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert list(loaded.likelihood.output_names) == names
    path = loaded.export(tmp_path / "served", 2, "deterministic")
    served = tf.saved_model.load(path).signatures["deterministic"]
    assert set(served.structured_outputs) == {f"{name}_mean" for name in names}


def test_it_is_saved_whole(data, tmp_path):
    x, kind, size = data
    model = make_model()
    model.compile("adam", loss_weights={"kind": 3.0})
    model.fit(x, [kind, size], verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.objective.loss_weights == [3.0, 1.0]
    for a, b in zip(
        model.predict(x, verbose=0, seed=1),
        loaded.predict(x, verbose=0, seed=1),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("save", ["whole", "weights"])
def test_each_output_keeps_its_likelihood_in_whatever_order_they_were_given(
    save, tmp_path
):
    """Keras has outputs in the order of their names; a dictionary may have another."""
    x = np.random.default_rng(0).normal(size=(30, 2)).astype("float32")
    y = {"warmth": 20 + x[:, :1], "load": 500 + 100 * x[:, 1:]}

    def make(names):
        inputs = keras.Input((2,))
        outputs = {name: WeightNormDense(1, name=name)(inputs) for name in sorted(y)}
        unit = bhn_tf.likelihoods.Standardized
        noise = bhn_tf.likelihoods.Gaussian
        return bhn_tf.BayesianHypernet(
            keras.Model(inputs, outputs),
            "mean_field",
            {name: unit(noise(0.3, trainable=True)) for name in names},
        )

    model = make(["warmth", "load"])
    model.compile("adam", loss_weights={"warmth": 2.0}, jit_compile=False)
    model.fit(x, y, epochs=2, verbose=0)
    if save == "whole":
        model.save(tmp_path / "m.keras")
        loaded = keras.saving.load_model(tmp_path / "m.keras")
        assert loaded.objective.loss_weights == model.objective.loss_weights
    else:
        model.save_weights(tmp_path / "m.weights.h5")
        loaded = make(["load", "warmth"])
        loaded.load_weights(tmp_path / "m.weights.h5")
    found, expected = (
        each.predict_uncertainty(x, verbose=0, seed=1) for each in (loaded, model)
    )
    for name in y:
        for score, values in expected[name].items():
            np.testing.assert_array_equal(found[name][score], values)


def test_one_joint_for_two_models_is_arranged_for_each():
    noise = {name: bhn_tf.likelihoods.Gaussian(0.5) for name in ("a", "b")}
    joint = bhn_tf.likelihoods.get(noise)
    models = []
    for names in (["a", "b"], ["b", "a"]):
        inputs = keras.Input((2,))
        outputs = [keras.layers.Dense(1, name=name)(inputs) for name in names]
        network = keras.Model(inputs, outputs)
        models.append(bhn_tf.baselines.Deterministic(network, joint))
    for model in models:
        parts = dict(zip(model.likelihood.names, model.likelihood.parts, strict=True))
        assert parts == noise
        assert model.likelihood.names == model.output_names
    assert joint.names == ["a", "b"]


def test_own_weights_follow_their_outputs():
    joint = bhn_tf.likelihoods.Joint(
        [bhn_tf.likelihoods.Gaussian(), bhn_tf.likelihoods.Laplace()],
        ["warmth", "load"],
        [1.0, 3.0],
    )
    joint.arrange(["load", "warmth"], [(None, "")] * 2)
    assert joint.loss_weights_by_output(None) == [3.0, 1.0]
    assert isinstance(joint.parts_of_outputs()[0], bhn_tf.likelihoods.Laplace)


@pytest.mark.slow
def test_weights_are_those_of_the_last_compile_and_not_of_the_bound(data):
    x, kind, size = data
    keras.utils.set_random_seed(0)
    model = make_model(num_examples=N)
    found = []
    for loss_weights in ({"kind": 3.0}, None):
        model.compile("adam", loss_weights=loss_weights)
        logs = model.evaluate(x, [kind, size], verbose=0, seed=1, return_dict=True)
        weight = 3.0 if loss_weights else 1.0
        assert logs["nll"] == pytest.approx(
            weight * logs["kind_nll"] + logs["size_nll"], rel=1e-5
        )
        # The bound on the evidence of the data does not contain them.
        found.append(model.elbo(x, [kind, size], num_samples=5, seed=1).mean)
    assert found[0] == found[1]


def test_labels_by_wrong_names_are_refused(data):
    x, kind, size = data
    model = make_model(as_dictionary=True, num_examples=N)
    model.compile("adam")
    with pytest.raises(ValueError, match="'kind', 'size'.*'kinds', 'size'"):
        model.fit(x, {"kinds": kind, "size": size}, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_rows_have_one_weight_or_one_for_each_output(data, as_dictionary):
    x, kind, size = data
    model = make_model(as_dictionary, num_examples=N)
    model.compile("adam", loss_weights={"kind": 2.0})
    names = ["kind", "size"]

    def structure(*values):
        return dict(zip(names, values, strict=True)) if as_dictionary else list(values)

    y = structure(kind, size)
    weight, nothing = np.linspace(0, 2, N), np.zeros(N)

    def scored(sample_weight):
        return model.evaluate(
            x, y, sample_weight=sample_weight, verbose=0, seed=1, return_dict=True
        )

    shared, of_each = scored(weight), scored(structure(weight, weight))
    assert shared == pytest.approx(of_each, rel=1e-5)
    of_one = scored(structure(weight, nothing))
    assert of_one["size_nll"] == 0
    assert of_one["nll"] == pytest.approx(2 * of_one["kind_nll"], rel=1e-5)
    assert of_one["kind_nll"] == pytest.approx(shared["kind_nll"], rel=1e-5)
    history = model.fit(x, y, sample_weight=structure(weight, nothing), verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_outputs_that_weights_do_not_name_have_the_weight_1(data, as_dictionary):
    (x, _), kind, size = data
    inputs = keras.Input((4,))
    outputs = [keras.layers.Dense(2, name=name)(inputs) for name in ("kind", "size")]
    y = [kind, np.hstack([size, size])]
    if as_dictionary:
        outputs = dict(zip(["kind", "size"], outputs, strict=True))
        y = {"size": y[1], "kind": y[0]}
    model = bhn_tf.baselines.Deterministic(
        keras.Model(inputs, outputs), {"kind": "categorical", "size": "gaussian"}
    )
    model.compile("sgd", jit_compile=False)
    initial, weight, ones = model.get_weights(), np.linspace(0, 2, N), np.ones(N)

    def scored(weights):
        model.set_weights(initial)
        arguments = {"sample_weight": weights, "shuffle": False, "verbose": 0}
        split = model.fit(x, y, validation_split=0.25, **arguments)
        apart = model.fit(x, y, validation_data=(x, y, weights), **arguments)
        alone = model.evaluate(x, y, sample_weight=weights, verbose=0)
        return [*split.history.values(), *apart.history.values(), alone]

    expected = scored({"kind": ones, "size": weight})
    for weights in ({"size": weight}, {"kind": None, "size": weight}, [None, weight]):
        for found, wanted in zip(scored(weights), expected, strict=True):
            assert found == pytest.approx(wanted, rel=1e-5)
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"`sample_weight` has \['colour'\]"):
            call(x, y, sample_weight={"colour": weight}, verbose=0)
    for nothing in ({}, {"kind": None}):
        assert np.isfinite(model.evaluate(x, y, sample_weight=nothing, verbose=0)).all()


def test_inputs_of_different_lengths_are_refused(data):
    (left, right), kind, size = data
    model = make_model(num_examples=N)
    model.compile("adam")
    with pytest.raises(ValueError, match="different numbers of rows"):
        model.train_on_batch([left, right[:-1]], [kind, size])


def test_likelihoods_that_do_not_match_the_outputs_are_refused(data):
    network = make_model().primary
    with pytest.raises(ValueError, match="kind.*size"):
        bhn_tf.BayesianHypernet(network, likelihood="categorical")
    with pytest.raises(ValueError, match="one for each output"):
        bhn_tf.BayesianHypernet(network, likelihood=["categorical"])
    with pytest.raises(ValueError, match="one for each output"):
        bhn_tf.BayesianHypernet(
            network, likelihood={"kind": "categorical", "length": "gaussian"}
        )
    model = make_model()
    with pytest.raises(ValueError, match="loss_weights"):
        model.compile("adam", loss_weights={"length": 1.0})


def test_labels_of_one_output_out_of_range_are_refused(data):
    x, kind, size = data
    model = make_model()
    model.compile("adam")
    with pytest.raises(ValueError, match="2 classes"):
        model.fit(x, [kind + 2, size], verbose=0)
    with pytest.raises(ValueError, match="Give one for each"):
        model.fit(x, [kind], verbose=0)
