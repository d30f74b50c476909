"""The kinds of data that Keras takes, each beside the same data as NumPy arrays."""

import collections

import h5py
import keras
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import tensorflow as tf

from bhn_tf.layers import WeightNormDense
from tests.parity.twins import CLASSES, FEATURES, ROWS, X, Y, dense

A, B = X[:, :2], X[:, 2:]
HALF_ZERO = np.where(X > 0, X, 0).astype("float32")
LENGTHS = [1 + row % 3 for row in range(ROWS)]
WORDS = np.array(list("abcd"))[np.arange(2 * ROWS).reshape(ROWS, 2) * 7 % 4]
TEXTS = np.array([" ".join(row) for row in WORDS], dtype=object)[:, None]
TOKENS = np.where(np.arange(FEATURES) < np.array(LENGTHS)[:, None], 2, 0)


def dense_of_sparse():
    return dense(sparse=True)


@keras.saving.register_keras_serializable("tests")
class Padded(keras.layers.Layer):
    """Ragged rows as dense ones."""

    def call(self, inputs):
        if isinstance(inputs, tf.RaggedTensor):
            inputs = inputs.to_tensor(shape=[None, FEATURES])
        return keras.ops.cast(inputs, "float32")[..., :FEATURES]

    def compute_output_shape(self, input_shape):
        return (input_shape[0], FEATURES)


def of_ragged():
    inputs = keras.Input((None,), dtype="int64", ragged=True)
    return keras.Model(inputs, logits(Padded()(inputs)))


def of_words():
    words = keras.Input((2,), dtype="string")
    numbers = keras.layers.StringLookup(vocabulary=list("abc"))(words)
    hidden = keras.layers.Embedding(4, 3)(numbers)
    return keras.Model(words, logits(keras.layers.Flatten()(hidden)))


def of_text():
    text = keras.Input((1,), dtype="string")
    numbers = keras.layers.TextVectorization(
        vocabulary=list("abc"), output_sequence_length=2
    )(text)
    hidden = keras.layers.Embedding(5, 3)(numbers)
    return keras.Model(text, logits(keras.layers.Flatten()(hidden)))


def logits(hidden):
    return WeightNormDense(CLASSES, random="none")(hidden)


def of_two(structure):
    """A network whose two inputs have the structure that a function gives them."""

    def make():
        a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
        return keras.Model(structure(a, b), logits(keras.layers.Concatenate()([a, b])))

    return make


@keras.saving.register_keras_serializable("tests")
class SumOfGiven(keras.layers.Layer):
    """The sum of two inputs, of which the second may be missing."""

    def call(self, a, b=None):
        return a if b is None else a + b

    def compute_output_shape(self, a_shape, b_shape=None):
        return a_shape


def of_optional():
    a = keras.Input((FEATURES,), name="a")
    b = keras.Input((FEATURES,), name="b", optional=True)
    return keras.Model([a, b], logits(SumOfGiven()(a, b)))


def of_columns():
    columns = {name: keras.Input((1,), name=name) for name in "ab"}
    return keras.Model(
        columns, logits(keras.layers.Concatenate()(list(columns.values())))
    )


def _memmap(directory):
    values = np.memmap(directory / "x", "float32", "w+", shape=X.shape)
    values[:] = X
    return values


def _h5(directory):
    # Closed only by garbage collection, as users leave it.
    return h5py.File(directory / "x.h5", "w").create_dataset("x", data=X)


def _jax(_):
    return pytest.importorskip("jax", reason="JAX is not installed").numpy.asarray(X)


def _torch(_):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.from_numpy(X)


def _dict(a, b):
    return {"a": a, "b": b}


def _ordered(a, b):
    return collections.OrderedDict([("b", b), ("a", a)])


#: Network, function that makes the inputs in a directory, and the same inputs in a form
#: that stock Keras takes in every call.
KINDS = {
    "numpy": (dense, lambda _: X, X),
    "float64": (dense, lambda _: X.astype("float64"), X),
    "tensor": (dense, lambda _: tf.constant(X), X),
    "frame": (dense, lambda _: pd.DataFrame(X, columns=list("abcd")), X),
    "frame of two dtypes": (
        dense,
        lambda _: pd.DataFrame(X).astype({3: "float64"}),
        X,
    ),
    "columns of a frame": (
        of_columns,
        lambda _: dict(pd.DataFrame(A, columns=["a", "b"])),
        {"a": A[:, :1], "b": A[:, 1:]},
    ),
    "memmap": (dense, _memmap, X),
    "h5py": (dense, _h5, X),
    "csr": (dense_of_sparse, lambda _: scipy.sparse.csr_matrix(HALF_ZERO), HALF_ZERO),
    "SparseTensor": (
        dense_of_sparse,
        lambda _: tf.sparse.from_dense(HALF_ZERO),
        HALF_ZERO,
    ),
    "RaggedTensor": (
        of_ragged,
        lambda _: tf.RaggedTensor.from_tensor(TOKENS, lengths=LENGTHS),
        TOKENS,
    ),
    "words": (of_words, lambda _: WORDS, tf.constant(WORDS)),
    "words as objects": (
        of_words,
        lambda _: WORDS.astype(object),
        tf.constant(WORDS),
    ),
    "words in a frame": (of_words, lambda _: pd.DataFrame(WORDS), tf.constant(WORDS)),
    "text": (of_text, lambda _: TEXTS, tf.constant(TEXTS.astype(str))),
    "tuple": (of_two(lambda a, b: (a, b)), lambda _: (A, B), (A, B)),
    "list": (of_two(lambda a, b: [a, b]), lambda _: [A, B], [A, B]),
    "dict": (of_two(_dict), lambda _: {"b": B, "a": A}, _dict(A, B)),
    "dict for a list": (of_two(lambda a, b: [a, b]), lambda _: _dict(A, B), [A, B]),
    "OrderedDict of another order": (
        of_two(_dict),
        lambda _: _ordered(A, B),
        _dict(A, B),
    ),
    "dict for an OrderedDict": (
        of_two(_ordered),
        lambda _: _dict(A, B),
        _ordered(A, B),
    ),
    "nested": (
        of_two(lambda a, b: {"p": [a], "b": b}),
        lambda _: {"p": [A], "b": B},
        {"p": [A], "b": B},
    ),
    "optional, missing": (of_optional, lambda _: [X, None], [X, None]),
    "optional, given": (of_optional, lambda _: [X, X], [X, X]),
    "jax": (dense, _jax, X),
    "torch": (dense, _torch, X),
}
if hasattr(np.dtypes, "StringDType"):
    # Of NumPy 2.
    KINDS["words of any length"] = (
        of_words,
        lambda _: WORDS.astype(np.dtypes.StringDType()),
        tf.constant(WORDS),
    )

#: Labels that are the same class numbers.
LABELS = {
    "numpy": Y,
    "column": Y[:, None],
    "series": pd.Series(Y, index=range(5, 5 + ROWS)),
    "frame": pd.DataFrame(Y),
    "tensor": tf.constant(Y),
    "float": Y.astype("float32"),
}
