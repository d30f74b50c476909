"""`bhn_tf.scoring.beam` under its shorter name: scores in an Apache Beam pipeline."""

from bhn_tf.scoring.beam import SavedModelHandler, ScoreRows, parquet_schema

__all__ = ["SavedModelHandler", "ScoreRows", "parquet_schema"]
