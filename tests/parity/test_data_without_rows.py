"""Data that are not batches are refused in one line that says what to give."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.parity.twins import ROWS, X, Y, twins


def of_unknown_rank(*arrays):
    return tf.numpy_function(
        lambda *each: each, arrays, [each.dtype for each in arrays]
    )


ROWS_ONE_BY_ONE = tf.data.Dataset.from_tensor_slices((X, Y))


@pytest.mark.parametrize(
    ["data", "advice"],
    [
        (lambda: ROWS_ONE_BY_ONE, "batch"),
        (lambda: zip(X, Y.tolist(), strict=True), "batch"),
        (lambda: ROWS_ONE_BY_ONE.map(lambda x, y: (x, y[None])), "batch"),
        (lambda: ROWS_ONE_BY_ONE.batch(6).map(of_unknown_rank), "ensure_shape"),
    ],
    ids=["rows", "rows of a generator", "rows of vectors", "unknown rank"],
)
def test_elements_of_another_form_are_refused_in_one_line(data, advice):
    _, model = twins()
    model.num_examples = ROWS
    for call in (
        lambda: model.fit(data(), verbose=0),
        lambda: model.fit(X, Y, validation_data=data(), verbose=0),
        lambda: model.evaluate(data(), verbose=0),
        lambda: model.predict(data(), verbose=0),
    ):
        with pytest.raises(ValueError, match=advice) as raised:
            call()
        assert "\n" not in str(raised.value)


def test_one_row_without_an_axis_of_rows_is_refused_in_one_line():
    _, model = twins()
    for call in (model.predict, model.predict_uncertainty, model.predict_on_batch):
        with pytest.raises(ValueError, match=r"x\[None\]"):
            call(X[0])
    stock, model = twins(
        lambda: keras.Sequential([keras.Input((1,)), keras.layers.Dense(3)])
    )
    expected = stock.predict(X[:, 0], verbose=0)
    found = model.predict(X[:, 0], verbose=0)
    np.testing.assert_allclose(found, keras.ops.softmax(expected), rtol=1e-5)
