"""Guarantees: intervals and sets that hold the truth as often as promised.

Conformity scores are in `interval_scores.py` and `set_scores.py`, thresholds in
`ranks.py`, the error rate of answered rows in `risk.py`.
"""

from bhn_tf.conformal.calibrated import Calibrated
from bhn_tf.conformal.calibration import calibrate
from bhn_tf.conformal.drift import ConformalMartingale, DriftMonitor
from bhn_tf.conformal.interval_scores import (
    Absolute,
    LowerBound,
    Normalized,
    Quantile,
    UpperBound,
)
from bhn_tf.conformal.risk import controlled_threshold
from bhn_tf.conformal.set_scores import APS, LAC, RAPS

__all__ = [
    "APS",
    "LAC",
    "RAPS",
    "Absolute",
    "Calibrated",
    "ConformalMartingale",
    "DriftMonitor",
    "LowerBound",
    "Normalized",
    "Quantile",
    "UpperBound",
    "calibrate",
    "controlled_threshold",
]
