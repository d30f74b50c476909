"""N, the number of training examples: learned from every kind of data, or given."""

import math
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bhn_tf.data_feeds import feed_of
from bhn_tf.models.num_examples import NumExamples
from tests import networks


class Batches(keras.utils.PyDataset):
    """Rows in batches of 4, the last one smaller."""

    def __init__(self, num_rows, num_batches="all"):
        super().__init__()
        self.x, self.y = networks.data(num_rows)
        self._num_batches = num_batches

    @property
    def num_batches(self):
        if self._num_batches == "all":
            return math.ceil(len(self.x) / 4)
        return self._num_batches

    def __getitem__(self, index):
        start = 4 * (index % math.ceil(len(self.x) / 4))
        return self.x[start : start + 4], self.y[start : start + 4]


# Keras's own warning if a data set does not tell its length.
OUT_OF_DATA = "ignore:Your input ran out of data:UserWarning"


def rows(num_rows):
    return tf.data.Dataset.from_tensor_slices(networks.data(num_rows))


def without_zeros(num_rows):
    return rows(num_rows).filter(lambda x, y: y > 0)


def positive(num_rows):
    return int((networks.data(num_rows)[1] > 0).sum())


def rows_seen(model, name):
    """Rows that an epoch has fed to a tracker."""
    (tracker,) = [metric for metric in model.metrics if metric.name == name]
    return float(tracker.count)


@pytest.fixture(scope="module")
def model():
    model = networks.bayesian(hypernet="mean_field")
    model.compile("sgd", run_eagerly=True)
    return model


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ["make", "expected"],
    [
        (lambda: rows(13).batch(5), 13),
        (lambda: rows(13).batch(5, drop_remainder=True), 10),
        (lambda: rows(13).shuffle(13).batch(5).prefetch(1), 13),
        (lambda: without_zeros(21).batch(5), positive(21)),
        (
            lambda: without_zeros(21).batch(5, drop_remainder=True),
            positive(21) // 5 * 5,
        ),
        (lambda: rows(12).batch(4).map(lambda x, y: (x, y, tf.ones_like(y))), 12),
        (lambda: Batches(13), 13),
    ],
    ids=[
        "batched",
        "without the remainder",
        "shuffled",
        "filtered",
        "filtered without the remainder",
        "weighted",
        "PyDataset",
    ],
)
@pytest.mark.filterwarnings(OUT_OF_DATA)
def test_counted_in_batches(model, make, expected):
    model.fit(make(), verbose=0)
    assert model.num_examples == expected
    assert rows_seen(model, "nll") == expected


@pytest.mark.filterwarnings("error:The data set repeats itself")
def test_what_a_zip_puts_beside_rows_repeats_none():
    windows = keras.utils.timeseries_dataset_from_array(
        np.arange(20.0), np.arange(4.0, 20.0), sequence_length=4, batch_size=5
    )
    constants = tf.data.Dataset.from_tensors(1.0).repeat()
    zipped = tf.data.Dataset.zip(rows(13), constants).map(lambda row, _: row).batch(5)
    for dataset, expected in ((windows, 16), (zipped, 13)):
        counted = NumExamples(None)
        counted.learn(feed_of(dataset), 0.0)
        assert counted.value == expected
    counters = tf.data.Dataset.counter()
    repeated = tf.data.Dataset.zip(rows(13).repeat(2), counters).batch(5)
    with pytest.raises(UserWarning, match="repeats itself"):
        NumExamples(None).learn(feed_of(repeated), 0.0)


def test_counted_in_arrays(model):
    x, y = networks.data(13)
    model.fit(x, y, verbose=0)
    assert model.num_examples == 13
    model.fit(x, y, validation_split=0.2, verbose=0)
    assert model.num_examples == 10
    model.fit(tf.constant(x[:7]), tf.constant(y[:7]), verbose=0)
    assert model.num_examples == 7
    model.fit(x, y, validation_data=(x[:2], y[:2]), verbose=0)
    assert model.num_examples == 13


