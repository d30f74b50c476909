"""Generated values that no layer reads change nothing, and training says so."""

import warnings
from typing import ClassVar

import keras
import pytest
import tensorflow as tf

from bhn_tf.layers import WeightNormDense
from bhn_tf.layers.generated import over_axes
from bhn_tf.layers.random_layer import RandomLayer
from tests import networks

X, Y = networks.data(8)


class Gate(RandomLayer, keras.layers.Layer):
    GENERATED: ClassVar = {"none": (), "scale": ("scale",)}

    def build(self, input_shape):
        self.scale = self.add_weight(name="scale", shape=input_shape[-1:])

    def call(self, inputs):
        return inputs * over_axes(self.scale, -1, inputs)


class Forgetful(Gate):
    def call(self, inputs):
        return inputs * self.scale


class Compiled(keras.layers.Layer):
    """Its graph is made when the network is, and reads the layer's own variables."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = WeightNormDense(networks.NUM_FEATURES, name="inner")

    def build(self, input_shape):
        self.inner.build(input_shape)

    @tf.function
    def call(self, inputs):
        return self.inner(inputs)


def model_with(layer):
    inputs = keras.Input((networks.NUM_FEATURES,))
    outputs = WeightNormDense(networks.NUM_CLASSES)(layer(inputs))
    return networks.compiled(networks.bayesian(keras.Model(inputs, outputs)))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("layer", "unread"),
    [(Forgetful, "gate/scale"), (Compiled, "inner/scale")],
)
def test_values_that_are_not_read_are_named_once(layer, unread):
    model = model_with(layer(name="gate"))
    with pytest.warns(UserWarning, match=rf"\['{unread}'\].*`current_value`") as found:
        model.fit(X, Y, epochs=2, verbose=0)
    ours = [each for each in found if each.category is UserWarning]
    assert len(ours) == 1 and ours[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit(X[:4], Y[:4], verbose=0)
        model.predict(X, verbose=0)


class OnlyAnswers(Gate):
    """What it generates is read, but not in training."""

    def call(self, inputs, training=None):
        return inputs if training else super().call(inputs)


def test_values_that_training_alone_does_not_read_are_said_to_be_so():
    model = model_with(OnlyAnswers(name="gate"))
    with pytest.warns(UserWarning, match=r"Training does not read.*\['gate/scale'\]"):
        model.fit(X, Y, verbose=0)


def test_values_that_are_read_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model_with(Gate()).fit(X, Y, verbose=0)
