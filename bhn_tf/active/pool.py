"""The unlabelled pool: rows by their index, from arrays or from a data set."""

import zlib
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.active.columns import as_array
from bhn_tf.data_feeds import num_rows


class Pool:
    """Rows of inputs that can be taken by index.

    Args:
        x: Arrays or frames (pandas, polars), or a finite `tf.data.Dataset` of batches
            of inputs (without labels) that yields the same rows in the same order on
            every pass. A data set is read once for each use and never held as a whole.

    Raises:
        ValueError: If there are no rows, their numbers differ, or `x` is neither.
    """

    def __init__(self, x):
        self._x = x
        if isinstance(x, tf.data.Dataset):
            if isinstance(x.element_spec, tuple):
                raise ValueError(
                    "The data set of `pool_x` yields tuples, such as inputs with "
                    "labels. Give the inputs alone: `pool_x.map(lambda x, y: x)`; "
                    "labels come from `label_fn`."
                )
            self.size = _count(x)
            return
        self._x = keras.tree.map_structure(as_array, x)
        sizes = {int(leaf.shape[0]) for leaf in keras.tree.flatten(self._x)}
        if len(sizes) > 1:
            raise ValueError(
                f"The arrays of `pool_x` have {sorted(sizes)} rows. Give as many rows "
                "in each: row i of all is item i."
            )
        self.size = max(sizes, default=0)
        if self.size == 0:
            raise ValueError("`pool_x` is empty: no rows. Give at least one.")

    def rows(self, ids: np.ndarray):
        """Returns the rows `ids` as arrays, in that order."""
        if not isinstance(self._x, tf.data.Dataset):
            return keras.tree.map_structure(lambda leaf: _take(leaf, ids), self._x)
        in_order = np.argsort(ids, kind="stable")
        parts = [part for _, part in self._read(np.asarray(ids)[in_order])]
        back = np.argsort(in_order, kind="stable")
        return keras.tree.map_structure(
            lambda *leaves: np.concatenate(leaves)[back], *parts
        )

    def chunks(self, ids: np.ndarray, chunk_rows: int) -> Iterator[tuple]:
        """Yields `(some of the ids, their rows)`, with about `chunk_rows` at a time.

        Together they cover all ids, in increasing order.
        """
        ids = np.sort(ids)
        if isinstance(self._x, tf.data.Dataset):
            yield from self._joined(self._read(ids), chunk_rows)
            return
        for start in range(0, len(ids), chunk_rows):
            part = ids[start : start + chunk_rows]
            yield part, self.rows(part)

    def fingerprint(self, ids: np.ndarray) -> int:
        """A checksum of the content of some rows."""
        leaves = keras.tree.flatten(self.rows(ids))
        checksum = 0
        for leaf in leaves:
            text = f"{leaf.dtype}{leaf.shape[1:]}".encode()
            content = (
                repr(leaf.tolist()).encode()
                if leaf.dtype.hasobject
                else np.ascontiguousarray(leaf).tobytes()
            )
            checksum = zlib.crc32(content, zlib.crc32(text, checksum))
        return checksum

    def _read(self, sorted_ids):
        """Yields ids and rows, batch by batch of the data set."""
        start = 0
        for batch in self._x.as_numpy_iterator():
            stop = start + num_rows(batch)
            first, last = np.searchsorted(sorted_ids, [start, stop])
            if last > first:
                inside = sorted_ids[first:last]
                yield (
                    inside,
                    keras.tree.map_structure(
                        lambda leaf, rows=inside - start: leaf[rows], batch
                    ),
                )
            start = stop

    def _joined(self, parts, chunk_rows):
        """Joins small parts, so that the model is called with full chunks."""
        held, count = [], 0
        for part in parts:
            held.append(part)
            count += len(part[0])
            if count >= chunk_rows:
                yield _concatenated(held)
                held, count = [], 0
        if held:
            yield _concatenated(held)


def _take(leaf, ids) -> np.ndarray:
    return tf.gather(leaf, ids).numpy() if tf.is_tensor(leaf) else np.asarray(leaf[ids])


def _concatenated(parts):
    ids, rows = zip(*parts, strict=True)
    return np.concatenate(ids), keras.tree.map_structure(
        lambda *leaves: np.concatenate(leaves), *rows
    )


def _count(dataset) -> int:
    if any(spec.shape.rank == 0 for spec in tf.nest.flatten(dataset.element_spec)):
        raise ValueError(
            "The data set of `pool_x` yields single numbers. Give batches of inputs, "
            "`pool_x.batch(256)`, as `predict` takes them."
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "The data set of `pool_x` is endless, so its rows have no index. Leave out "
            "`repeat()`, or cut it with `take`."
        )
    # Counts every row, since the last batch may be short.
    count = dataset.reduce(
        tf.constant(0, tf.int64),
        lambda total, x: total + tf.shape(tf.nest.flatten(x)[0], out_type=tf.int64)[0],
    )
    if count == 0:
        raise ValueError("`pool_x` is empty: its data set yields no row.")
    return int(count)
