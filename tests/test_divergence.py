"""Training that diverges says so, and keeps no broken state."""

import pickle

import keras
import numpy as np
import pytest

from bhn_tf.baselines import Deterministic
from bhn_tf.callbacks import Diverged, DivergenceGuard
from tests import networks


class _Break(keras.callbacks.Callback):
    """Makes weights NaN at the end of a step."""

    def __init__(self, step, weights):
        super().__init__()
        self._step, self._weights = step, weights

    def on_train_batch_end(self, batch, logs=None):
        if batch == self._step:
            variable = self._weights(self.model)
            variable.assign(np.full(variable.shape, np.nan))


def _fit(weights, step=1, num_rows=12):
    x, y = networks.data(num_rows)
    model = networks.bayesian(num_examples=num_rows)
    model.compile("sgd")
    callbacks = [_Break(step, weights), DivergenceGuard()]
    model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=callbacks)


@pytest.mark.parametrize(
    ("weights", "term"),
    [
        (lambda model: model.hypernet.affine.mean, "gradient"),
        (lambda model: model.primary.layers[-1].bias, "nll"),
    ],
)
def test_the_first_broken_step_and_its_term_are_named(weights, term):
    with pytest.raises(Diverged, match="epoch 1, step 3") as caught:
        _fit(weights)
    assert (caught.value.epoch, caught.value.step) == (0, 2)
    assert caught.value.term == term


def test_weights_that_the_last_step_breaks_are_found_at_the_end_of_the_epoch():
    with pytest.raises(Diverged, match="epoch 1, step 3: a gradient"):
        _fit(lambda model: model.primary.layers[-1].bias, step=2)


@pytest.mark.slow
def test_moving_statistics_are_looked_at():
    x, y = networks.data(12)
    inputs = keras.Input((networks.NUM_FEATURES,))
    normalized = keras.layers.BatchNormalization()(inputs)
    logits = keras.layers.Dense(networks.NUM_CLASSES)(normalized)
    model = Deterministic(keras.Model(inputs, logits))
    model.compile("sgd")
    with pytest.raises(Diverged, match="remembers of its inputs"):
        model.fit(x * 1e25, y, verbose=0, callbacks=[DivergenceGuard()])


def test_what_was_infinite_before_training_may_stay_so():
    class Mask(keras.layers.Layer):
        def build(self, input_shape):
            self.mask = self.add_weight(
                shape=(networks.NUM_FEATURES,),
                initializer=keras.initializers.Constant(-np.inf),
                trainable=False,
            )

        def call(self, inputs):
            return keras.ops.maximum(inputs, self.mask)

    x, y = networks.data(12)
    network = keras.Sequential(
        [keras.Input((networks.NUM_FEATURES,)), Mask(), keras.layers.Dense(3)]
    )
    model = Deterministic(network)
    model.compile("sgd")
    model.fit(x, y, verbose=0, callbacks=[DivergenceGuard()])


@pytest.mark.parametrize("term", ["nll", "statistics"])
def test_it_comes_out_of_another_process(term):
    error = Diverged(1, 2, term)
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied)) == (Diverged, str(error))
    assert vars(copied) == vars(error)


def test_sound_training_goes_on():
    x, y = networks.data(8)
    model = networks.bayesian(num_examples=8)
    model.compile("adam")
    history = model.fit(x, y, epochs=2, verbose=0, callbacks=[DivergenceGuard()])
    assert len(history.history["loss"]) == 2
