"""Weights and models in files and copies, and Keras's wrappers for scikit-learn."""

from collections import OrderedDict

import keras
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from bhn_tf.baselines import Deterministic
from bhn_tf.hypernets import MeanField
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Gaussian
from tests.parity.twins import CLASSES, FEATURES, X, Y, bayesian, dense


def random_scales():
    network = keras.Sequential([keras.Input((FEATURES,)), WeightNormDense(CLASSES)])
    return bayesian(network, hypernet=MeanField(0.1))


def compiled(model):
    model.compile(keras.optimizers.SGD(0.1), metrics=["accuracy"], run_eagerly=True)
    return model


MAKERS = {"random": random_scales, "deterministic": lambda: Deterministic(dense())}


@pytest.fixture(params=MAKERS, scope="module")
def make(request):
    return MAKERS[request.param]


@pytest.fixture(scope="module")
def trained(make):
    model = compiled(make())
    model.fit(X, Y, epochs=2, verbose=0)
    return model


def center(model):
    return model.predict(X, num_samples=0, verbose=0)


def through_set_weights(trained, make, _):
    model = make()
    model.set_weights(trained.get_weights())
    return model


def through_weights_file(trained, make, directory):
    trained.save_weights(directory / "m.weights.h5")
    model = make()
    model.load_weights(directory / "m.weights.h5")
    return model


def through_keras_file(trained, make, directory):
    trained.save(directory / "m.keras")
    return keras.saving.load_model(directory / "m.keras")


def through_a_checkpoint(trained, make, directory):
    checkpoint = keras.callbacks.ModelCheckpoint(directory / "{epoch}.keras")
    trained.fit(X, Y, verbose=0, callbacks=[checkpoint])
    return keras.saving.load_model(directory / "1.keras")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "way",
    [
        through_set_weights,
        through_weights_file,
        through_keras_file,
        through_a_checkpoint,
    ],
)
def test_the_copy_answers_and_trains_on_as_the_original(way, trained, make, tmp_path):
    copy = way(trained, make, tmp_path)
    np.testing.assert_array_equal(center(copy), center(trained))
    if not copy.compiled:
        copy = compiled(copy)
        if hasattr(copy, "num_examples"):
            copy.num_examples = trained.num_examples
    arguments = {"num_samples": 2, "seed": 1, "verbose": 0, "return_dict": True}
    assert copy.evaluate(X, Y, **arguments) == trained.evaluate(X, Y, **arguments)


@pytest.mark.parametrize("name", ["m.h5", "m.hdf5"])
def test_hdf5_models_are_refused_in_one_line(trained, name, tmp_path):
    with pytest.raises(ValueError, match=r"\.keras.*weights\.h5") as raised:
        trained.save(tmp_path / name)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_clone_has_weights_of_its_own(trained):
    clone = keras.models.clone_model(trained)
    assert [w.shape for w in clone.weights] == [w.shape for w in trained.weights]
    before = center(trained)
    compiled(clone).fit(X, Y, verbose=0)
    np.testing.assert_array_equal(center(trained), before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["function", "instance"])
def test_a_classifier_of_scikit_learn(make, kind):
    model = compiled(make()) if kind == "instance" else lambda X, y: compiled(make())
    classifier = keras.wrappers.SKLearnClassifier(
        model, fit_kwargs={"epochs": 80, "verbose": 0}
    )
    x, names = np.tile(X, (2, 1)), np.array(["a", "b", "c"])[np.tile(Y, 2)]
    classifier.fit(x, names)
    assert set(classifier.predict(x)) <= set(names)
    assert classifier.score(x, names) > 0.7
    assert np.isfinite(cross_val_score(classifier, x, names, cv=2)).all()


@pytest.mark.slow
def test_a_regressor_of_scikit_learn():
    def model(X, y):
        network = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        return compiled(Deterministic(network, Gaussian(0.5)))

    regressor = keras.wrappers.SKLearnRegressor(
        model, fit_kwargs={"epochs": 30, "verbose": 0}
    )
    y = X @ np.arange(FEATURES)
    assert regressor.fit(X, y).score(X, y) > 0.9


def test_wrappers_that_ask_for_symbolic_outputs_are_told_what_to_use(trained):
    with pytest.raises(AttributeError, match="SKLearnClassifier"):
        _ = trained.outputs


def test_outputs_that_keras_would_mix_up_are_not_saved(tmp_path):
    """A loaded graph has the outputs of an `OrderedDict` in sorted order."""
    inputs = keras.Input((4,))
    named = [(name, keras.layers.Dense(2, name=name)(inputs)) for name in ("b", "a")]
    network = keras.Model(inputs, OrderedDict(named))
    x = np.ones((1, 4), "float32")
    network.save(tmp_path / "network.keras")
    loaded = keras.saving.load_model(tmp_path / "network.keras")
    assert not np.allclose(loaded(x)["a"], network(x)["a"])  # Keras's own fault.

    model = Deterministic(network, ["gaussian"] * 2)
    with pytest.raises(ValueError, match=r"OrderedDict.*\['b', 'a'\].*plain dict"):
        model.save(tmp_path / "model.keras")
    assert not (tmp_path / "model.keras").exists()

    model = Deterministic(keras.Model(inputs, dict(named)), ["gaussian"] * 2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for name, mean in model.predict(x, verbose=0).items():
        np.testing.assert_allclose(loaded.predict(x, verbose=0)[name], mean)
