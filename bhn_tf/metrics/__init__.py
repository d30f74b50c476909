"""How good predictive probabilities, and scores of uncertainty, are.

Keras metrics `ExpectedCalibrationError`, `BrierScore` and `NegativeLogLikelihood`, and
functions of whole arrays: `reliability` (`calibration.py`), `detection`,
`detection_curve`, `risk_coverage` and `reject_threshold` (`ranking.py`).
"""

from bhn_tf.metrics.calibration import (
    BrierScore,
    ExpectedCalibrationError,
    NegativeLogLikelihood,
    Reliability,
    reliability,
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

__all__ = [
    "BrierScore",
    "DetectionCurve",
    "ExpectedCalibrationError",
    "NegativeLogLikelihood",
    "RejectThreshold",
    "Reliability",
    "RiskCoverage",
    "detection",
    "detection_curve",
    "reject_threshold",
    "reliability",
    "risk_coverage",
]
