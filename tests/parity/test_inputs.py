"""Inputs that stock Keras takes work in every call, with the same numbers."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tests.keras_versions import keras_before
from tests.parity.kinds_of_inputs import KINDS, LABELS
from tests.parity.twins import (
    CLASSES,
    ROWS,
    X,
    Y,
    assert_same_logs,
    assert_same_weights,
    bayesian,
    probabilities,
    twins,
)

SIX = {"batch_size": 6, "verbose": 0}


def pair(name, directory, **kwargs):
    if name == "optional, missing" and keras_before("3.12"):
        pytest.skip("Keras itself trains with no missing input before 3.12.")
    make, inputs, plain = KINDS[name]
    given = inputs(directory)
    return *twins(make, **kwargs), given, plain


@pytest.mark.few(5)
@pytest.mark.parametrize("name", KINDS)
def test_every_call_takes_it_and_answers_as_stock_keras(name, tmp_path):
    stock, model, given, plain = pair(name, tmp_path)
    expected = stock.fit(plain, Y, shuffle=False, **SIX).history
    assert_same_logs(expected, model.fit(given, Y, shuffle=False, **SIX).history)
    stock.train_on_batch(plain, Y)
    model.train_on_batch(given, Y)
    assert_same_weights(stock, model)

    for call, kwargs in (("evaluate", SIX), ("test_on_batch", {})):
        expected = getattr(stock, call)(plain, Y, return_dict=True, **kwargs)
        logs = getattr(model, call)(given, Y, return_dict=True, **kwargs)
        assert_same_logs(expected, logs)
    expected = probabilities(stock.predict(plain, **SIX))
    for answer in (
        model.predict(given, **SIX),
        model.predict_on_batch(given),
        model.predict_samples(given, **SIX)[:, 0],
        model.predict_uncertainty(given, **SIX)["mean"],
    ):
        np.testing.assert_allclose(answer, expected, atol=1e-5)
    of_labels = expected[np.arange(ROWS), Y]
    bound = model.elbo(given, Y, num_samples=2, batch_size=6).mean
    assert bound == pytest.approx(np.log(of_labels).sum(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "csr",
        "SparseTensor",
        "RaggedTensor",
        "words",
        "optional, missing",
    ],
)
def test_compiled_functions_take_it_too(name, tmp_path):
    _, model, given, plain = pair(name, tmp_path, run_eagerly=False)
    model.fit(given, Y, **SIX)
    model.train_on_batch(given, Y)
    model.test_on_batch(given, Y)
    expected = model.predict(plain, **SIX)
    np.testing.assert_allclose(model.predict(given, **SIX), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_on_batch(given), expected, atol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["words", "text", "nested", "dict", "csr"])
def test_what_is_exported_answers_as_the_model(name, tmp_path):
    _, model, given, plain = pair(name, tmp_path)
    model.fit(given, Y, **SIX)
    path = model.export(tmp_path / "served", signatures="deterministic")
    served = tf.saved_model.load(path).signatures["deterministic"]
    leaves = keras.tree.flatten(plain)
    names = sorted(served.structured_input_signature[1])
    answer = served(**dict(zip(names, map(tf.constant, leaves), strict=True)))
    np.testing.assert_allclose(answer["mean"], model.predict(given), atol=1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", LABELS)
def test_labels_of_every_library(name):
    stock, model = twins()
    expected = stock.fit(X, Y, shuffle=False, **SIX).history
    y = LABELS[name]
    assert_same_logs(expected, model.fit(X, y, shuffle=False, **SIX).history)
    stock.train_on_batch(X, Y)
    model.train_on_batch(X, y)
    assert_same_weights(stock, model)
    assert_same_logs(
        stock.evaluate(X, Y, return_dict=True, **SIX),
        model.evaluate(X, y, return_dict=True, **SIX),
    )


# -- what yields batches -------------------------------------------------------------


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        rows = slice(6 * index, 6 * index + 6)
        return X[rows], Y[rows]


def endless():
    while True:
        yield X[:6], Y[:6]
        yield X[6:], Y[6:]


def loader():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rows = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    return torch.utils.data.DataLoader(rows, batch_size=6)


SOURCES = {
    "tf.data": lambda: tf.data.Dataset.from_tensor_slices((X, Y)).batch(6),
    "PyDataset": Batches,
    "generator": endless,
    "DataLoader": loader,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SOURCES)
def test_sources_of_batches(name):
    make = SOURCES[name]
    is_endless = name == "generator"
    fit_steps = {"steps_per_epoch": 2} if is_endless else {}
    steps = {"steps": 2} if is_endless else {}
    batches = make()
    stock, model = twins(ours=lambda network: bayesian(network, num_examples=ROWS))
    expected = stock.fit(X, Y, shuffle=False, epochs=2, **SIX).history
    history = model.fit(
        batches, shuffle=False, epochs=2, verbose=0, **fit_steps
    ).history
    assert_same_logs(expected, history)
    assert_same_weights(stock, model)
    assert_same_logs(
        stock.evaluate(X, Y, return_dict=True, **SIX),
        model.evaluate(make(), return_dict=True, verbose=0, **steps),
    )
    expected = probabilities(stock.predict(X, verbose=0))
    answer = model.predict(make(), verbose=0, **steps)
    np.testing.assert_allclose(answer, expected, atol=1e-5)
    scores = model.predict_uncertainty(make(), verbose=0, **steps)
    np.testing.assert_allclose(scores["mean"], expected, atol=1e-5)


class DataLoader:
    """Stands for PyTorch's: batches in lists, padded to their longest row."""

    def __iter__(self):
        for start, length in ((0, 3), (6, 5)):
            rows = slice(start, start + 6)
            yield [np.repeat(X[rows, None, :], length, axis=1), Y[rows]]

    def __len__(self):
        raise TypeError("An iterable data set has no length.")


