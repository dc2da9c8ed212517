"""Heads and their parameter layers."""

from keras_likelihood.layers.likelihood_head import (
    LikelihoodHead,
    QuantilesHead,
    RobustRhoHead,
    ScaleHead,
    TemperatureHead,
)
from keras_likelihood.layers.parameter_layers import (
    GlobalParameter,
    PredictedParameter,
)
from keras_likelihood.layers.views import TwoViews

__all__ = [
    "GlobalParameter",
    "LikelihoodHead",
    "PredictedParameter",
    "QuantilesHead",
    "RobustRhoHead",
    "ScaleHead",
    "TemperatureHead",
    "TwoViews",
]
