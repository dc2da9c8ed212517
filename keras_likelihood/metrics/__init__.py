"""Metrics of calibration and sharpness.

In the `compile` of a `LikelihoodModel` they judge the distribution of its
loss. Elsewhere they take a `Likelihood` or an output; see
`DistributionMetric`.

The classes are Keras metrics, which take batches one by one. The NumPy
functions in `keras_likelihood.metrics.functions` take whole data sets.
"""

from keras_likelihood.metrics import functions
from keras_likelihood.metrics.brier_score import BrierScore
from keras_likelihood.metrics.calibration_error import CalibrationError
from keras_likelihood.metrics.class_metric import ClassMetric
from keras_likelihood.metrics.distribution_metric import DistributionMetric
from keras_likelihood.metrics.expected_calibration_error import (
    ExpectedCalibrationError,
)
from keras_likelihood.metrics.interval_coverage import IntervalCoverage
from keras_likelihood.metrics.negative_log_likelihood import (
    NegativeLogLikelihood,
)
from keras_likelihood.metrics.normal_crps import NormalCRPS
from keras_likelihood.metrics.sharpness import Sharpness

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
