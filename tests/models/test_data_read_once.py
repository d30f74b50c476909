"""Data sets that can be read only once keep all batches, and none is read in secret."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.data_feeds import dataset_feed
from bhn_tf.data_feeds.dataset_feed import DatasetFeed
from tests import networks

# Keras's own warning, wherever it cannot know how many batches there are.
pytestmark = pytest.mark.filterwarnings("ignore:Your input ran out of data")
X, Y = networks.data(20)
SIGNATURE = (tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int64))


def once():
    """Five batches from a generator, which are gone when they have been read."""
    batches = iter([(X[i : i + 4], Y[i : i + 4]) for i in range(0, 20, 4)])
    return tf.data.Dataset.from_generator(lambda: batches, output_signature=SIGNATURE)


def regression_once():
    return once().map(lambda x, _: (x, x[:, 0]))


def compiled(**kwargs):
    model = networks.bayesian(**kwargs)
    model.compile("sgd", metrics=["accuracy"], run_eagerly=True)
    return model


@pytest.mark.slow
def test_every_batch_is_used():
    model = compiled(num_examples=20)
    arguments = {"num_samples": 2, "seed": 1, "verbose": 0}
    np.testing.assert_allclose(
        model.predict(once(), **arguments), model.predict(X, **arguments), rtol=1e-5
    )
    assert model.evaluate(once(), **arguments) == pytest.approx(
        model.evaluate(X, Y, **arguments)
    )
    calibrated = bhn_tf.conformal.calibrate(model, X, Y, num_samples=2)
    assert len(calibrated.predict_set(once(), 0.5, verbose=0)) == 20
    model.fit(once(), validation_data=once(), verbose=0)
    assert model.optimizer.iterations == 5


@pytest.mark.parametrize("epochs", [1, 2])
def test_nothing_left_to_train_on_is_no_silent_success(epochs):
    """The one pass was needed to count N, or for the units of the targets."""
    model = compiled()
    before = networks.weights_of(model)
    with pytest.raises(ValueError, match=r"read only once.*num_examples=N"):
        model.fit(once(), epochs=epochs, verbose=0)
    for value, old in zip(networks.weights_of(model), before, strict=True):
        np.testing.assert_array_equal(value, old)
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model = bhn_tf.baselines.Deterministic(network, "gaussian", normalize_targets=True)
    model.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match=r"read only once.*likelihood\.adapt"):
        model.fit(regression_once(), epochs=epochs, verbose=0)


@pytest.mark.slow
def test_an_epoch_without_batches_after_one_with_some_is_as_in_keras():
    history = compiled(num_examples=20).fit(once(), epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ["data", "read", "advice"],
    [
        (once, DatasetFeed.count, "Counting.* 3 batches.*num_examples.*steps_per"),
        (
            regression_once,
            lambda feed: 4 * len(list(feed.labels_and_weights())),
            r"Reading the targets.* 3 batches.*adapt\(y\).*steps_per",
        ),
    ],
    ids=["N", "units"],
)
def test_a_long_reading_before_training_is_told(monkeypatch, data, read, advice):
    monkeypatch.setattr(dataset_feed, "_MANY_BATCHES", 3)
    feed = DatasetFeed(data())
    with pytest.warns(UserWarning, match=advice) as warned:
        num_rows = read(feed)
    assert num_rows == 20 and len(warned) == 1 and warned[0].filename == __file__
