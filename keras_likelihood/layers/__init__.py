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

__all__ = ["GlobalParameter", "LikelihoodHead", "PredictedParameter"]
__all__ += ["QuantilesHead", "RobustRhoHead", "ScaleHead", "TemperatureHead"]
__all__ += ["TwoViews"]
