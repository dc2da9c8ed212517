"""Layers and models that recalibrated models consist of.

Files of recalibrated models contain them, so they need no SciPy. A recalibrated
stock classifier contains none of them.
"""

from keras_likelihood.serving.layers import (
    ClassLogits,
    LikelihoodPrediction,
    RecalibratedRegressor,
)

__all__ = [
    "ClassLogits",
    "LikelihoodPrediction",
    "RecalibratedRegressor",
]
