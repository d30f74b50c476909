"""The Beam transform gives the scores that the files get, on Beam's local runner."""

import os
import warnings

import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import scoring
from tests.scoring.scored_files import NUM_ROWS

with warnings.catch_warnings():
    # Beam's own imports warn.
    warnings.simplefilter("ignore")
    beam = pytest.importorskip("apache_beam", reason="needs the extra `beam`")
    from apache_beam.testing.util import assert_that

    from bhn_tf.beam import SavedModelHandler, ScoreRows, parquet_schema

# What Beam and its runner warn of while they work is not ours.
pytestmark = pytest.mark.filterwarnings("ignore::Warning")


def pipeline():
    return beam.Pipeline(runner="FnApiRunner")


def as_arrays(row):
    return row


def as_dictionaries(row):
    return {"inputs": row}


def as_tensors(row):
    return tf.io.serialize_tensor(row).numpy()


def as_examples(row):
    values = tf.train.Feature(float_list=tf.train.FloatList(value=row))
    name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"name"]))
    features = tf.train.Features(feature={"inputs": values, "id": name})
    return tf.train.Example(features=features).SerializeToString()


def test_every_row_has_the_scores_of_the_model_in_every_form(vectors, x):
    columns = scoring.as_columns(scoring.ServedModel(vectors)({"inputs": x}))

    def check(found):
        assert sorted(row["id"] for row in found) == list(range(NUM_ROWS))
        for row in found:
            assert list(row) == ["id", *columns]
            for name, values in columns.items():
                assert row[name] == pytest.approx(values[row["id"]], abs=1e-5)

    # One pipeline, for its start is what costs.
    with pipeline() as p:
        for form in (as_arrays, as_dictionaries, as_tensors, as_examples):
            name = form.__name__
            rows = p | name >> beam.Create([(i, form(r)) for i, r in enumerate(x)])
            scores = rows | f"score {name}" >> ScoreRows(vectors, batch_size=8)
            assert_that(scores, check, label=f"check {name}")


def test_from_a_record_file_to_parquet(vectors, x, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    with tf.io.TFRecordWriter(str(tmp_path / "x.tfrecord")) as writer:
        for row in x:
            writer.write(as_tensors(row))
    with pipeline() as p:
        (
            p
            | beam.io.ReadFromTFRecord(str(tmp_path / "x.tfrecord"))
            | beam.Map(lambda record: (record.hex(), record))
            | ScoreRows(vectors)
            | beam.io.WriteToParquet(
                str(tmp_path / "scores"),
                parquet_schema(vectors),
                file_name_suffix=".parquet",
            )
        )
    files = [name for name in os.listdir(tmp_path) if name.startswith("scores")]
    tables = [parquet.read_table(tmp_path / name) for name in files]
    found = {row["id"]: row for table in tables for row in table.to_pylist()}
    mean = scoring.ServedModel(vectors)({"inputs": x})["mean"]
    for row, values in zip(x, mean, strict=True):
        assert found[as_tensors(row).hex()]["mean_0"] == pytest.approx(values[0])


def test_what_does_not_fit_is_said(vectors):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ScoreRows("nowhere")
    handler = SavedModelHandler(vectors)
    model = handler.load_model()
    with pytest.raises(scoring.ScoringProblem, match=r"\(5,\).*\(4,\)"):
        handler.run_inference([np.zeros(5, "float32")], model)
    records = [as_tensors(np.zeros(size, "float32")) for size in (4, 5)]
    with pytest.raises(scoring.ScoringProblem, match="like the first one"):
        handler.run_inference(records, model)
    with pytest.raises(scoring.ScoringProblem, match="shapes"):
        handler.run_inference([np.zeros(5), np.zeros(4)], model)
