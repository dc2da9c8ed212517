"""Layers and models that recalibrated models consist of.

Files of recalibrated models contain them, so they need no SciPy.
"""

from keras_likelihood.serving.layers import (
    BoundedLogits,
    ClassLogits,
    LikelihoodPrediction,
    LinearPool,
    LogOdds,
    LogProbabilities,
    LogSoftmax,
    OneVsRestTable,
    PairedLogits,
    PooledLogits,
    SecondClass,
    SortedColumns,
    TemperedLogits,
    TemperedProbabilities,
)
from keras_likelihood.serving.recalibrated import RecalibratedRegressor

__all__ = [
    "BoundedLogits",
    "ClassLogits",
    "LikelihoodPrediction",
    "LinearPool",
    "LogOdds",
    "LogProbabilities",
    "LogSoftmax",
    "OneVsRestTable",
    "PairedLogits",
    "PooledLogits",
    "RecalibratedRegressor",
    "SecondClass",
    "SortedColumns",
    "TemperedLogits",
    "TemperedProbabilities",
]
