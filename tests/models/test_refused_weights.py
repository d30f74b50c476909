"""Weights without a meaning, and batches whose parts do not fit, are refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from tests import networks

X, Y = networks.data(9)


@pytest.fixture(scope="module")
def model():
    return networks.compiled(networks.bayesian(num_examples=9))


@pytest.fixture(scope="module")
def regression():
    network = keras.Sequential(
        [keras.Input((networks.NUM_FEATURES,)), bhn_tf.layers.WeightNormDense(1)]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field", "gaussian", num_examples=9)
    return networks.compiled(model)


def of_unknown_rows(*batch):
    """A data set of one batch, whose number of rows TensorFlow does not know."""
    signature = tuple(
        tf.TensorSpec([None, *part.shape[1:]], part.dtype) for part in batch
    )
    dataset = tf.data.Dataset.from_generator(
        lambda: [batch], output_signature=signature
    )
    return dataset.apply(tf.data.experimental.assert_cardinality(1))


@pytest.mark.parametrize(
    ["weights", "wrong"],
    [
        ([1.0, 2.0, 3.0], "dictionary"),
        ({0: 1.0, 1: -1.0}, "-1.0"),
        ({0: np.nan}, "nan"),
        ({0: np.inf}, "inf"),
        ({0: "heavy"}, "heavy"),
        ({"one": 2.0}, "one"),
        ({0.5: 2.0}, "0.5"),
        ({3: 2.0}, "0 to 2"),
        ({-1: 2.0}, "-1"),
    ],
    ids=str,
)
def test_class_weights_without_a_meaning_are_refused(model, weights, wrong):
    before = networks.weights_of(model)
    for call in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match=f"class_weight.*{wrong}"):
            call(X, Y, class_weight=weights)
    for value, old in zip(networks.weights_of(model), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_class_weights_of_rows_without_one_class_are_refused(regression):
    inputs = keras.Input((networks.NUM_FEATURES,))
    heads = [keras.layers.Dense(2, name=name)(inputs) for name in ("a", "b")]
    labels = np.stack([Y == 0, Y == 1], axis=1).astype("float32")
    deterministic = bhn_tf.baselines.Deterministic
    for model, y in (
        (regression, X[:, 0]),
        (deterministic(keras.Model(inputs, heads[0]), "bernoulli"), labels),
        (deterministic(keras.Model(inputs, heads), ["bernoulli"] * 2), [labels] * 2),
    ):
        model.compile("sgd", run_eagerly=True)
        for call in (model.fit, model.train_on_batch):
            with pytest.raises(ValueError, match="have none, or several"):
                call(X, y, class_weight={0: 1.0, 1: 2.0})


@pytest.mark.parametrize("key", [2, np.int64(2), 2.0, np.float32(2)], ids=repr)
def test_class_numbers_are_keys_in_every_type(model, key):
    model.train_on_batch(X, Y, class_weight={key: np.float32(2.0)})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int32", "int8", "float16", "float64"])
def test_negative_weights_of_a_data_set_are_refused(model, dtype):
    weights = np.where(Y == 1, -1, 1).astype(dtype)
    with pytest.raises(ValueError, match="negative values in `sample_weight`"):
        model.fit(of_unknown_rows(X, Y, weights), verbose=0)
    model.fit(of_unknown_rows(X, Y, np.abs(weights)), verbose=0)


@pytest.mark.slow
def test_batches_of_a_data_set_have_as_many_of_everything(model, regression):
    of_one_row = [X[:1, 0], X[:1, :1], np.ones([1, 1], "float32")]
    for trained, batch in (
        *((regression, (X, y)) for y in of_one_row),
        *((model, (X, Y, weight)) for weight in of_one_row),
        (model, (X, Y, X[:3, 0] ** 2)),
    ):
        before = [value.numpy() for value in trained.trainable_variables]
        for call in (trained.fit, trained.evaluate):
            with pytest.raises(ValueError, match="different numbers of rows"):
                call(of_unknown_rows(*batch), verbose=0)
        for value, old in zip(trained.trainable_variables, before, strict=True):
            np.testing.assert_array_equal(value, old)


@pytest.mark.slow
def test_the_sentence_on_a_data_set_ends_as_it_should(model):
    with pytest.raises(ValueError, match=r"^A batch has NaN .* values in `x`\.$"):
        model.fit(of_unknown_rows(X * np.nan, Y), verbose=0)
