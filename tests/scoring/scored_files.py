"""Models to score with, and functions that make and compare files."""

import csv

import keras
import numpy as np
import tensorflow as tf

import bhn_tf
from bhn_tf import scoring

NUM_ROWS = 23


def exported(network, directory, fed, seed=0):
    """Draws are frozen: the same row has the same scores, however it is read."""
    keras.utils.set_random_seed(seed)
    model = bhn_tf.BayesianHypernet(network, "mean_field", num_examples=1)
    model.compile("adam", run_eagerly=True)
    model.train_on_batch(fed, np.zeros(1, int))
    return model.export(directory, 3, "serving_default", ensemble=True, seed=seed)


def expected(path, inputs):
    return scoring.as_columns(scoring.ServedModel(path)({"inputs": inputs}))


def read(folder):
    """All parts in their order, as columns of text."""
    rows = []
    for path in sorted(folder.glob("part-*.csv")):
        with path.open(newline="") as file:
            rows += list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def score(path, inputs, output, **kwargs):
    sizes = {"batch_size": 4, "rows_per_part": 8, **kwargs}
    return scoring.score_files(path, inputs, output, **sizes)


def check(path, inputs, output, x):
    """The scores in the output are those of the model on x."""
    summary = score(path, inputs, output)
    assert summary.num_rows == len(x)
    table = read(output)
    wanted = expected(path, x)
    assert list(table) == ["id", *wanted]
    for name, values in wanted.items():
        found = np.array(table[name], float)
        np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-6, err_msg=name)
    return table["id"]


def write_records(path, records, compression=None):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)


def example(**features):
    kinds = {
        "f": lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v)),
        "i": lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v)),
        "u": lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v)),
        "O": lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v)),
    }
    feature = {}
    for name, values in features.items():
        # NumPy would cut off zeros at the end of bytes.
        is_bytes = isinstance(values, list) and isinstance(values[0], bytes)
        values = np.asarray(values, object if is_bytes else None).ravel()
        feature[name] = kinds[values.dtype.kind](values.tolist())
    return tf.train.Example(
        features=tf.train.Features(feature=feature)
    ).SerializeToString()
