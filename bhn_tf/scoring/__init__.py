"""Scores of files larger than memory, from a SavedModel alone.

A source (an array file, a record file, images) is read batch by batch, the SavedModel
answers each batch, and the answers become columns of consecutive output parts.

Example:
```python
from bhn_tf import scoring

scoring.score_files("saved_models/digits", ["digits-*.npy"], "scores.parquet")
```
"""

from bhn_tf.scoring.parts import as_columns
from bhn_tf.scoring.runs import Summary, score_files
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel

__all__ = ["ScoringProblem", "ServedModel", "Summary", "as_columns", "score_files"]
