"""Metrics of calibration and sharpness.

The classes are Keras metrics, see `DistributionMetric`. The NumPy functions in
`keras_likelihood.metrics.functions` take whole datasets.
"""

from keras_likelihood.metrics import functions
from keras_likelihood.metrics.distribution_metrics import (
    BrierScore,
    CalibrationError,
    ClassMetric,
    ContinuousRankedProbabilityScore,
    DistributionMetric,
    ExpectedCalibrationError,
    IntervalCoverage,
    NegativeLogLikelihood,
    Sharpness,
)

__all__ = [
    "BrierScore",
    "CalibrationError",
    "ClassMetric",
    "DistributionMetric",
    "ExpectedCalibrationError",
    "IntervalCoverage",
    "NegativeLogLikelihood",
    "ContinuousRankedProbabilityScore",
    "Sharpness",
    "functions",
]
