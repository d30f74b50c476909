"""Scores TFRecord files with Beam: the pipeline that `beam_rows` starts.

    python -m benchmarks.beam_pipeline --input='x-*' --output=scores --saved_model=mine

Further flags are Beam's.
"""

import argparse
import os
import sys

import apache_beam as beam
import tensorflow as tf
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf.message import DecodeError

from bhn_tf.beam import ScoreRows, WriteScores
from bhn_tf.scoring import ScoringProblem


def with_its_id(record: bytes) -> tuple[str, bytes]:
    """The id in the `tf.train.Example` of a record, and the record.

    Args:
        record: The serialised example, which has a feature `id`.

    Raises:
        ScoringProblem: If it has none, or is no example.
    """
    try:
        features = tf.train.Example.FromString(record).features.feature
        return features["id"].bytes_list.value[0].decode(), record
    except (DecodeError, IndexError, UnicodeDecodeError) as error:
        raise ScoringProblem(
            "A record has no text `id`: give `tf.train.Example`s with a feature `id` "
            "beside the inputs, not tensors alone."
        ) from error


def absolute(pattern: str) -> str:
    """Returns a pattern of local files with its folder.

    Beam finds no file for one without a slash.
    """
    is_local = FileSystems.get_scheme(pattern) is None
    return os.path.abspath(pattern) if is_local else pattern


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
            | beam.io.ReadFromTFRecord(absolute(given.input))
            | beam.Map(with_its_id)
            | ScoreRows(given.saved_model)
            | WriteScores(given.output, given.saved_model)
        )


if __name__ == "__main__":
    try:
        main()
    except ScoringProblem as problem:
        sys.exit(f"{problem}")
