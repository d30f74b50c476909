"""Pools in frames and in other things that hold columns of numbers."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bhn_tf.active.pool import Pool
from tests.active.learners import learner, pool

X = pool()[0]


class PolarsLike:
    """The attributes that polars shares with pandas; it need not be installed."""

    columns = ("a", "b", "c", "d")

    def __getitem__(self, name):
        return X[:, self.columns.index(name)]

    def to_numpy(self):
        raise AssertionError("columns of several types would become objects")


@pytest.mark.parametrize(
    "frame",
    [
        # Rows are counted from the top, whatever the index says.
        pd.DataFrame(X, index=np.arange(len(X))[::-1]),
        PolarsLike(),
        {"all": pd.DataFrame(X, index=np.arange(len(X)) + 7)},
        tf.Variable(X),
    ],
)
def test_rows_are_those_of_the_array(frame):
    ids = np.array([5, 2, 30])
    found, expected = Pool(frame), Pool(X)
    assert found.size == len(X)
    rows = found.rows(ids)
    if isinstance(rows, dict):
        rows = rows["all"]
    np.testing.assert_array_equal(rows, X[ids])
    assert found.fingerprint(ids) == expected.fingerprint(ids)


def test_columns_of_several_types():
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, np.nan]})
    found = Pool({"frame": frame, "series": frame["c"]}).rows(np.array([1, 0]))
    np.testing.assert_array_equal(found["frame"], [[2, 0, np.nan], [1, 1, 0.5]])
    np.testing.assert_array_equal(found["series"], [[np.nan], [0.5]])


def test_a_memory_map_is_not_read(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(Pool(mapped).rows(np.array([4, 1])), X[[4, 1]])
    assert isinstance(mapped, np.memmap)


def test_a_learner_over_a_frame_asks_as_one_over_an_array():
    found, expected = learner(pool_x=pd.DataFrame(X)), learner()
    assert found.run(2) == expected.run(2)


def test_words_have_the_same_checksum_in_every_process():
    words = np.array(["a", "b"] * 2, object)
    ids = np.array([0, 1])
    assert Pool(words).fingerprint(ids) == Pool(words.copy()).fingerprint(ids)
    assert Pool(words).fingerprint(ids) != Pool(words[::-1]).fingerprint(ids)
