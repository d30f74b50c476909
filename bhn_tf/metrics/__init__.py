"""How good predictive probabilities and scores of uncertainty are.

Keras metrics `ExpectedCalibrationError`, `BrierScore` and `NegativeLogLikelihood`, and
functions of whole arrays: `reliability` (`calibration.py`), `detection`,
`detection_curve`, `risk_coverage` and `reject_threshold` (`ranking.py`). For numbers
and sets: `coverage`, `mean_width`, `set_size`, `interval_score`, `crps` and `pinball`
(`intervals.py`), also as Keras metrics (`interval_metrics.py`). For waiting times:
`concordance_index` (`survival.py`).
"""

from bhn_tf.metrics.calibration import (
    BrierScore,
    ExpectedCalibrationError,
    NegativeLogLikelihood,
    Reliability,
    reliability,
)
from bhn_tf.metrics.interval_metrics import (
    CRPS,
    IntervalCoverage,
    IntervalScore,
    IntervalWidth,
    Pinball,
    SetSize,
)
from bhn_tf.metrics.intervals import (
    coverage,
    crps,
    interval_score,
    mean_width,
    pinball,
    set_size,
)
from bhn_tf.metrics.ranking import (
    DetectionCurve,
    RejectThreshold,
    RiskCoverage,
    detection,
    detection_curve,
    reject_threshold,
    risk_coverage,
)
from bhn_tf.metrics.survival import concordance_index

__all__ = [
    "CRPS",
    "BrierScore",
    "DetectionCurve",
    "ExpectedCalibrationError",
    "IntervalCoverage",
    "IntervalScore",
    "IntervalWidth",
    "NegativeLogLikelihood",
    "Pinball",
    "RejectThreshold",
    "Reliability",
    "RiskCoverage",
    "SetSize",
    "concordance_index",
    "coverage",
    "crps",
    "detection",
    "detection_curve",
    "interval_score",
    "mean_width",
    "pinball",
    "reject_threshold",
    "reliability",
    "risk_coverage",
    "set_size",
]
