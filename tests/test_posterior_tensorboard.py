"""TensorBoard shows a posterior, and training is not affected."""

import collections
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import baselines
from bhn_tf.callbacks import KLAnnealing, PosteriorTensorBoard
from bhn_tf.layers import WeightNormDense
from tests import networks

X, Y = networks.data(12)
LAYERS = ("first", "second")


def make():
    keras.utils.set_random_seed(0)
    network = networks.sequential()
    for layer, name in zip(network.layers, LAYERS, strict=True):
        layer.name = name
    model = networks.bayesian(network, num_examples=12)
    # Eager, since a few steps take less time than their graph.
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


def fitted(callbacks, epochs=2, model=None):
    model = model or make()
    history = model.fit(
        X, Y, batch_size=6, epochs=epochs, verbose=0, callbacks=callbacks
    )
    return model, history.history


def written(folder):
    """Numbers by tag, and by step in each."""
    found = collections.defaultdict(dict)
    for path in sorted(folder.iterdir()):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                found[value.tag][event.step] = tf.make_ndarray(value.tensor)
    return dict(found)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run, what it wrote, and its history."""
    folder = tmp_path_factory.mktemp("logs")
    watch = PosteriorTensorBoard(folder, X, Y, num_samples=64)
    model, history = fitted([KLAnnealing(0.5, epochs=1), watch])
    return model, written(folder / "posterior"), history


def test_the_terms_of_the_bound_are_those_of_the_logs(run):
    _, found, history = run
    for name in ("kl", "kl_weight"):
        values = [float(found[f"bound/{name}"][epoch]) for epoch in (0, 1)]
        np.testing.assert_allclose(values, history[name], rtol=1e-6)


def test_mean_and_spread_of_each_layer_are_those_of_its_draws(run):
    model, found, _ = run
    draws = model.sample_scales(64, seed=0)
    for layer, piece in zip(LAYERS, (slice(0, 5), slice(5, 8)), strict=True):
        for name, of_each in (("mean", np.mean), ("std", np.std)):
            expected = of_each(draws[:, piece], axis=0).mean()
            value = found[f"posterior/{layer}/{name}"][1]
            np.testing.assert_allclose(value, expected, rtol=1e-4)
            assert set(found[f"posterior/{layer}/{name}_of_each"]) == {0, 1}


def test_layers_of_nested_networks_are_called_as_diagnose_calls_them(tmp_path):
    inner = [keras.Input((5,)), WeightNormDense(5, name="d")]
    inner = keras.Sequential(inner, name="inner")
    outer = [keras.Input(X.shape[1:]), WeightNormDense(5, name="d"), inner]
    network = keras.Sequential([*outer, WeightNormDense(3, name="last")])
    model = networks.bayesian(network, num_examples=12)
    model.compile("sgd", run_eagerly=True)
    fitted([PosteriorTensorBoard(tmp_path)], epochs=1, model=model)
    tags = {tag for tag in written(tmp_path / "posterior") if tag.endswith("/mean")}
    assert tags == {f"posterior/{name}/mean" for name in ("d", "inner/d", "last")}


@pytest.mark.slow
def test_the_norms_are_those_of_the_terms_whose_sum_is_the_loss(run):
    model, found, _ = run
    variables = model.hypernet.trainable_variables

    def norm_of(term):
        with tf.GradientTape() as tape:
            value = term(*model.posterior.draw(64, 0))
        gradients = tape.gradient(value, variables)
        return float(tf.linalg.global_norm([g for g in gradients if g is not None]))

    def nll(values, log_prob):
        raw = tf.stack([model(X, scales=g) for g in tf.unstack(values)])
        log_probs = tf.stack([model.likelihood.log_prob(Y, one) for one in raw])
        return -tf.reduce_mean(log_probs)

    # N = 12, and the last epoch's weight is 1.
    expected = {
        "likelihood": norm_of(nll),
        "prior": norm_of(lambda g, _: tf.reduce_mean(tf.reduce_sum(g**2, 1)) / 24),
        "entropy": norm_of(lambda _, log_prob: tf.reduce_mean(log_prob) / 12),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[f"gradient_norm/{name}"][1], value, rtol=1e-3, err_msg=name
        )


def test_training_does_not_notice_it(tmp_path):
    _, expected = fitted([])
    model, _ = fitted([])
    watched, history = fitted([PosteriorTensorBoard(tmp_path, X[:5], Y[:5])])
    assert history == expected
    for value, other in zip(model.get_weights(), watched.get_weights(), strict=True):
        np.testing.assert_array_equal(value, other)


@pytest.mark.slow
def test_every_few_epochs_without_a_batch_and_after_it_was_saved(tmp_path):
    watch = PosteriorTensorBoard(tmp_path, every=2, num_samples=2)
    again = PosteriorTensorBoard.from_config(watch.get_config())
    fitted([again], epochs=4)
    found = written(tmp_path / "posterior")
    assert all(set(steps) == {1, 3} for steps in found.values())
    assert not [tag for tag in found if tag.startswith("gradient_norm")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X}, "both `x` and `y`"),
        ({"every": 0}, "every"),
        ({"num_samples": 0}, "num_samples"),
    ],
)
def test_arguments_without_sense(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        PosteriorTensorBoard(tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_labels_without_a_meaning_and_models_without_a_posterior(tmp_path):
    with pytest.raises(ValueError, match="classes"):
        fitted([PosteriorTensorBoard(tmp_path, X, Y + 7)])
    model = baselines.Deterministic(networks.plain())
    model.compile("sgd")
    with pytest.raises(ValueError, match="Deterministic has none"):
        fitted([PosteriorTensorBoard(tmp_path)], model=model)
    assert not list(tmp_path.iterdir())


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        PosteriorTensorBoard(tmp_path)
