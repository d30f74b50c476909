"""Sequences of many lengths need few traces, and nothing of them is kept."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import WeightNormDense
from tests import networks

CALLS = ("predict", "predict_samples", "predict_uncertainty")


def tagger(inner):
    """A class for each token, of sequences of any length."""
    return keras.Sequential([keras.Input((None, 2)), *inner, WeightNormDense(3)])


@pytest.fixture
def traced():
    traces = []

    class Traced(keras.layers.Layer):
        def call(self, inputs):
            traces.append(inputs.shape)
            return inputs

    model = networks.bayesian(tagger([Traced()]), "mean_field")
    return networks.compiled(model), traces


def sequences(length, num_rows=3):
    random = np.random.default_rng(length)
    return random.normal(size=(num_rows, length, 2)).astype("float32")


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_traces_are_few(traced, call):
    model, traces = traced
    asked = {"num_samples": 2, "seed": 1, "verbose": 0}
    del traces[:]
    for length in range(1, 12):
        for num_rows in (1, 3):
            x = sequences(length, num_rows)
            found = getattr(model, call)(x, batch_size=2, **asked)
            means = found["mean"] if call == "predict_uncertainty" else found
            assert means.shape[0] == num_rows and means.shape[-2] == length
    # One trace for all numbers of rows, and one more when lengths turn out to differ.
    assert len(traces) == 2


def test_numbers_of_draws_are_not_traced_one_by_one(traced):
    model, traces = traced
    del traces[:]
    for num_samples in (2, 3, 5, 8):
        model.predict(sequences(4), num_samples=num_samples, verbose=0)
    assert len(traces) == 1


def test_an_answer_does_not_depend_on_what_was_asked_before(traced):
    model, _ = traced
    asked = {"num_samples": 2, "seed": 1, "verbose": 0}
    expected = model.predict(sequences(4), **asked)
    for length in (1, 7):
        model.predict(sequences(length), **asked)
    np.testing.assert_allclose(
        model.predict(sequences(4), **asked), expected, rtol=1e-5, atol=1e-7
    )


@pytest.mark.slow
def test_nothing_is_kept_of_a_call(traced):
    """The number of Python objects does not grow with the number of calls."""
    model, _ = traced

    def objects_after(lengths):
        for length in lengths:
            for call in CALLS:
                getattr(model, call)(sequences(length), num_samples=2, verbose=0)
        gc.collect()
        return len(gc.get_objects())

    objects_after(range(1, 5))
    before = objects_after(range(5, 7))
    assert objects_after(range(7, 17)) < before + 10


@pytest.mark.slow
def test_batches_of_one_data_set_may_differ(traced):
    model, _ = traced
    batches = [sequences(length) for length in (2, 5, 3)]

    def generator():
        yield from batches

    dataset = tf.data.Dataset.from_generator(
        generator, output_signature=tf.TensorSpec((None, None, 2), "float32")
    ).apply(tf.data.experimental.assert_cardinality(3))
    for batch, length in zip(batches, (2, 5, 3), strict=True):
        means = model.predict(batch, num_samples=2, seed=1, verbose=0)
        assert means.shape == (3, length, 3)
    found = model.predict(dataset, num_samples=2, seed=1, verbose=0)
    for row, means in zip(found, [m for b in batches for m in b], strict=True):
        assert row.shape == (len(means), 3)