class OwnLoader(DataLoader):
    """A class derived from it that knows its number of batches."""

    def __len__(self):
        return 2


def of_sequences():
    return keras.Sequential(
        [
            keras.Input((None, *X.shape[1:])),
            keras.layers.SimpleRNN(3),
            keras.layers.Dense(CLASSES),
        ]
    )


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
@pytest.mark.parametrize("make", [DataLoader, OwnLoader])
def test_batches_of_a_loader_have_lengths_of_their_own(make):
    stock, model = twins(of_sequences)
    for batch in make():
        stock.train_on_batch(*batch)
    model.fit(make(), verbose=0)
    assert model.num_examples == ROWS
    assert_same_weights(stock, model)


def test_a_generator_builds_a_network_without_a_shape():
    network = keras.Sequential(
        [keras.layers.Dense(5), keras.layers.Dense(CLASSES, activation="softmax")]
    )
    model = bayesian(network, num_examples=ROWS)
    model.compile("sgd", run_eagerly=True)
    model.fit(endless(), steps_per_epoch=2, verbose=0)
    assert network.layers[0].kernel.shape == (*X.shape[1:], 5)


# -- what is refused in one line -----------------------------------------------------


def calls(model):
    yield lambda x: model.fit(x, Y, verbose=0)
    yield lambda x: model.evaluate(x, Y, verbose=0)
    yield lambda x: model.predict(x, verbose=0)
    yield lambda x: model.predict_on_batch(x)
    yield lambda x: model.train_on_batch(x, Y)
    yield lambda x: model.elbo(x, Y)


class Series(list):
    """Stands for the frames and series of polars, which is not installed."""

    __module__ = "polars.series"
    shape = (ROWS,)


@pytest.mark.parametrize(
    ["x", "advice"],
    [
        (X.tolist(), "np.asarray"),
        (Series(), "to_numpy"),
        (X.astype(object), "astype"),
        (pd.DataFrame({"a": ["x"] * ROWS, "b": np.arange(ROWS)}), "dictionary"),
        ([], "no array"),
    ],
    ids=["lists", "polars", "objects", "mixed frame", "nothing"],
)
def test_other_kinds_are_refused_in_one_line(x, advice):
    _, model = twins()
    for call in calls(model):
        with pytest.raises(ValueError, match=advice) as raised:
            call(x)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "call", ["train_on_batch", "test_on_batch", "predict_on_batch"]
)
def test_a_call_of_one_batch_refuses_what_yields_many(call):
    _, model = twins()
    with pytest.raises(ValueError, match="arrays of one batch"):
        getattr(model, call)(SOURCES["tf.data"]())


def test_class_weights_of_a_frame():
    stock, model = twins()
    weights = dict(zip(range(CLASSES), (1.0, 0.0, 3.0), strict=True))
    expected = stock.fit(X, Y, class_weight=weights, shuffle=False, **SIX).history
    frame, series = pd.DataFrame(X), pd.Series(Y)
    history = model.fit(frame, series, class_weight=weights, shuffle=False, **SIX)
    assert_same_logs(expected, history.history)
    assert_same_weights(stock, model)
