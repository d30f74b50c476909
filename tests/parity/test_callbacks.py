"""A callback that calls the model changes no number of the outer call."""

import keras
import numpy as np
import pytest

from bhn_tf.baselines import MCDropout
from bhn_tf.hypernets import MeanField
from bhn_tf.layers import WeightNormDense
from tests.parity.twins import CLASSES, FEATURES, X, Y, bayesian

INNER = {
    "predict": lambda model: model.predict(X[:3], verbose=0),
    "predict_on_batch": lambda model: model.predict_on_batch(X[:3]),
    "evaluate": lambda model: model.evaluate(X[:3], Y[:3], verbose=0, num_samples=3),
    "test_on_batch": lambda model: model.test_on_batch(X[:3], Y[:3]),
    "elbo": lambda model: hasattr(model, "elbo") and model.elbo(X, Y, num_samples=2),
}
# A single batch runs through the same code as many.
each_inner = pytest.mark.parametrize(
    "inner",
    [
        pytest.param(name, marks=[pytest.mark.slow] * name.endswith("_on_batch"))
        for name in INNER
    ],
)


class Asking(keras.callbacks.Callback):
    """Calls the model after every batch."""

    def __init__(self, ask):
        super().__init__()
        self.ask, self.num_asked = ask, 0

    def _ask(self, batch, logs=None):
        self.num_asked += 1
        self.ask(self.model)

    on_train_batch_end = on_test_batch_end = on_predict_batch_end = _ask


def random_scales():
    network = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            WeightNormDense(4, activation="relu"),
            WeightNormDense(CLASSES),
        ]
    )
    return bayesian(network, hypernet=MeanField(0.5), seed=1)


def with_dropout():
    return MCDropout(
        keras.Sequential(
            [
                keras.Input((FEATURES,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.Dropout(0.5, seed=3),
                keras.layers.Dense(CLASSES),
            ]
        )
    )


@pytest.fixture(params=[random_scales, with_dropout], ids=["bayesian", "dropout"])
def make(request):
    def compiled():
        keras.utils.set_random_seed(0)
        model = request.param()
        model.compile(
            keras.optimizers.SGD(0.1),
            metrics=["accuracy"],
            weighted_metrics=["accuracy"],
            run_eagerly=True,
        )
        return model

    return compiled


@pytest.mark.slow
@each_inner
def test_of_fit_and_its_validation(make, inner):
    results = []
    for callbacks in ([], [Asking(INNER[inner])]):
        model = make()
        keras.utils.set_random_seed(1)
        # Validation without noise, since its seed is new every time.
        model.eval_samples = 0
        history = model.fit(
            X,
            Y,
            batch_size=5,
            epochs=2,
            verbose=0,
            validation_data=(X, Y),
            validation_batch_size=5,
            callbacks=[*callbacks],
        ).history
        results.append((history, model.get_weights()))
    assert callbacks[0].num_asked == 12
    (expected, weights), (history, others) = results
    assert history == expected
    for value, wanted in zip(others, weights, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.slow
@each_inner
def test_of_evaluate_and_predict(make, inner):
    model, asking = make(), Asking(INNER[inner])
    if hasattr(model, "num_examples"):
        model.num_examples = 12
    arguments = {"batch_size": 5, "verbose": 0, "num_samples": 4, "seed": 2}
    expected = model.evaluate(X, Y, return_dict=True, **arguments)
    found = model.evaluate(X, Y, return_dict=True, callbacks=[asking], **arguments)
    assert found == expected
    expected = model.predict(X, **arguments)
    found = model.predict(X, callbacks=[asking], **arguments)
    np.testing.assert_array_equal(found, expected)
    assert asking.num_asked == 6


@pytest.mark.slow
def test_a_generator_that_predicts_while_it_is_trained_on(make):
    def batches(model, predicts):
        while True:
            if predicts:
                model.predict(X[:3], verbose=0)
            yield X, Y

    histories = []
    for predicts in (False, True):
        model = make()
        if hasattr(model, "num_examples"):
            model.num_examples = 12
        data = batches(model, predicts)
        histories.append(model.fit(data, steps_per_epoch=2, verbose=0).history)
    assert histories[0] == histories[1]


@pytest.mark.slow
def test_stop_predicting_stops(make):
    class Stop(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            self.model.stop_predicting = batch == 1

    answer = make().predict(X, batch_size=4, verbose=0, callbacks=[Stop()])
    assert len(answer) == 8
