"""Saved in one process, loaded in another: nothing is lost, and training goes on."""

import copy
import json

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, Deterministic, MCDropout
from tests import networks
from tests.integration import continuation
from tests.integration.asked_cases import asked_cases

HYPERNETS = {
    "sequential": lambda: networks.realnvp(max_log_scale=1.5, initial_mean=0.9),
    "functional": lambda: bhn_tf.hypernets.IAF(
        2, (8,), permutation_seed=3, weight_norm=False
    ),
    "nested": lambda: bhn_tf.hypernets.MeanField(initial_stddev=0.2),
    "subclassed": networks.realnvp,
    "twice": networks.realnvp,
}


def uncompiled(name):
    return networks.bayesian(
        networks.PRIMARIES[name](),
        HYPERNETS[name](),
        prior_stddev=0.7,
        prior_loc=[0.1] * 8,
    )


def bayesian(name):
    model = uncompiled(name)
    model.compile(
        keras.optimizers.Adam(0.01),
        metrics=["accuracy"],
        kl_weight=0.25,
        train_samples=2,
        per_example_noise=True,
        eval_samples=5,
        run_eagerly=True,
    )
    return model


def baseline(model):
    model.compile(
        keras.optimizers.Adam(0.01),
        metrics=["accuracy"],
        eval_samples=5,
        run_eagerly=True,
    )
    return model


def dropout():
    layers = networks.plain().layers
    model = keras.Sequential(
        [keras.Input((4,)), layers[0], keras.layers.Dropout(0.4), layers[1]]
    )
    return MCDropout(model)


MODELS = {
    **{name: lambda name=name: bayesian(name) for name in networks.PRIMARIES},
    "deterministic": lambda: baseline(Deterministic(networks.plain())),
    "ensemble": lambda: baseline(DeepEnsemble([networks.plain(), networks.plain()])),
    "dropout": lambda: baseline(dropout()),
}
# The subclassed network last: its module is imported when its turn comes.
NAMES = sorted(MODELS, key=lambda name: name == "subclassed")


@pytest.fixture(scope="module")
def results(request, tmp_path_factory, run_python):
    """What each model does, without the interruption and after it."""
    directory = tmp_path_factory.mktemp("saved")
    names, unbroken = asked_cases(request, "name"), {}
    for name in names:
        model = MODELS[name]()
        model.fit(*continuation.data(), batch_size=4, verbose=0)
        model.save(directory / f"{name}.keras")
        unbroken[name] = continuation.go_on(model)
    run_python(continuation.__file__, directory, *names)()
    loaded = {name: dict(np.load(directory / f"{name}_loaded.npz")) for name in names}
    return unbroken, loaded


@pytest.mark.parametrize(
    "what", ["weights", "optimizer", "centre", "seeded", "noise", "trained"]
)
@pytest.mark.parametrize("name", NAMES)
def test_goes_on_in_another_process(results, name, what):
    unbroken, loaded = (result[name] for result in results)
    assert unbroken.keys() == loaded.keys()
    if name == "dropout" and what == "trained":
        pytest.skip("Keras does not save the seeds of its dropout layers.")
    keys = [key for key in unbroken if key.startswith(what)]
    assert keys
    for key in keys:
        np.testing.assert_array_equal(loaded[key], unbroken[key], err_msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_logs_go_on_in_another_process(results, name):
    unbroken, loaded = (result[name] for result in results)
    if name != "dropout":
        for key in unbroken:
            if key.startswith(("logs", "evaluated")):
                np.testing.assert_allclose(loaded[key], unbroken[key], rtol=1e-6)
    # There was training left to do.
    trained = [key for key in unbroken if key.startswith("trained")]
    assert not all(
        np.array_equal(unbroken[key], unbroken[key.replace("trained", "weights")])
        for key in trained
    )
    if name in networks.PRIMARIES:
        assert not np.allclose(unbroken["noise 00"], unbroken["noise 01"])


@pytest.fixture(scope="module")
def model():
    model = bayesian("sequential")
    model.fit(*continuation.data(), batch_size=4, verbose=0)
    return model


def test_what_has_no_weight_decay_has_none_after_loading(tmp_path):
    """Keras's configuration of an optimizer leaves exclusions out."""
    model = networks.bayesian(hypernet="mean_field", num_examples=12)
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(model.hypernet.weights, ["bias"])
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer), run_eagerly=True)
    model.train_on_batch(*continuation.data())
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for each in (model, again):
        each.train_on_batch(*continuation.data())
    for weight, expected in zip(again.weights, model.weights, strict=True):
        values = map(keras.ops.convert_to_numpy, (weight, expected))
        np.testing.assert_array_equal(*values, weight.path)


def test_exclusions_from_weight_decay_need_the_weights():
    model = networks.bayesian(hypernet="mean_field", num_examples=12)
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer)
    unbuilt = bhn_tf.BayesianHypernet(keras.Sequential([keras.layers.Dense(3)]))
    with pytest.warns(UserWarning, match="all of them decay. Build the model first"):
        unbuilt.compile_from_config(model.get_compile_config())
    assert unbuilt.compiled


