"""Draws that do not differ are one network: that of stock Keras, with state that moves
once a step."""

import keras
import numpy as np
import pytest

from bhn_tf.hypernets import MeanField
from bhn_tf.layers import WeightNormDense, WeightNormLSTM
from bhn_tf.layers.random_layer import RandomLayer
from bhn_tf.likelihoods import Categorical
from tests.parity.twins import (
    CLASSES,
    FEATURES,
    RATE,
    ROWS,
    X,
    Y,
    assert_same_logs,
    bayesian,
    crossentropy,
)

NUM_SAMPLES = 4
SEQUENCES = X[:, :, None]


def with_layer(layer, inputs):
    return keras.Sequential(
        [
            keras.Input(inputs, batch_size=ROWS),
            layer,
            WeightNormDense(4, activation="tanh"),
            WeightNormDense(CLASSES),
        ]
    )


class Watched(keras.layers.Layer):
    """Measures what passes through it."""

    def __init__(self, metric):
        super().__init__()
        self.seen = keras.metrics.Mean(name=metric)

    def call(self, inputs):
        self.seen.update_state(inputs)
        return inputs


def watched():
    """Before the draws, and after them."""
    network = with_layer(Watched("first"), (FEATURES,))
    layers = [*network.layers[:-1], Watched("last"), network.layers[-1]]
    return keras.Sequential([keras.Input((FEATURES,)), *layers])


class WatchedModel(keras.Model):
    """Measures what passes through it, as does its layer."""

    def __init__(self):
        super().__init__()
        self.first = Watched("first")
        self.dense = WeightNormDense(CLASSES)
        self.seen = keras.metrics.Mean(name="whole")
        self.build((None, FEATURES))

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.built = True

    def call(self, inputs):
        inputs = self.first(inputs)
        self.seen.update_state(inputs)
        return self.dense(inputs)


LAYERS = {
    "metrics of layers": (watched, X),
    "metrics of a model": (WatchedModel, X),
    "BatchNormalization": (
        lambda: with_layer(keras.layers.BatchNormalization(momentum=0.5), (FEATURES,)),
        X,
    ),
    "stateful RNN": (
        lambda: with_layer(keras.layers.SimpleRNN(3, stateful=True), (FEATURES, 1)),
        SEQUENCES,
    ),
    "stateful LSTM with scales": (
        lambda: with_layer(WeightNormLSTM(3, stateful=True), (FEATURES, 1)),
        SEQUENCES,
    ),
    "stateful RNN behind draws": (
        lambda: keras.Sequential(
            [
                keras.Input((FEATURES, 1), batch_size=ROWS),
                WeightNormDense(3),
                keras.layers.SimpleRNN(3, stateful=True),
                WeightNormDense(CLASSES),
            ]
        ),
        SEQUENCES,
    ),
}


@pytest.fixture(params=LAYERS)
def pair(request):
    """A stock model, and ours with draws that differ by less than rounding."""
    make, x = LAYERS[request.param]
    options = {"run_eagerly": True, "metrics": ["accuracy"]}
    keras.utils.set_random_seed(0)
    stock = make()
    stock.compile(keras.optimizers.SGD(RATE), crossentropy(), **options)
    keras.utils.set_random_seed(0)
    model = bayesian(
        make(),
        hypernet=MeanField(1e-9),
        likelihood=Categorical(from_logits=True),
    )
    model.compile(
        keras.optimizers.SGD(RATE),
        kl_weight=0.0,
        train_samples=NUM_SAMPLES,
        eval_samples=NUM_SAMPLES,
        **options,
    )
    return stock, model, x


def states(network):
    """Moving averages, states of recurrent layers, and what layers measure."""
    found = []
    for layer in network.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            found += [layer.moving_mean, layer.moving_variance]
        elif isinstance(layer, keras.layers.RNN):
            found += layer.states
        found += layer.metrics_variables
    return [keras.ops.convert_to_numpy(variable) for variable in found]


def assert_same_states(stock, model):
    found = states(model.primary)
    assert found
    for value, wanted in zip(found, states(stock), strict=True):
        np.testing.assert_allclose(value, wanted, atol=1e-5)


@pytest.mark.few(2)
def test_training(pair):
    stock, model, x = pair
    arguments = {"batch_size": ROWS, "verbose": 0, "shuffle": False, "epochs": 2}
    expected = stock.fit(x, Y, **arguments).history
    assert_same_logs(expected, model.fit(x, Y, **arguments).history)
    assert_same_states(stock, model)


@pytest.mark.slow
def test_evaluation_and_prediction_one_after_the_other(pair):
    stock, model, x = pair
    model.num_examples = ROWS
    arguments = {"batch_size": ROWS, "verbose": 0}
    for num_samples in (NUM_SAMPLES, 0, NUM_SAMPLES):
        expected = stock.evaluate(x, Y, return_dict=True, **arguments)
        logs = model.evaluate(
            x, Y, return_dict=True, num_samples=num_samples, **arguments
        )
        assert_same_logs(expected, logs)
        assert_same_states(stock, model)
        expected = keras.ops.softmax(stock.predict(x, **arguments))
        found = model.predict(x, num_samples=num_samples, **arguments)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert_same_states(stock, model)
        expected = keras.ops.softmax(stock.predict(x, **arguments))
        scores = model.predict_uncertainty(x, num_samples=NUM_SAMPLES, **arguments)
        np.testing.assert_allclose(scores["mean"], expected, atol=1e-5)
        # Equal networks agree, so that nothing is uncertain.
        np.testing.assert_allclose(scores["mutual_information"], 0.0, atol=1e-5)


@pytest.mark.few(1)
def test_gradients_of_the_centre(pair):
    """The gradients by direction and bias are those of the same network."""
    stock, model, x = pair
    model.kl_weight, model.num_examples = 0.0, ROWS
    stock.train_on_batch(x, Y)
    model.train_on_batch(x, Y)
    for layer, other in zip(stock.layers, model.primary.layers, strict=True):
        by_name = {variable.name: variable for variable in layer.weights}
        for variable in other.trainable_variables:
            wanted = keras.ops.convert_to_numpy(by_name[variable.name])
            found = keras.ops.convert_to_numpy(variable)
            np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=variable.path)
    scales = np.concatenate(
        [
            keras.ops.convert_to_numpy(scale).ravel()
            for layer in stock.layers
            if isinstance(layer, RandomLayer)
            for scale in layer.generated_weights
        ]
    )
    mean = keras.ops.convert_to_numpy(model.hypernet.affine.mean)
    np.testing.assert_allclose(mean, scales, atol=1e-5)


class Evaluates(keras.callbacks.Callback):
    """Evaluates in the middle of training, whose sums go on."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.evaluate(X[:2], Y[:2], verbose=0)


@pytest.mark.slow
def test_metrics_of_layers_in_compiled_steps():
    keras.utils.set_random_seed(0)
    stock = watched()
    stock.compile(keras.optimizers.SGD(RATE), crossentropy())
    keras.utils.set_random_seed(0)
    model = bayesian(watched(), hypernet=MeanField(1e-9))
    model.compile(keras.optimizers.SGD(RATE), kl_weight=0.0, train_samples=2)
    arguments = {"batch_size": 5, "verbose": 0, "shuffle": False, "epochs": 2}
    arguments["validation_data"] = (X[:7], Y[:7])
    expected = stock.fit(X, Y, **arguments).history
    found = model.fit(X, Y, callbacks=[Evaluates()], **arguments).history
    assert {"first", "last", "val_first", "val_last"} <= expected.keys()
    assert_same_logs(expected, found)
