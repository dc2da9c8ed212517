"""Metrics of calibration and sharpness.

The classes are Keras metrics, see `DistributionMetric`. The NumPy functions in
`keras_likelihood.metrics.functions` take whole datasets.
"""

import importlib
from typing import Any

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


def __getattr__(name: str) -> Any:
    # Training needs no functions of whole datasets.
    if name == "functions":
        return importlib.import_module(f"{__name__}.functions")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
