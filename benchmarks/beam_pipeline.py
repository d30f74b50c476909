"""Scores TFRecord files with Beam: the pipeline that `beam_rows` starts.

    python -m benchmarks.beam_pipeline --input='x-*' --output=scores --saved_model=mine

Further flags are Beam's.
"""

import argparse

import apache_beam as beam
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from bhn_tf.beam import ScoreRows, WriteScores


def with_its_id(record: bytes) -> tuple[str, bytes]:
    """The id in the `tf.train.Example` of a record, and the record.

    Args:
        record: The serialised example, which has a feature `id`.
    """
    features = tf.train.Example.FromString(record).features.feature
    return features["id"].bytes_list.value[0].decode(), record


def main(arguments=None) -> None:
    """Runs the pipeline to its end."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", required=True, help="pattern of TFRecord files")
    parser.add_argument("--output", required=True, help="how names of results begin")
    parser.add_argument("--saved_model", required=True)
    given, options = parser.parse_known_args(arguments)
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | beam.io.ReadFromTFRecord(given.input)
            | beam.Map(with_its_id)
            | ScoreRows(given.saved_model)
            | WriteScores(given.output, given.saved_model)
        )


if __name__ == "__main__":
    main()
