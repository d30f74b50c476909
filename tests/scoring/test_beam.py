"""The Beam transform gives the same scores as files get, on Beam's local runner."""

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
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.testing.util import assert_that

    from bhn_tf.beam import SavedModelHandler, ScoreRows, WriteScores

# Warnings of Beam and its runner are not ours.
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

    # One pipeline, since starting it takes most of the time.
    with pipeline() as p:
        for form in (as_arrays, as_dictionaries, as_tensors, as_examples):
            name = form.__name__
            rows = p | name >> beam.Create([(i, form(r)) for i, r in enumerate(x)])
            scores = rows | f"score {name}" >> ScoreRows(vectors, batch_size=8)
            assert_that(scores, check, label=f"check {name}")


def write_scores(vectors, folder, num_workers=1, stop_at=None):
    """Scores a record file; the results are as many files as there are workers."""
    options = PipelineOptions(direct_num_workers=num_workers)
    with beam.Pipeline(runner="FnApiRunner", options=options) as p:
        (
            p
            | beam.io.ReadFromTFRecord(str(folder / "x.tfrecord"))
            | beam.Reshuffle()
            | beam.Map(lambda record: (record.hex(), record))
            | ScoreRows(vectors)
            | beam.Map(stopping_at, stop_at)
            | WriteScores(folder / "scores", vectors)
        )


def stopping_at(row, stop_at):
    if row["id"] == stop_at:
        raise KeyboardInterrupt("no more")
    return row


def read_scores(folder):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    tables = [parquet.read_table(path) for path in folder.glob("scores-*.parquet")]
    return [row for table in tables for row in table.to_pylist()]


@pytest.fixture
def record_file(x, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "x.tfrecord")) as writer:
        for row in x:
            writer.write(as_tensors(row))
    return tmp_path


def test_from_a_record_file_to_parquet(vectors, x, record_file):
    write_scores(vectors, record_file)
    found = {row["id"]: row for row in read_scores(record_file)}
    mean = scoring.ServedModel(vectors)({"inputs": x})["mean"]
    for row, values in zip(x, mean, strict=True):
        assert found[as_tensors(row).hex()]["mean_0"] == pytest.approx(values[0])


@pytest.mark.slow
def test_a_pipeline_started_again_has_each_row_once(vectors, x, record_file):
    ids = sorted(as_tensors(row).hex() for row in x)
    with pytest.raises(BaseException, match="no more"):
        write_scores(vectors, record_file, num_workers=2, stop_at=ids[3])
    assert not read_scores(record_file)
    for num_workers in (3, 2):
        write_scores(vectors, record_file, num_workers)
        files = sorted(record_file.glob("scores-*.parquet"))
        assert len(files) == num_workers
        assert sorted(row["id"] for row in read_scores(record_file)) == ids
        # As if it was killed while files were moved to their places.
        files[0].unlink()
    write_scores(vectors, record_file, num_workers=1)
    assert sorted(row["id"] for row in read_scores(record_file)) == ids


@pytest.mark.slow
def test_ids_are_of_the_type_that_is_asked_for(vectors, x, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    made = WriteScores(tmp_path / "scores", vectors, id_type=pyarrow.int64())
    with pipeline() as p:
        p | beam.Create(enumerate(x)) | ScoreRows(vectors) | made
    found = sorted(row["id"] for row in read_scores(tmp_path))
    assert found == list(range(NUM_ROWS))
    for wrong, id_type in ((7, None), ("a", pyarrow.int64()), (-1, pyarrow.uint64())):
        writer = WriteScores(tmp_path / "wrong", vectors, id_type)
        with (
            pytest.raises(Exception, match=rf"id {wrong!r} .*`id_type`"),
            pipeline() as p,
        ):
            p | beam.Create([(wrong, x[0])]) | ScoreRows(vectors) | writer
    assert not list(tmp_path.glob("wrong*.parquet"))


def test_batches_of_other_records_than_before(vectors, x):
    """They are parsed with the function traced for the first batch, if it fits."""
    handler = SavedModelHandler(vectors)
    model = handler.load_model()
    mean = model.columns(list(x))["mean_0"]
    forms = (as_tensors, as_tensors, as_examples, as_examples, as_tensors)
    for size, form in zip((23, 5, 23, 7, 1), forms, strict=True):
        answers = handler.run_inference([form(row) for row in x[:size]], model)
        found = [answer.inference["mean_0"] for answer in answers]
        np.testing.assert_allclose(found, mean[:size], atol=1e-5)
        with pytest.raises(scoring.ScoringProblem, match="like the first one"):
            handler.run_inference([form(x[0]), b"broken"], model)


def test_what_does_not_fit_is_said(vectors):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ScoreRows("nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere.keras"):
        ScoreRows("nowhere.keras")
    for make in (ScoreRows, SavedModelHandler):
        for level in ("x", 1.0, 90):
            with pytest.raises(ValueError, match="`level` to be one probability"):
                make(vectors, level=level)
    handler = SavedModelHandler(vectors)
    model = handler.load_model()
    with pytest.raises(scoring.ScoringProblem, match=r"\(5,\).*\(4,\)"):
        handler.run_inference([np.zeros(5, "float32")], model)
    records = [as_tensors(np.zeros(size, "float32")) for size in (4, 5)]
    with pytest.raises(scoring.ScoringProblem, match="like the first one"):
        handler.run_inference(records, model)
    row = {"inputs": np.zeros(4, "float32"), "id": 3}
    with pytest.raises(scoring.ScoringProblem, match=r"no \['inputs'\].*needs all"):
        handler.run_inference([row, {"id": 4}], model)
    with pytest.raises(scoring.ScoringProblem, match="shapes"):
        handler.run_inference([np.zeros(5), np.zeros(4)], model)
