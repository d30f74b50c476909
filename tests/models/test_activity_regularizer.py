"""Activity regularisation counts every use of a layer, in every call."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.layers import WeightNormDense
from tests import networks

FACTOR = 0.1


def shared(kind, where):
    """A network that uses a regularised layer twice."""
    inputs = keras.Input((networks.NUM_FEATURES,))
    regularized = kind(
        networks.NUM_FEATURES,
        activity_regularizer=keras.regularizers.L2(FACTOR),
        name="regularized",
    )
    hidden = inputs
    if where == "behind":
        hidden = WeightNormDense(networks.NUM_FEATURES, name="first")(hidden)
    hidden = regularized(regularized(hidden))
    return keras.Model(inputs, WeightNormDense(networks.NUM_CLASSES)(hidden))


def expected(model, scales, x):
    """The penalty of both uses by hand, a mean over draws."""
    penalties = []
    for g in scales:
        network = model.draw(scales=g)
        layers = {layer.name: layer for layer in network.layers}
        hidden = layers["first"](x) if "first" in layers else x
        first = layers["regularized"](hidden)
        second = layers["regularized"](first)
        penalties.append(
            FACTOR * sum(float(np.square(use).sum()) for use in (first, second))
        )
    return np.mean(penalties) / (len(x) if divides_by_rows() else 1)


def divides_by_rows():
    """Whether this Keras has the mean over rows, and not the sum, as 3.11 has."""
    layer = keras.layers.Identity(activity_regularizer=keras.regularizers.L2(1.0))
    layer(np.ones((2, 1), "float32"))
    return float(layer.losses[0]) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [keras.layers.Dense, WeightNormDense])
@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "graph"])
def test_both_uses_count(kind, where, run_eagerly):
    x, y = networks.data(6)
    model = networks.bayesian(shared(kind, where), "mean_field", num_examples=6)
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=run_eagerly, jit_compile=False)
    for num_samples in (0, 1, 3):
        logs = model.evaluate(
            x, y, num_samples=num_samples, seed=1, verbose=0, return_dict=True
        )
        if num_samples:
            scales = model.sample_scales(num_samples, seed=1)
        else:
            scales = model.hypernet.center()[None]
        found = logs["regularization"]
        assert found == pytest.approx(expected(model, scales, x), rel=1e-4)
        networks.assert_identity(logs, 6)


@pytest.mark.slow
def test_training_and_evaluation_count_alike():
    """Without noise they must agree, in Keras too."""
    x, y = networks.data(6)
    network = shared(keras.layers.Dense, "before")
    stock = keras.models.clone_model(network)
    stock.set_weights(network.get_weights())
    model = bhn_tf.baselines.Deterministic(network)
    for compiled in (model, stock):
        loss = {} if compiled is model else {"loss": _cross_entropy()}
        compiled.compile(keras.optimizers.SGD(0.0), jit_compile=False, **loss)
    for compiled in (model, stock):
        trained = compiled.fit(x, y, verbose=0).history["loss"][0]
        evaluated = compiled.evaluate(x, y, verbose=0, return_dict=True)["loss"]
        assert evaluated == pytest.approx(trained, rel=1e-5)
        if compiled is model:
            ours = trained
    assert ours == pytest.approx(trained, rel=1e-5)


def _cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