def test_compile_state(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.kl_weight == 0.25
    assert again.train_samples == 2
    assert again.per_example_noise is True
    assert again.eval_samples == 5
    assert again.num_examples == 12
    assert again.prior_stddev == 0.7 and again.prior_loc == [0.1] * 8
    assert again.run_eagerly
    assert int(again.optimizer.iterations) == 3
    assert again.hypernet.get_config() == model.hypernet.get_config()
    logs = again.evaluate(*continuation.data(), verbose=0, return_dict=True)
    assert "accuracy" in logs


def test_an_annealed_weight_is_kept(model, tmp_path):
    model.kl_weight = 0.5
    try:
        model.save(tmp_path / "model.keras")
    finally:
        model.kl_weight = 0.25
    assert keras.saving.load_model(tmp_path / "model.keras").kl_weight == 0.5


@pytest.mark.parametrize("given", [None, 100])
def test_whether_num_examples_was_given_is_kept(given, tmp_path):
    x, y = continuation.data()
    model = networks.bayesian(hypernet="mean_field", num_examples=given)
    model.compile("sgd", run_eagerly=True)
    if given is None:
        model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.num_examples == model.num_examples
    if given is None:
        again.fit(x[:5], y[:5], verbose=0)
        assert again.num_examples == 5
    else:
        with pytest.warns(UserWarning, match="`num_examples` is 100"):
            again.fit(x, y, verbose=0)


def test_not_compiled_is_loaded_not_compiled(tmp_path):
    x, _ = continuation.data()
    model = networks.bayesian()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert not again.compiled
    np.testing.assert_array_equal(
        again.predict(x, num_samples=0, verbose=0),
        model.predict(x, num_samples=0, verbose=0),
    )


def test_not_built_is_loaded_not_built(tmp_path):
    model = networks.bayesian(keras.Sequential([bhn_tf.layers.WeightNormDense(3)]))
    model.compile("adam", run_eagerly=True)
    again = type(model).from_config(model.get_config())
    assert not again.built
    again.compile("adam", run_eagerly=True)
    again.fit(*continuation.data(), verbose=0)
    again.save(tmp_path / "model.keras")
    x, _ = continuation.data()
    np.testing.assert_array_equal(
        keras.saving.load_model(tmp_path / "model.keras").predict(
            x, num_samples=0, verbose=0
        ),
        again.predict(x, num_samples=0, verbose=0),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", networks.PRIMARIES)
def test_weights_file_fits_a_model_built_anew(name, tmp_path):
    x, y = continuation.data()
    model = bayesian(name)
    model.fit(x, y, batch_size=4, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    again = uncompiled(name)
    again.load_weights(tmp_path / "model.weights.h5")
    for value, wanted in zip(
        networks.weights_of(again), networks.weights_of(model), strict=True
    ):
        np.testing.assert_array_equal(value, wanted)
    np.testing.assert_array_equal(
        again.predict(x, num_samples=0, verbose=0),
        model.predict(x, num_samples=0, verbose=0),
    )
    np.testing.assert_array_equal(again(x), model(x))
    assert again.num_examples == 12


def test_a_given_number_of_examples_outlives_weights_of_another(model, tmp_path):
    """As with pre-trained weights; an N that was not given is taken from the file."""
    model.save_weights(tmp_path / "model.weights.h5")
    again = uncompiled("sequential")
    again.num_examples = 7
    again.load_weights(tmp_path / "model.weights.h5")
    assert again.num_examples == 7


def test_a_resumed_fit_counts_its_own_examples(tmp_path):
    x, y = continuation.data()
    for num_rows in (len(x), 5):
        backup = keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
        model = networks.bayesian(hypernet="mean_field")
        model.compile("sgd", run_eagerly=True)
        rows = x[:num_rows], y[:num_rows]
        model.fit(*rows, epochs=2, callbacks=[backup], verbose=0)
        assert model.num_examples == num_rows
        assert model.objective.examples.counted == num_rows


def test_copies_have_weights_of_their_own(model):
    x, _ = continuation.data()
    json.dumps(model.get_config())
    for copied in (
        type(model).from_config(model.get_config()),
        keras.models.clone_model(model),
        copy.deepcopy(model),
    ):
        before = networks.weights_of(model)
        assert copied.num_random == model.num_random
        assert [v.shape for v in copied.weights] == [v.shape for v in model.weights]
        for variable in copied.weights:
            variable.assign(variable + keras.ops.ones_like(variable))
        copied.predict(x, num_samples=1, verbose=0)
        for value, old in zip(networks.weights_of(model), before, strict=True):
            np.testing.assert_array_equal(value, old)


def test_a_trained_likelihood_is_kept(tmp_path):
    x, _ = continuation.data()
    likelihood = bhn_tf.likelihoods.Gaussian(0.5, trainable=True)
    primary = keras.Sequential([keras.Input((4,)), bhn_tf.layers.WeightNormDense(1)])
    model = bhn_tf.BayesianHypernet(primary, "mean_field", likelihood)
    model.compile("adam", run_eagerly=True)
    model.fit(x, x[:, 0], verbose=0)
    trained = float(likelihood.log_stddev)
    assert trained != pytest.approx(np.log(0.5), abs=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert float(again.likelihood.log_stddev) == trained
    assert again.likelihood.log_stddev.trainable


def test_bayesian_models_inside_a_model(tmp_path):
    """Every weight is found, and saved."""
    inputs = keras.Input((4,))
    members = [networks.bayesian() for _ in range(2)]
    outputs = keras.layers.Average()([member(inputs) for member in members])
    model = keras.Model(inputs, outputs)
    assert len(model.weights) == 2 * len(members[0].weights)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for value, wanted in zip(
        networks.weights_of(again), networks.weights_of(model), strict=True
    ):
        np.testing.assert_array_equal(value, wanted)
    x, _ = continuation.data()
    np.testing.assert_array_equal(again(x), model(x))
