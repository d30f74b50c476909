"""Data of any kind as feeds, with their spec, rows, checks and number of examples.

`feed_of` tells the kinds apart; each has its own `Feed`.
"""

from bhn_tf.data_feeds.checks import (
    BatchChecks,
    readable_data_errors,
    which_are_finite,
)
from bhn_tf.data_feeds.feed import (
    HOW_TO_GIVE_ROWS,
    NO_BATCH,
    NO_BATCH_LEFT,
    Feed,
    inputs_of,
    leaves_of,
    num_rows,
    of_one_output,
    unpacked,
    unpacked_validation,
)
from bhn_tf.data_feeds.frames import array_of_frame
from bhn_tf.data_feeds.kinds import feed_of, labelled_rows

__all__ = [
    "HOW_TO_GIVE_ROWS",
    "NO_BATCH",
    "NO_BATCH_LEFT",
    "BatchChecks",
    "Feed",
    "array_of_frame",
    "feed_of",
    "inputs_of",
    "labelled_rows",
    "leaves_of",
    "num_rows",
    "of_one_output",
    "readable_data_errors",
    "unpacked",
    "unpacked_validation",
    "which_are_finite",
]
