"""Metrics of calibration and sharpness.

In the `compile` of a `LikelihoodModel` they judge the distribution of its
loss. Elsewhere they take a `Likelihood` or an output; see
`DistributionMetric`.

The classes are Keras metrics, which take batches one by one. The NumPy
functions in `keras_likelihood.metrics.functions` take whole data sets.
"""

from keras_likelihood.metrics import functions
from keras_likelihood.metrics.distribution_metrics import (
    BrierScore,
    CalibrationError,
    ClassMetric,
    DistributionMetric,
    ExpectedCalibrationError,
    IntervalCoverage,
    NegativeLogLikelihood,
    NormalCRPS,
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
    "NormalCRPS",
    "Sharpness",
    "functions",
]