@pytest.mark.few(4)
@pytest.mark.parametrize("num_rows", [5, 7, 10, 33])
@pytest.mark.parametrize("split", [0.1, 0.25, 1 / 3, 0.5])
def test_validation_split_is_that_of_keras(model, num_rows, split):
    x, y = networks.data(num_rows)
    model.fit(x, y, validation_split=split, verbose=0)
    assert model.num_examples == rows_seen(model, "nll")


@pytest.mark.parametrize("num_examples", [None, 12])
def test_a_split_that_leaves_no_row_is_refused_by_its_name(num_examples):
    own = networks.bayesian(hypernet="mean_field", num_examples=num_examples)
    own.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match=r"`validation_split=0.99` of 12 rows"):
        own.fit(*networks.data(12), validation_split=0.99, verbose=0)


@pytest.mark.parametrize("split", [0.5, None])
def test_a_split_counts_where_keras_splits(model, split):
    """Beside `validation_data` it has no effect, and all rows are trained on."""
    x, y = networks.data(12)
    data = None if split is None else (x, y)
    model.fit(x, y, validation_split=split, validation_data=data, verbose=0)
    assert model.num_examples == rows_seen(model, "nll") == 12


@pytest.mark.filterwarnings(OUT_OF_DATA)
def test_a_pass_over_the_data_is_announced(model):
    with mock.patch.object(logging, "info") as info:
        model.fit(without_zeros(13).batch(5), verbose=0)
        said = [call.args[0] for call in info.call_args_list]
        assert any("in one pass" in sentence for sentence in said)
        info.reset_mock()
        model.fit(rows(13).batch(5, drop_remainder=True), verbose=0)
        said = [call.args[0] for call in info.call_args_list]
        assert said and not any("in one pass" in sentence for sentence in said)


ENDLESS = 100


def from_generator(num_batches):
    """Batches of 4 rows, of unknown number."""

    def batches():
        for _ in range(num_batches):
            yield networks.data(4)
        if num_batches == ENDLESS:
            raise AssertionError("It would never have ended.")

    x, y = networks.data(4)
    return tf.data.Dataset.from_generator(
        batches,
        output_signature=(
            tf.TensorSpec((None, *x.shape[1:]), x.dtype),
            tf.TensorSpec((None,), y.dtype),
        ),
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda: rows(13).batch(5).repeat(),
        lambda: rows(13).repeat().filter(lambda x, y: y > 0).batch(5).prefetch(1),
        lambda: from_generator(ENDLESS),
        lambda: Batches(13, num_batches=None),
        lambda: (networks.data(4) for _ in range(8)),
    ],
    ids=["Dataset", "filtered", "of a generator", "PyDataset", "generator"],
)
def test_what_cannot_be_counted_is_asked_for(make):
    model = networks.bayesian(hypernet="mean_field")
    model.compile("sgd", run_eagerly=True)
    before = networks.weights_of(model)
    with pytest.raises(ValueError, match="num_examples"):
        model.fit(make(), steps_per_epoch=3, verbose=0)
    for value, old in zip(networks.weights_of(model), before, strict=True):
        np.testing.assert_array_equal(value, old)
    given = networks.bayesian(hypernet="mean_field", num_examples=100)
    given.compile("sgd", run_eagerly=True)
    given.fit(make(), steps_per_epoch=3, verbose=0)
    assert given.num_examples == 100 and int(given.optimizer.iterations) == 3


@pytest.mark.few(2)
@pytest.mark.filterwarnings(OUT_OF_DATA)
@pytest.mark.filterwarnings("ignore:The data set repeats itself")
@pytest.mark.parametrize(
    ["make", "steps", "epochs"],
    [
        (lambda: from_generator(6), None, 1),
        (lambda: from_generator(6), 3, 2),
        (lambda: rows(6).repeat().filter(lambda x, y: True).take(24).batch(4), 3, 2),
        (lambda: from_generator(6).apply(length(6)), 3, 1),
        (lambda: rows(24).filter(lambda x, y: True).batch(4), 3, 1),
    ],
    ids=["one pass", "all steps", "taken", "of a known length", "a filter"],
)
def test_what_has_an_end_is_counted(model, make, steps, epochs):
    model.fit(make(), steps_per_epoch=steps, epochs=epochs, verbose=0)
    assert model.num_examples == 24


