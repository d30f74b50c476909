"""Scores in an Apache Beam pipeline, on Dataflow, Flink or Spark.

Needs the extra `beam`; `import bhn_tf` does not import this module.

Example:
```python
import apache_beam as beam

from bhn_tf.beam import ScoreRows, WriteScores

saved_model = "gs://mine/saved_models/digits"
with beam.Pipeline(options=options) as pipeline:
    (
        pipeline
        | beam.io.ReadFromTFRecord("gs://mine/digits-*.tfrecord")
        | beam.Map(lambda record: (digest(record), record))
        | ScoreRows(saved_model)
        | WriteScores("gs://mine/scores", saved_model)
    )
```
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bhn_tf.arguments import check_count, check_probability
from bhn_tf.environment import require
from bhn_tf.scoring.batches import as_rows, only_input
from bhn_tf.scoring.guarantees import empty_columns, model_columns
from bhn_tf.scoring.keras_file import model_path, open_model
from bhn_tf.scoring.record_files import elements, layout_of
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel

require("apache_beam", "'bhn-tf[beam]'")

import apache_beam as beam  # noqa: E402
from apache_beam.ml.inference.base import (  # noqa: E402
    KeyedModelHandler,
    ModelHandler,
    PredictionResult,
    RunInference,
)


class SavedModelHandler(ModelHandler):
    """Lets `RunInference` ask the `serving_default` of a SavedModel or `.keras` file.

    The rows of one batch share their draws. A runner may process a batch twice, with
    different draws; only a model exported with `ensemble=True` then answers the same.

    Args:
        saved_model: A SavedModel, or a folder of versions of it, on any file system
            that TensorFlow knows, or a `.keras` file. The version is chosen here, once
            for all workers.
        batch_size: Rows of one call, at most.
        level: That of the intervals or sets of a calibrated model, such as 0.9; `None`
            for none.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If `batch_size` is no count or `level` no probability.

    Example:
    ```python
    rows | RunInference(SavedModelHandler("saved_models/digits"))
    ```
    """

    def __init__(self, saved_model, batch_size: int = 256, level: float | None = None):
        super().__init__()
        self._batch_size = check_count("batch_size", batch_size, minimum=1)
        self._path = model_path(saved_model)
        self._level = None if level is None else check_probability("level", level)

    # In Beam 2.70 the constructor has no argument `max_batch_size` yet.
    def batch_elements_kwargs(self) -> dict:
        return {"max_batch_size": self._batch_size}

    def load_model(self) -> "LoadedModel":
        """Loads the SavedModel, once per worker."""
        return LoadedModel(open_model(self._path), self._level)

    def run_inference(
        self, batch: Sequence, model: "LoadedModel", inference_args: dict | None = None
    ) -> Iterable[PredictionResult]:
        """Answers a batch.

        Args:
            batch: Rows: arrays, dictionaries of them by input, or records of a TFRecord
                file as bytes (see `scoring.record_files.RecordFile`).
            model: What `load_model` returned.
            inference_args: Not used.

        Returns:
            For each row its mean and scores, numbers by column.
        """
        columns = model.columns(batch)
        names = list(columns)
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        return [
            PredictionResult(example, dict(zip(names, row, strict=True)), self._path)
            for example, row in zip(batch, rows, strict=True)
        ]


class LoadedModel:
    """A served model, with what is computed once for all batches of a worker.

    Args:
        model: The served model.
        level: Level of its intervals or sets; `None` for none.

    Raises:
        ScoringProblem: If the model promises nothing at this level.
    """

    def __init__(self, model: ServedModel, level: float | None):
        self._specs = model.input_specs
        self._columns_of = model_columns(model, level)
        self._records = _RecordReader()

    def columns(self, batch: Sequence) -> dict[str, np.ndarray]:
        """Returns mean, scores and intervals or sets, [rows] by name."""
        where = f"a batch of {len(batch)} rows"
        read = self._records if isinstance(batch[0], bytes) else _of_arrays
        arrays = read(batch, self._specs, where)
        return self._columns_of(
            {
                key: as_rows(arrays[key], spec, where)
                for key, spec in self._specs.items()
            }
        )


class _RecordReader:
    """Parses batches of records with one traced function, as long as they are alike.

    Tracing takes several times as long as parsing.
    """

    def __init__(self):
        self._parse = None

    def __call__(self, records, specs, where) -> dict[str, np.ndarray]:
        records = list(records)
        if self._parse is not None:
            try:
                parsed = self._parse(tf.constant(records))
                return {key: value.numpy() for key, value in parsed.items()}
            except tf.errors.OpError:
                pass  # They differ from earlier ones, or are broken; see below.
        layout = layout_of(records[0], specs, where)
        parsed = next(elements(_parsed(records, layout), where))
        self._parse = tf.function(
            lambda batch: _parsed(batch, layout).get_single_element(),
            input_signature=[tf.TensorSpec([None], tf.string)],
        )
        return parsed


def _parsed(records, layout) -> tf.data.Dataset:
    """A data set whose only element is the batch of all records."""
    rows = tf.data.Dataset.from_tensor_slices(records).map(layout)
    return rows.batch(tf.size(records, tf.int64))


class ScoreRows(beam.PTransform):
    """Turns pairs of an id and a row into dictionaries of scores.

    Rows are what `SavedModelHandler.run_inference` takes. Each dictionary has `id`,
    `mean_0`, `mean_1`, ... and one number for each score: the columns that
    `scoring.score_files` writes, including those of `level`.

    Args:
        saved_model: A SavedModel, a folder of versions of it, or a `.keras` file.
        batch_size: Rows of one call of the model, at most.
        level: That of the intervals or sets of a calibrated model; `None` for none.

    Example:
    ```python
    scores = pipeline | beam.Create(enumerate(x)) | ScoreRows("saved_models/digits")
    ```
    """

    def __init__(self, saved_model, batch_size: int = 256, level: float | None = None):
        super().__init__()
        self._handler = SavedModelHandler(saved_model, batch_size, level)

    def expand(self, pairs):
        """Adds the steps to a pipeline."""
        answers = pairs | RunInference(KeyedModelHandler(self._handler))
        return answers | "Columns" >> beam.MapTuple(_named)


class WriteScores(beam.PTransform):
    """Writes the output of `ScoreRows` to `<prefix>-00000.parquet` and so on.

    The files appear when all rows are complete, and replace any other
    `<prefix>-*.parquet`. A pipeline that is killed and run again, even with another
    number of workers, thus has each row once; a plain `beam.io.WriteToParquet` would
    keep files of an earlier run with another number of files. A killed run leaves a
    folder `beam-temp-<name>-...` behind, which can be deleted.

    Args:
        prefix: Beginning of the files' names, on any file system that Beam knows.
        saved_model: That of `ScoreRows`.
        id_type: PyArrow type of the ids, such as `pyarrow.int64()`; `None` for text.
        level: That of `ScoreRows`.

    Example:
    ```python
    scores = pipeline | beam.Create(enumerate(x)) | ScoreRows("saved_models/digits")
    scores | WriteScores("scores", "saved_models/digits", id_type=pyarrow.int64())
    ```
    """

    def __init__(self, prefix, saved_model, id_type=None, level: float | None = None):
        super().__init__()
        schema = parquet_schema(saved_model, id_type, level)
        self._id_type = schema.field("id").type
        # If file names lack the number of files, Beam deletes the files of earlier
        # runs.
        self._write = beam.io.WriteToParquet(
            str(prefix),
            schema,
            file_name_suffix=".parquet",
            shard_name_template="-SSSSS",
        )

    def expand(self, scores):
        """Adds the steps to a pipeline."""
        return scores | "Ids" >> beam.Map(_with_id_of, self._id_type) | self._write


def parquet_schema(saved_model, id_type=None, level: float | None = None):
    """Returns the PyArrow schema of the output of `ScoreRows`, for `WriteToParquet`.

    Args:
        saved_model: A SavedModel, a folder of versions of it, or a `.keras` file.
        id_type: PyArrow type of the ids; `None` for text.
        level: That of `ScoreRows`.
    """
    require("pyarrow", "'bhn-tf[beam]'")
    import pyarrow

    fields = [
        (
            name,
            pyarrow.string()
            if values.dtype == object
            else pyarrow.from_numpy_dtype(values.dtype),
        )
        for name, values in empty_columns(open_model(saved_model), level).items()
    ]
    return pyarrow.schema([("id", id_type or pyarrow.string()), *fields])


def _named(key, prediction) -> dict:
    return {"id": key, **prediction.inference}


def _with_id_of(row, id_type) -> dict:
    import pyarrow

    try:
        pyarrow.scalar(row["id"], id_type)
    except (pyarrow.ArrowException, OverflowError) as error:
        raise ScoringProblem(
            f"The id {row['id']!r} cannot be written as {id_type}: give `WriteScores` "
            "an `id_type` that all ids have, such as `pyarrow.int64()` for integers, "
            "or make them texts."
        ) from error
    return row


def _of_arrays(rows, specs, where):
    if not isinstance(rows[0], Mapping):
        key, _ = only_input(specs, where, "an element that is an array")
        rows = [{key: row} for row in rows]
    for row in rows:
        missing = [key for key in specs if key not in row]
        if missing:
            raise ScoringProblem(
                f"{where}: a row has no {missing}. The model needs all of its inputs, "
                f"{sorted(specs)}, in the dictionary of each row."
            )
    stacked = {}
    for key in specs:
        values = [np.asarray(row[key]) for row in rows]
        shapes = {value.shape for value in values}
        if len(shapes) > 1:
            raise ScoringProblem(f"{where}: rows have the shapes {sorted(shapes)}.")
        stacked[key] = np.stack(values)
    return stacked
