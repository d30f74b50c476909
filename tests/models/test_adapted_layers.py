"""Layers that were adapted, or loaded, after functions of the model were compiled."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.layers import WeightNormDense

NUMBERS = np.linspace(-3, 5, 12, dtype="float32").reshape(6, 2)
WORDS = np.array([["a"], ["b"], ["c"], ["b"], ["a"], ["c"]])
CB = ["c", "b"]
LABELS = np.array([0, 1, 2, 0, 1, 2])


def adapted(layer, x=NUMBERS):
    layer.adapt(x)
    return layer


def normalization(scale=1):
    return adapted(keras.layers.Normalization(), scale * NUMBERS)


def boundaries():
    return adapted(keras.layers.Discretization(num_bins=3, output_mode="multi_hot"))


def vocabulary(words):
    return keras.layers.StringLookup(vocabulary=list(words), output_mode="one_hot")


def text(words):
    return keras.layers.TextVectorization(vocabulary=list(words), output_mode="count")


#: The data, the layer, and what teaches it something else.
KINDS = {
    "normalization": (NUMBERS, normalization, lambda it: it.adapt(9 * NUMBERS + 1)),
    "boundaries": (NUMBERS, boundaries, lambda it: it.adapt(NUMBERS[:2])),
    "vocabulary": (WORDS, lambda: vocabulary("ab"), lambda it: it.set_vocabulary(CB)),
    "text": (WORDS, lambda: text("ab"), lambda it: it.set_vocabulary(CB)),
}


def model_of(x, layer):
    keras.utils.set_random_seed(0)
    inputs = keras.Input(x.shape[1:], dtype="string" if x is WORDS else "float32")
    top = WeightNormDense(3, random="none")
    model = bhn_tf.BayesianHypernet(keras.Sequential([inputs, layer, top]))
    model.compile(keras.optimizers.SGD(0.0), jit_compile=False)
    return model


@pytest.mark.few(2)
@pytest.mark.parametrize("name", KINDS)
def test_answers_follow_what_a_layer_has_learned(name):
    """In stock Keras, compiled functions go on as before until `compile`."""
    x, make, teach = KINDS[name]
    model, other = (model_of(x, make()) for _ in range(2))
    before = model.predict(x, verbose=0)
    for each in (model, other):
        teach(each.primary.layers[0])
    found = model.predict(x, verbose=0)
    assert not np.allclose(found, before)
    np.testing.assert_equal(found, other.predict(x, verbose=0))


@pytest.mark.parametrize("call", ["train_on_batch", "test_on_batch"])
def test_steps_follow_what_a_layer_has_learned(call):
    x, make, teach = KINDS["normalization"]
    model, other = (model_of(x, make()) for _ in range(2))
    getattr(model, call)(x, LABELS)
    for each in (model, other):
        teach(each.primary.layers[0])
        each.reset_metrics()
    found, expected = (getattr(each, call)(x, LABELS)[0] for each in (model, other))
    assert found == pytest.approx(expected, rel=1e-6)


def test_weights_of_a_file_bring_what_its_layers_have_learned(tmp_path):
    saved, model = (model_of(NUMBERS, normalization(scale)) for scale in (1, 7))
    before = model.predict(NUMBERS, verbose=0)
    saved.save_weights(tmp_path / "m.weights.h5")
    model.load_weights(tmp_path / "m.weights.h5")
    found = model.predict(NUMBERS, verbose=0)
    assert not np.allclose(found, before)
    np.testing.assert_equal(found, saved.predict(NUMBERS, verbose=0))