def length(num_batches):
    return tf.data.experimental.assert_cardinality(num_batches)


def test_given_number_stays_and_disagreement_is_told():
    x, y = networks.data(13)
    model = networks.bayesian(hypernet="mean_field", num_examples=100)
    model.compile("sgd", run_eagerly=True)
    with pytest.warns(UserWarning, match="`num_examples` is 100, .* 13 examples"):
        model.fit(x, y, verbose=0)
    assert model.num_examples == 100
    model.num_examples = 13
    model.fit(x, y, verbose=0)  # Without a warning: in the tests they are errors.
    model.fit(rows(9).batch(3), verbose=0)
    assert model.num_examples == 13


def test_a_generator_that_was_refused_is_to_be_made_anew(model):
    own = networks.bayesian(hypernet="mean_field")
    own.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match="its first batch has been read"):
        own.fit((batch for batch in [networks.data(4)] * 3), verbose=0)


def test_set_number_holds_for_later_fits(model):
    """A counted N is counted anew; a given N is kept."""
    x, y = networks.data(13)
    own = networks.bayesian(hypernet="mean_field")
    own.compile("sgd", run_eagerly=True)
    own.fit(x, y, verbose=0)
    own.num_examples = 9
    own.fit(x[:9], y[:9], verbose=0)
    with pytest.warns(UserWarning, match="`num_examples` is 9"):
        own.fit(x, y, verbose=0)
    assert own.num_examples == 9


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "10", float("nan")])
def test_what_is_no_number_of_examples_is_refused(value):
    with pytest.raises(ValueError, match="num_examples"):
        networks.bayesian(hypernet="mean_field", num_examples=value)
    model = networks.bayesian(hypernet="mean_field")
    with pytest.raises(ValueError, match="num_examples"):
        model.num_examples = value
    assert model.num_examples is None


def test_needed_before_the_first_fit():
    x, y = networks.data(8)
    model = networks.bayesian(hypernet="mean_field")
    model.compile("sgd", run_eagerly=True)
    for call in (model.train_on_batch, model.test_on_batch, model.evaluate):
        with pytest.raises(ValueError, match="model.num_examples"):
            call(x, y)
    model.num_examples = 8
    assert model.train_on_batch(x, y, return_dict=True)["loss"] > 0
    assert model.evaluate(x, y, verbose=0, return_dict=True)["loss"] > 0


@pytest.mark.slow
def test_changes_without_a_new_trace():
    primary, traces = networks.traced()
    model = networks.compiled(networks.bayesian(primary, "mean_field"))
    x, y = networks.data(12)
    for num_rows in (12, 9):
        model.fit(
            x[:num_rows],
            y[:num_rows],
            batch_size=4,
            validation_data=(x, y),
            verbose=0,
        )
    traces.clear()
    for num_rows in (9, 11, 12):
        model.fit(
            x[:num_rows],
            y[:num_rows],
            batch_size=4,
            validation_data=(x, y),
            verbose=0,
        )
        model.kl_weight = 1 / num_rows
    assert not traces


def test_what_was_counted_can_be_given():
    """Setting the same number counts: a generator asks for no other."""
    model = networks.bayesian(hypernet="mean_field")
    model.compile("sgd", run_eagerly=True)
    model.fit(*networks.data(8), verbose=0)
    model.num_examples = 8
    model.fit((networks.data(4) for _ in range(2)), steps_per_epoch=2, verbose=0)
    assert model.num_examples == 8


def test_a_loaded_model_knows_how_many_rows_it_was_trained_on(tmp_path):
    """What `diagnose` compares with N."""
    model = networks.bayesian(hypernet="mean_field", num_examples=80)
    model.compile("sgd", run_eagerly=True)

    def counted_by_loaded():
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert loaded.num_examples == 80
        return loaded.objective.examples.counted

    assert counted_by_loaded() is None
    with pytest.warns(UserWarning, match="trains on 8"):
        model.fit(*networks.data(8), verbose=0)
    assert counted_by_loaded() == 8
